"""The papers' theorems against their printed forms, the maps they come from, and known limits."""

import itertools
import math
from functools import partial
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.angles.pairs import ZeroRowError
from ntk_conditioning.errors import UserError
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.infinite import SamplesError
from ntk_conditioning.networks import activations
from ntk_conditioning.theory import DomainError, liu2022transition, liu2023relu
from ntk_conditioning.theory import agarwal2021deep as theory
from ntk_conditioning.theory.bounds_vs_exact import compare
from ntk_conditioning.theory.phase_diagram import DataPlace
from tests.ntk_conditioning.references import gradient_cosine, relu_angles


@pytest.mark.parametrize("depth", [0, 1, 2, 5, 10])
@pytest.mark.parametrize("theta", [1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.29, 0.31, 1, 2, 3, math.pi])
def test_angles_are_those_of_theorem_4_4(theta, depth):
    """In 60 digits, of which the arccosines lose half."""
    with mpmath.workdps(60):
        embedding = float(relu_angles(theta, depth)[-1])
        gradient = float(mpmath.acos(gradient_cosine(theta, depth)))
    tolerance = 2e-15 if depth <= 1 else 1e-14
    found = liu2023relu.embedding_angle(theta, depth), liu2023relu.gradient_angle(theta, depth)
    assert found[0].item() == pytest.approx(embedding, rel=tolerance)
    assert found[1].item() == pytest.approx(gradient, rel=1e-14)


@pytest.mark.parametrize("depth", [1, 2, 10])
def test_theorem_4_5_is_the_cosine_of_small_angles(depth):
    theta = 1e-7 / depth
    distance = 2 * math.sin(float(liu2023relu.gradient_angle(theta, depth)) / 2) ** 2
    assert 1 - liu2023relu.gradient_cosine_small(theta, depth) == pytest.approx(distance, rel=1e-5)


def test_loss_bound_is_equation_13():
    """At kappa 1 nothing has happened yet after no step, and all after one."""
    bound = liu2023relu.loss_bound([4.0, 4.0, 1.0, 1.0, math.inf], [1, 5, 0, 1, 100], 3.0)
    np.testing.assert_allclose(bound, [3 * 0.75, 3 * 0.75**5, 3, 0, 3], rtol=1e-14)


@pytest.mark.parametrize("distance", [1.0, 1e-2])
def test_the_bound_of_proposition_2_2_is_attained_by_the_vector_of_its_proof(distance):
    rng = np.random.default_rng(0)
    b = rng.standard_normal((2, 9))
    b[1] = 1.3 * b[0] + distance * b[1]
    norms = np.linalg.norm(b, axis=1)
    angle = math.acos(b[0] @ b[1] / norms.prod())
    v = norms[::-1] * [1, -1]
    attained = v @ b @ b.T @ v / (v @ v)
    assert liu2023relu.lambda_min_bound(*norms, angle) == pytest.approx(attained, rel=1e-9)


#: The largest slope and curvature by calculus.
SUPREMA = {"tanh": (1.0, 4 / math.sqrt(27)), "sigmoid": (0.25, 1 / math.sqrt(108))}
SUPREMA |= {"softplus": (1.0, 0.25), "linear": (1.0, 0.0), "relu": (1.0, math.inf)}
SUPREMA["erf"] = 2 / math.sqrt(math.pi), 2 * math.sqrt(2 / (math.pi * math.e))


