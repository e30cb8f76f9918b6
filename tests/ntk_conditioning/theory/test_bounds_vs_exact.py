"""Comparisons with bounds: numbers of samples that can be told by hand, and what is missing."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.infinite import SamplesError
from ntk_conditioning.theory import DomainError
from ntk_conditioning.theory import agarwal2021deep as theory
from ntk_conditioning.theory.bounds_vs_exact import NotOnSphereError, compare

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


def test_samples_in_too_few_dimensions_have_no_assumption_b():
    for row in rows(PLANE, 2000):
        assert row.delta_b is row.l_0_b is row.lambda_min_bound is row.excess_bound_b is None
        assert row.correlation_max < 1e-12
        assert row.excess_bound_a < 1e-3


def test_an_activation_with_a_mean_has_the_fixed_point_instead():
    top, ntk = rows(SPACE, 200, activation="gelu")
    assert top.l_0 is top.correlation_bound is top.excess_bound_b is None
    assert top.distance < top.distance_bound < 0.1
    assert ntk.distance is ntk.distance_bound is None
    numbers = (top.mean, top.fixed_point, top.correlation_max)
    assert numbers == pytest.approx((0.4326, 0.7604, 0.7604), abs=1e-4)


def test_rates_are_those_of_decay_where_it_is_resolved():
    first, _, resolved, lost = rows(SPACE, 50, 100, 150, 600)[::2]
    assert lost.kernel == "nngp"
    assert first.correlation_rate is None
    rates = (resolved.correlation_rate, resolved.excess_rate)
    assert rates == pytest.approx((math.log(1 - first.mu),) * 2, rel=1e-3)
    assert lost.correlation_rate is lost.excess_rate is None  # rounding


@pytest.mark.parametrize(
    ("x", "activation", "error", "problem"),
    [
        (2 * SPACE, "erf", NotOnSphereError, "a norm is 1 from 1"),
        (np.array([[1.0, 0.0], [-1.0, 0.0]]), "erf", NotOnSphereError, "equal or opposite"),
        (SPACE[:1], "erf", SamplesError, "a single sample"),
        (SPACE, "linear", DomainError, "linear activations have 0"),
    ],
)
def test_what_the_theorems_do_not_cover_is_refused(x, activation, error, problem):
    with pytest.raises(error, match=problem):
        rows(x, 1, activation=activation)
