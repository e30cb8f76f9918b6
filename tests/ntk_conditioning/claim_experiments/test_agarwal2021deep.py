"""The experiments on agarwal2021deep against closed forms, and the verdicts they lead to."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from ntk_conditioning.claim_experiments import Setting
from ntk_conditioning.claim_experiments.agarwal2021deep import interpolation, norms
from ntk_conditioning.claim_experiments.agarwal2021deep.depth import EPSILONS
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap, correlation_of
from ntk_conditioning.duals.closed_forms import dual
from ntk_conditioning.networks import activations
from ntk_workflow.claims import FAILS, HOLDS, UNDER_A_CONDITION, Finding
from tests.ntk_conditioning.claim_experiments.findings import (
    KEYS,
    content_of,
    findings_on,
    measured,
)

SETTING = Setting(widths=[32, 128], depths=[1, 2], seeds=[1, 32])


# One worker measures for all of these tests.
pytestmark = pytest.mark.xdist_group("agarwal2021deep")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return measured("agarwal2021deep", SETTING)


@pytest.fixture(scope="module")
def findings(table: pd.DataFrame) -> Mapping[str, Finding]:
    return findings_on("agarwal2021deep", table)


def test_every_measurement_is_a_number_of_its_own(table: pd.DataFrame):
    assert np.isfinite(table["value"]).all()
    assert not table.duplicated(KEYS).any()


def test_every_misprint_fails_and_every_theorem_holds_somewhere(findings: Mapping[str, Finding]):
    paper = content_of("agarwal2021deep")
    kinds = {claim["name"]: claim["kind"] for claim in paper["claims"]}
    printed = [name for name in findings if name.endswith("_printed")]
    assert len(printed) == 22
    for name in printed:
        few_samples = name == "theorem_44_step_printed"  # then the step is not too short
        assert findings[name].verdict == (UNDER_A_CONDITION if few_samples else FAILS), name
    theory = {name: found for name, found in findings.items() if kinds[name] == "theory"}
    assert len(theory) > 50
    bounded = {name for name, found in theory.items() if found.verdict != HOLDS}
    assert bounded == {"lemma_1_batch", "theorem_52_uneven", "lemma_54", "theorem_16"}
    assert all(theory[name].verdict == UNDER_A_CONDITION for name in bounded)


def test_what_the_paper_leaves_open_is_decided(findings: Mapping[str, Finding]):
    failing = {"theorem_16_vacuous", "theorem_16_nothing_learned", "theorem_15_proof"}
    assert {findings[name].verdict for name in failing} == {FAILS}
    holding = {"theorem_12_over_bound", "theorem_52_floor", "d_4_convergence"}
    assert {findings[name].verdict for name in holding} == {HOLDS}
    assert findings["d_4_counter_example"].condition


def test_maps_of_relu_are_those_of_cho_and_saul():
    layer = CorrelationMap("normalized_relu")
    rho = np.linspace(-1, 1, 11)
    kappa = (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho) / (2 * np.pi)
    mean = 1 / (2 * np.pi)
    assert layer(rho) == pytest.approx((kappa - mean) / (0.5 - mean), abs=1e-13)
    assert layer.mu == pytest.approx((np.pi - 2) / (2 * np.pi - 2), rel=1e-13)
    assert CorrelationMap("relu").fixed_point == 1


def test_correlations_of_unequal_norms_are_those_of_the_closed_form():
    q, rho = np.array([0.5, 4.0]), np.array([0.9, -0.3])
    found = correlation_of("erf", q[:1], q[1:], rho)
    w = 1 - rho[:, None]
    exact = (
        1
        - dual(activations.get("erf"), q).cosine_distances(
            slice(0, 1), slice(1, 2), w, np.arccos(1 - w)
        )[0]
    )
    assert found == pytest.approx(exact[:, 0], abs=1e-9)


def test_layers_to_one_are_those_of_the_recursion(table: pd.DataFrame):
    """Of the quadratic activation, by hand: 1 - ρ goes to 1 - ρ less a quarter of its square."""
    rows = table.query("statement == 'lemma_36_layers' and activation == 'quadratic'")
    for epsilon in EPSILONS:
        w, layers = 2.0, 0
        while w > epsilon:
            w, layers = w - w**2 / 4, layers + 1
        promised = math.ceil(math.log(2 / epsilon) / -math.log1p(-epsilon / 4))
        found = rows[rows["at"] == epsilon]["value"].item()
        assert found == pytest.approx(layers / max(promised, 4))


def test_fixed_lengths_of_the_shifted_relu_are_roots_of_a_quadratic(table: pd.DataFrame):
    rows = table.query("statement == 'length_fixed_points'")
    assert len(rows) == len(norms.VARIANCES) + 1
    for variance, count in zip(rows["at"], rows["value"], strict=True):
        roots = np.roots([variance / 2 - 1, -variance * math.sqrt(2 / math.pi), variance])
        assert count == np.count_nonzero((np.abs(roots.imag) < 1e-12) & (roots.real > 0))


def test_depth_zero_has_the_covariance_of_the_sphere(table: pd.DataFrame):
    row = table.query("statement == 'covariance_norm' and depth == 0")
    assert row["value"].item() == pytest.approx(1 / interpolation.D, rel=1e-12)


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