@pytest.mark.parametrize("name", SUPREMA)
def test_suprema_of_slopes_are_those_of_calculus(name):
    largest, curvature = liu2022transition.slope_bounds(activations.get(name))
    assert (largest, curvature) == pytest.approx(SUPREMA[name], rel=1e-6)
    assert largest <= SUPREMA[name][0] * (1 + 1e-12)
    assert curvature <= SUPREMA[name][1] * (1 + 1e-10)  # differences lose digits


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
    """Both proofs: kappa <= (1 + x) / (1 - x) with x = (n - 1) B.

    The first depths are those of (1 - μ/2)^(L_1 - L_0) <= 1/n and (1 - μ/2)^(L_2/2 - L_0) <= 1/2n.
    """
    first, apart = theory.first_depth(n, delta, mu, ntk=ntk), theory.separating_depth(delta, mu)
    by = 2 if ntk else 1
    here, before = by * n * (1 - mu / 2) ** (np.array([first, first - 1]) / by - apart)
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
    first = 4 * theory.separating_depth(delta, mu)
    assert math.isnan(theory.excess_bound_b(first - 1, n, delta, mu, ntk=True)) or not first
    for ntk, depth in ((False, layers), (True, max(layers, first))):
        b = theory.correlation_bound(depth, delta, mu, ntk=ntk)
        bound = theory.excess_bound_b(depth, n, delta, mu, ntk=ntk)
        assert n * b / (1 - b) <= bound * (1 + 1e-6) or (ntk and b > 0.5)


def lemma(start, a, c, delta, rho, depths):
    """Return the distances to ρ under σ̂(ρ) = a + (1 - a - c) ρ + c ρ², and their bounds."""
    steps = itertools.repeat(start, depths)
    path = [*itertools.accumulate(steps, lambda r, _: a + (1 - a - c) * r + c * r * r)]
    numbers = {"mu": max(c, 1e-12), "slope": 1 - a - c + 2 * c * rho, "dual_at_0": a}
    bounds = [theory.convergence_bound(k, delta, rho=rho, **numbers) for k in range(depths)]
    return np.abs(np.array(path) - rho), np.array(bounds)


@pytest.mark.parametrize(("a", "c"), [(0.1, 0.4), (0.02, 0.9), (0.3, 0.36), (0.3, 0.2), (0.5, 0.0)])
@pytest.mark.parametrize("delta", [0.9, 0.1, 1e-6])
def test_correlations_stay_below_lemma_35(a, c, delta):
    """The dual's fixed points are 1 and a / c."""
    rho = min(1.0, a / c if c else 1.0)
    first = theory.convergence_depth(delta, rho, max(c, 1e-12), a)
    for start in np.linspace(-1 + delta, 1 - delta, 9):
        distances, bounds = lemma(start, a, c, delta, rho, 2000)
        np.testing.assert_array_equal(np.isnan(bounds), np.arange(2000) < first)
        assert (distances <= bounds + 1e-12)[first:].all()
    assert bounds[-1] < 1e-3


def test_correlations_stay_below_lemma_36():
    """With a = c the slope at 1 is 1."""
    distances, bounds = lemma(-1.0, 0.2, 0.2, 0.1, 1.0, 5000)
    assert not np.isnan(bounds[-1])
    assert ((distances <= bounds) | np.isnan(bounds)).all()
    epsilon = bounds[4000]
    assert math.log(2 / epsilon) / -math.log1p(-epsilon * 0.1) == pytest.approx(4000)


# Three directions with correlations 0.8, 0.6 and 0; in the plane, so that their Gram matrix is
# singular, and with a third dimension, so that it is not.
PLANE = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
SPACE = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.6, 0.8]])


def rows(x: np.ndarray, *depths: int, activation: str = "erf") -> list[SimpleNamespace]:
    return [SimpleNamespace(**row) for row in compare(x, depths=depths, activation=activation)]


