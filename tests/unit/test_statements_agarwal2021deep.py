"""The experiments on agarwal2021deep: numbers of their own, and the verdicts they lead to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from ntk_conditioning.claims import FAILS, HOLDS, Finding, check, read_paper
from ntk_conditioning.statements import Setting
from ntk_conditioning.statements.papers import measure

PAPER = Path(__file__).parents[2] / "papers" / "agarwal2021deep.yaml"
SETTING = Setting(widths=[64, 256], depths=[1, 2], seeds=[1, 32])


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.DataFrame(asdict(each) for each in measure("agarwal2021deep", SETTING))


@pytest.fixture(scope="module")
def findings(table: pd.DataFrame) -> Mapping[str, Finding]:
    paper = read_paper("agarwal2021deep", yaml.safe_load(PAPER.read_text(encoding="utf-8")))
    return {
        claim.name: check(claim, {"statements": table})
        for claim in paper.claims
        if claim.table == "statements"
    }


def test_every_measurement_is_a_number_of_its_own(table: pd.DataFrame):
    assert np.isfinite(table["value"]).all()
    keys = ["statement", "activation", "depth", "width", "n", "d", "seed", "at"]
    assert not table.duplicated(keys).any()


@pytest.mark.parametrize(
    ("printed", "right"),
    [
        ("appendix_c_4_exponential_printed", "appendix_c_4_exponential"),
        ("appendix_c_4_relu_series_printed", "appendix_c_4_relu_series"),
        ("appendix_i_mean_printed", "appendix_i_mean_at_one"),
        ("appendix_i_rate_below_printed", "appendix_i_rate_below"),
        ("appendix_i_sequence_printed", "appendix_i_sequence"),
    ],
)
def test_a_misprint_fails_and_what_corrects_it_holds(
    findings: Mapping[str, Finding], printed: str, right: str
):
    assert findings[printed].verdict == FAILS
    assert findings[right].verdict == HOLDS


def test_what_is_said_of_activations_holds(findings: Mapping[str, Finding]):
    names = [
        name
        for name in findings
        if name.startswith(("equation_4_", "section_7_", "appendix_c_4_", "appendix_i_", "fact_1_"))
        and not name.endswith("_printed")
    ]
    assert len(names) > 20
    assert not {name for name in names if findings[name].verdict != HOLDS}
