"""The numerical experiments against what is known without them, and the verdicts they lead to."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from ntk_conditioning.claim_experiments import Setting
from ntk_conditioning.claim_experiments.liu2023relu import random_matrices
from ntk_conditioning.claim_experiments.papers import UnknownPaperError, measure
from ntk_workflow.claims import FAILS, HOLDS, UNDER_A_CONDITION, Finding
from tests.ntk_conditioning.claim_experiments.findings import KEYS, findings_on, measured

SETTING = Setting(widths=[64, 256, 1024], depths=[1, 2, 4], seeds=[1, 32])


# One worker measures for all of these tests.
pytestmark = pytest.mark.xdist_group("liu2023relu")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return measured("liu2023relu", SETTING)


@pytest.fixture(scope="module")
def findings(table: pd.DataFrame) -> Mapping[str, Finding]:
    return findings_on("liu2023relu", table)


def test_every_measurement_is_a_number_of_its_own(table: pd.DataFrame):
    assert np.isfinite(table["value"]).all()
    assert not table.duplicated(KEYS).any()


def test_every_misprint_fails_and_what_corrects_it_holds(findings: Mapping[str, Finding]):
    printed = [name for name in findings if name.endswith("_printed")]
    assert len(printed) == 10
    for name in printed:
        assert findings[name].verdict == FAILS, name
    for name in (
        "gram_shape",
        "theorem_3_1_gradient_norm",
        "corollary_3_2_kernel",
        "theorem_4_4_gradient_norm",
        "equation_37",
        "theorem_4_5",
        "equation_44",
        "equation_47",
    ):
        assert findings[name].verdict == HOLDS, name
    assert findings["theorem_5_1_lambda_max"].verdict == UNDER_A_CONDITION


def test_theorems_hold(findings: Mapping[str, Finding]):
    names = [
        name
        for name in findings
        if name.startswith(("theorem_", "corollary_", "proposition_", "lemma_", "figure_1_"))
        and not name.endswith("_printed")
    ]
    assert len(names) > 25
    failing = {name for name in names if findings[name].verdict == FAILS}
    assert not failing


def test_figure_1s_curve_meets_the_diagonal_where_two_samples_kappa_flips(table: pd.DataFrame):
    """At depth 1 from Eq. (10) alone: 2 cos z = cos z (1 - z/pi) + cos g(z)."""
    rows = table.set_index("statement")
    at = rows.loc["pair_kappa_flip"].query("depth == 1")["value"].item()
    z = math.radians(at)
    cos_g = (1 - z / math.pi) * math.cos(z) + math.sin(z) / math.pi
    assert math.cos(z) * (1 - z / math.pi) + cos_g == pytest.approx(2 * math.cos(z), rel=1e-12)
    assert 60 < at < 70


def test_a_pair_that_no_unit_tells_apart_is_mapped_linearly(table: pd.DataFrame):
    rows = table.query("statement == 'separation' and at < 1e-6")
    assert len(rows) > 10
    ratios = rows.groupby(["depth", "width", "seed"])["value"].agg(["min", "max", "size"])
    assert (ratios["size"] > 2).all()
    assert (ratios["max"] / ratios["min"]).to_numpy() == pytest.approx(1, abs=1e-6)
    kappas = table.query("statement == 'separation_kappa_exponent'")
    finite, infinite = kappas[kappas["width"].notna()], kappas[kappas["width"].isna()]
    assert finite["value"].to_numpy() == pytest.approx(-2, abs=0.05)
    assert infinite["value"].to_numpy() == pytest.approx(-1, abs=0.05)


def test_the_same_setting_measures_the_same():
    once, twice = (list(random_matrices.gaussian_gram(SETTING)) for _ in range(2))
    assert once == twice


def test_a_paper_without_experiments_is_named():
    with pytest.raises(UnknownPaperError, match="no experiments for the paper 'other'"):
        list(measure("other", SETTING))
