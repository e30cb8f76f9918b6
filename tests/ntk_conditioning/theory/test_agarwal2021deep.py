"""Depths and bounds of agarwal2021deep against the maps and inequalities that they come from."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.theory import DomainError
from ntk_conditioning.theory import agarwal2021deep as theory

deltas = st.floats(1e-9, 1.0)
mus = st.floats(1e-2, 1.0)
sizes = st.integers(2, 10**5)
ROUNDING = 1e-9


@given(delta=deltas, mu=mus)
def test_no_dual_ever_exceeds_b_and_l_0_is_the_first_layer_where_that_is_at_most_a_half(delta, mu):
    """Of all duals with σ̂'(0) = 1 - μ, (1 - μ) ρ + μ ρ² is the largest on [0, 1] (Lemma 21)."""
    first = theory.separating_depth(delta, mu)
    bound = theory.correlation_bound(np.arange(first + 40), delta, mu)
    steps = itertools.repeat(delta, first + 40)
    largest = 1 - np.array([*itertools.accumulate(steps, lambda w, _: w * (1 + mu * (1 - w)))])
    assert (largest <= bound * (1 + ROUNDING) + 1e-15).all()
    assert delta > 0.5 or (np.diff(bound) <= 1e-15).all()  # beyond, it begins below its own B(1)
    assert delta * (1 + mu / 2) ** first >= 0.5 * (1 - ROUNDING)
    assert first == 0 or delta * (1 + mu / 2) ** (first - 1) < 0.5 * (1 + ROUNDING)
    half = theory.correlation_bound(first + 1, delta, mu)
    assert half == pytest.approx((1 - mu / 2) / 2)


@given(n=sizes, delta=deltas, mu=mus, layers=st.integers(0, 300))
@pytest.mark.parametrize("ntk", [False, True])
def test_condition_numbers_are_bounded_by_what_gershgorin_gives(ntk, n, delta, mu, layers):
    """Both proofs: kappa <= (1 + x) / (1 - x) with x = (n - 1) B; and B bounds with λ_min.

    L_1 and L_2 are the first depths at which (1 - μ/2)^(L_1 - L_0) <= 1/n and
    (1 - μ/2)^(L_2/2 - L_0) <= 1/(2n).
    """
    first, apart = theory.first_depth(n, delta, mu, ntk=ntk), theory.separating_depth(delta, mu)
    here, before = (
        2 * n * (1 - mu / 2) ** (depth / 2 - apart) if ntk else n * (1 - mu / 2) ** (depth - apart)
        for depth in (first, first - 1)
    )
    assert here <= 1 + ROUNDING
    assert before * (1 + 1e-6) > 1
    assert (n - 1) * theory.correlation_bound(first, delta, mu, ntk=ntk) <= 0.5
    x = (n - 1) * theory.correlation_bound(first + layers, delta, mu, ntk=ntk)
    sharp = theory.excess_bound(first + layers, n, delta, mu, ntk=ntk, proof=True)
    assert 2 * x / (1 - x) <= sharp * (1 + ROUNDING)
    below, printed = theory.excess_bound([first - 1, first + layers], n, delta, mu, ntk=ntk)
    assert math.isnan(below)
    assert sharp <= printed * (1 + ROUNDING)


@given(n=sizes, delta=deltas, mu=mus, layers=st.integers(0, 3000))
def test_bounds_under_assumption_b_follow_from_b(n, delta, mu, layers):
    """Kappa - 1 <= n B / (1 - B), for the NTK n 2B / (1 - 2B) from where its proof's step holds."""
    b = theory.correlation_bound(layers, delta, mu)
    assert n * b / (1 - b) <= theory.excess_bound_b(layers, n, delta, mu) * (1 + 1e-6)
    first = 4 * theory.separating_depth(delta, mu)
    assert math.isnan(theory.excess_bound_b(first - 1, n, delta, mu, ntk=True)) or not first
    depth = max(layers, first)
    b = theory.correlation_bound(depth, delta, mu, ntk=True)
    if b <= 0.5:
        bound = theory.excess_bound_b(depth, n, delta, mu, ntk=True)
        assert n * b / (1 - b) <= bound * (1 + 1e-6)


def quadratic_path(start, a, c, layers):
    """Return the correlations after layers of σ̂(ρ) = a + (1 - a - c) ρ + c ρ²."""
    steps = itertools.repeat(start, layers)
    return np.array([*itertools.accumulate(steps, lambda r, _: a + (1 - a - c) * r + c * r * r)])


@pytest.mark.parametrize(("a", "c"), [(0.1, 0.4), (0.02, 0.9), (0.3, 0.36), (0.3, 0.2), (0.5, 0.0)])
@pytest.mark.parametrize("delta", [0.9, 0.1, 1e-6])
def test_correlations_stay_below_lemma_35(a, c, delta):
    """The dual's fixed points are 1 and a / c."""
    rho, mu = min(1.0, a / c if c else 1.0), max(c, 1e-12)
    numbers = {"rho": rho, "mu": mu, "slope": 1 - a - c + 2 * c * rho, "dual_at_0": a}
    bound = np.array([theory.convergence_bound(depth, delta, **numbers) for depth in range(2000)])
    first = theory.convergence_depth(delta, rho, mu, a)
    assert np.isnan(bound[:first]).all()
    assert not np.isnan(bound[first:]).any()
    for start in np.linspace(-1 + delta, 1 - delta, 9):
        path = quadratic_path(start, a, c, 2000)
        assert (np.abs(path - rho)[first:] <= bound[first:] + 1e-12).all()
    assert bound[-1] < 1e-3


def test_correlations_stay_below_lemma_36():
    """With a = c the slope at 1 is 1."""
    numbers = {"rho": 1.0, "mu": 0.2, "slope": 1.0, "dual_at_0": 0.2}
    bound = np.array([theory.convergence_bound(depth, 0.1, **numbers) for depth in range(5000)])
    known = ~np.isnan(bound)
    assert known[-1]
    assert (1 - quadratic_path(-1.0, 0.2, 0.2, 5000)[known] <= bound[known]).all()
    epsilon = bound[4000]
    assert math.log(2 / epsilon) / -math.log1p(-epsilon * 0.1) == pytest.approx(4000)


def test_what_a_theorem_does_not_cover_is_refused():
    with pytest.raises(DomainError, match="samples must differ in direction"):
        theory.separating_depth(0.0, 0.5)
    with pytest.raises(DomainError, match="not in 0…1"):
        theory.convergence_depth(0.5, 0.5, 0.5, 0.0)