def test_rows_are_the_kernels_and_the_theorems_of_their_samples():
    top, ntk = rows(SPACE, 3)
    assert (top.kernel, ntk.kernel) == ("nngp", "infinite_ntk")
    assert top.delta_a == pytest.approx(0.2)
    assert top.delta_b == pytest.approx(np.linalg.eigvalsh(SPACE @ SPACE.T)[0])
    for row, kernel in ((top, infinite.nngp), (ntk, infinite.ntk)):
        k = kernel(SPACE, depth=3, activation="erf")
        low, _, high = np.linalg.eigvalsh(k) / k[0, 0]
        numbers = (row.lambda_min, row.lambda_max, row.kappa, row.excess)
        assert numbers == pytest.approx((low, high, high / low, high / low - 1), rel=1e-12)
        assert row.correlation_max == pytest.approx(np.abs(k / k[0, 0] - np.eye(3)).max())
        assert row.mu == pytest.approx(0.0864, abs=1e-4)
        assert row.lambda_error < 1e-12
    b = theory.correlation_bound(3, top.delta_b, top.mu)
    assert top.lambda_min_bound == pytest.approx(1 - b)
    assert top.correlation_bound == pytest.approx(theory.correlation_bound(3, 0.2, top.mu))
    assert top.excess_bound_b == pytest.approx(3 / top.delta_b * (1 + top.mu / 2) ** -3)
    # depth 3 is below L_1, and for the NTK below all of its depths
    assert top.excess_bound_a is ntk.correlation_bound is ntk.excess_bound_b is None
    assert top.l_kappa == theory.first_depth(3, top.delta_a, top.mu)
    assert ntk.l_kappa == theory.first_depth(3, top.delta_a, top.mu, ntk=True)


def test_too_few_dimensions_have_no_assumption_b_and_a_mean_has_the_fixed_point_instead():
    for row in rows(PLANE, 2000):
        assert row.delta_b is row.l_0_b is row.lambda_min_bound is row.excess_bound_b is None
        assert row.correlation_max < 1e-12
        assert row.excess_bound_a < 1e-3
    top, ntk = rows(SPACE, 200, activation="gelu")
    assert top.l_0 is top.correlation_bound is top.excess_bound_b is None
    assert top.distance < top.distance_bound < 0.1
    assert ntk.distance is ntk.distance_bound is None
    numbers = (top.mean, top.fixed_point, top.correlation_max)
    assert numbers == pytest.approx((0.4326, 0.7604, 0.7604), abs=1e-4)


def test_rates_are_those_of_decay_where_it_is_resolved():
    first, _, resolved, lost = rows(SPACE, 50, 100, 150, 600)[::2]
    rates = (resolved.correlation_rate, resolved.excess_rate)
    assert rates == pytest.approx((math.log(1 - first.mu),) * 2, rel=1e-3)
    assert lost.kernel == "nngp"
    assert first.correlation_rate is lost.correlation_rate is lost.excess_rate is None  # rounding
    later = rows(np.linalg.qr(SPACE)[0], 0, 1, activation="gelu")[2]  # orthogonal up to rounding
    assert later.correlation_max > 0.1
    assert later.correlation_rate is later.excess_rate is None


def test_what_the_theorems_do_not_cover_is_refused():
    angles = liu2023relu.embedding_angle, liu2023relu.gradient_angle
    outside = [([0.5, theta], 2) for theta in (-1e-9, 3.2, math.nan)]
    for function, arguments, error, problem in (
        (theory.separating_depth, (0.0, 0.5), DomainError, "samples must differ in direction"),
        *((f, each, DomainError, r"lies in \[0, π\]") for f in angles for each in outside),
        (rows, (2 * SPACE, 1), SamplesError, "norms from 2 to 2; scale the samples to norm 1"),
        (rows, (PLANE[:1] * [[1], [-1]], 1), DomainError, "equal or opposite"),
        (rows, (SPACE[:1], 1), SamplesError, "a single sample"),
        (DataPlace("a", 0 * SPACE, 3).draw, (1,), ZeroRowError, "3 rows are zero"),
        (DataPlace("a", SPACE[:, :1] + 1, 3).law, (None,), UserError, "a: .* one direction"),
        (partial(rows, activation="linear"), (SPACE, 1), DomainError, "linear activations have 0"),
    ):
        with pytest.raises(error, match=problem):
            function(*arguments)
