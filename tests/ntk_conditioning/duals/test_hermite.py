"""Hermite coefficients, fixed points and length maps against closed forms and duals."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import factorial

from ntk_conditioning.duals.closed_forms import dual, pair_cosine_distances
from ntk_conditioning.duals.fixed_points import fixed_point
from ntk_conditioning.duals.hermite import expand, expansion
from ntk_conditioning.duals.length_maps import bias, length_map, length_map_slope
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.agarwal2021deep import NormReLU

K = np.arange(65)


def cosine_after(layer, rho):
    return 1 - pair_cosine_distances(layer, np.array(1 - rho))[0].item()


def beyond(kink, lost):
    """Return φ(k) He_{k - lost}(k) / √k!: of a jump after one integral, of a bend after two."""
    polynomials = np.polynomial.hermite_e.hermevander(kink, 64 - lost)[0] * stats.norm.pdf(kink)
    return polynomials / np.sqrt(factorial(K[lost:]))


RELU = np.r_[stats.norm.pdf(0), 1 / 2, beyond(0.0, 2)]
JUMP = np.r_[stats.norm.sf(0.7), beyond(0.7, 1)]


@pytest.mark.parametrize(
    ("function", "kinks", "coefficients", "mu"),
    [
        (lambda z: z, (), 1.0 * (K == 1), 0.0),
        (lambda z: (z**2 - 1) / math.sqrt(2), (), 1.0 * (K == 2), 1.0),
        (np.exp, (), np.sqrt(math.e / factorial(K)), (math.e - 2) / (math.e - 1)),
        (lambda z: np.maximum(z, 0), (0.0,), RELU, (math.pi - 2) / (2 * math.pi - 2)),
        (lambda z: 1.0 * (z >= 0.7), (0.7,), JUMP, 1 - JUMP[1] ** 2 / (JUMP[0] - JUMP[0] ** 2)),
    ],
    ids=["identity", "second Hermite", "exponential", "ReLU", "jump"],
)
def test_coefficients_are_those_of_closed_forms(function, kinks, coefficients, mu):
    """a_k² and μ of agarwal2021deep, Appendix C.4, corrected."""
    series = expand(function, kinks=kinks)
    assert (np.abs(series.coefficients - coefficients) <= series.errors).all()
    assert series.errors.max() < 5e-14
    assert abs(series.non_linearity - mu) <= series.error
    tail = 1 - np.sum(np.square(coefficients)) / series.square
    assert series.tail == pytest.approx(tail, abs=1e-14)


def test_errors_are_large_where_a_kink_is_not_given():
    right, wrong = (expand(lambda z: np.maximum(z - 0.7, 0), kinks=k) for k in ((0.7,), ()))
    assert wrong.errors.max() > 1e-7
    assert np.abs(right.coefficients - wrong.coefficients).max() <= 3 * wrong.errors.max()


@pytest.mark.parametrize("name", ["relu", "tanh", "selu", "normrelu", "normalized_gelu"])
def test_the_series_is_the_dual(name):
    sigma = activations.get(name)
    series, layer = expansion(sigma), dual(sigma, np.ones(1))
    for rho in (-0.5, 0.0, 0.3, 0.5):
        expected = pytest.approx(cosine_after(layer, rho), abs=1e-13)
        assert series.dual(rho) / series.square == expected


def test_affinity_is_measured_without_cancellation():
    """z + 1e-6 h_2(z) + 3: μ is 1e-12 / (1 + 1e-12)."""
    series = expand(lambda z: z + 1e-6 * (z**2 - 1) / math.sqrt(2) + 3)
    assert series.non_linearity == pytest.approx(1e-12, rel=1e-8, abs=0)
    assert series.non_affinity == pytest.approx(1e-13, rel=1e-8, abs=0)


@pytest.mark.parametrize("name", ["gelu", "normalized_relu", "tanh", "sigmoid"])
def test_a_layer_keeps_the_fixed_point_and_shrinks_distances_by_its_slope(name):
    sigma = activations.get(name)
    point, layer = fixed_point(sigma), dual(sigma, np.ones(1))
    assert cosine_after(layer, point.rho) == pytest.approx(point.rho, abs=1e-12)
    near = cosine_after(layer, point.rho - 1e-6)
    assert (point.rho - near) / 1e-6 == pytest.approx(point.slope, rel=1e-4)


def test_certain_fixed_points_are_exact():
    names = ("linear", "normrelu", "relu", "leaky_relu-0.2", "softplus")
    points = [fixed_point(activations.get(name)) for name in names]
    assert [(point.rho, point.error) for point in points] == [(0, 0)] * 2 + [(1, 0)] * 3


@pytest.mark.parametrize("kink", [-1.5975, 0.3])
def test_quadrature_is_normrelus_closed_form(kink):
    gamma = np.array([0.1, 0.5, 1.0, 2.0, 5.0])
    sigma, theory = activations.normrelu(kink), NormReLU(kink)
    np.testing.assert_allclose(length_map(sigma, gamma), theory.length_map(gamma), rtol=1e-13)
    slope = length_map_slope(sigma, gamma)
    np.testing.assert_allclose(slope, theory.length_map_slope(gamma), rtol=1e-12)
    np.testing.assert_allclose(bias(sigma, gamma), theory.bias(gamma), rtol=1e-11, atol=1e-15)
