"""Duals and Hermite expansions: quadrature against closed forms, many digits and integration."""

import itertools
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import factorial
from torch.nn import functional

from ntk_conditioning.duals import quadrature
from ntk_conditioning.duals.closed_forms import dual, pair_cosine_distances
from ntk_conditioning.duals.fixed_points import fixed_point
from ntk_conditioning.duals.hermite import expand, expansion
from ntk_conditioning.duals.length_maps import bias, length_map, length_map_slope
from ntk_conditioning.duals.piecewise_linear import PiecewiseLinearDual
from ntk_conditioning.duals.quadrature import QuadratureDual
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.theory.agarwal2021deep import NormReLU

ANGLES = (1e-9, 1e-5, 0.29, 0.31, 1.0, 2.0, 3.0, math.pi)


def cosine_distances(layer, theta, first=0):
    """Return w' and h of the ``first`` and the second sample of a dual at one angle."""
    w, angle = np.full((1, 1), 2 * math.sin(theta / 2) ** 2), np.full((1, 1), theta)
    next_w, h = layer.cosine_distances(slice(first, first + 1), slice(1, 2), w, angle)
    return next_w.item(), h.item()


def pieces(sigma):
    """Return the terms (c, k, p) of a piecewise linear function Σ c max(z - k, 0)^p."""
    at = np.array([-60, *sorted({0, *sigma.kinks})])  # first where no sample is
    jumps = np.diff(sigma.slopes(at + 1e-9), prepend=0).tolist()
    level = sigma.values(at)[0].item(), -60, 0
    return [level, *((c, k, 1) for c, k in zip(jumps, at, strict=True))]


def piecewise_layer(terms, q, theta):
    """Return w' and h, E σ(√q z)² and E σ'(√q z)² of σ(z) = Σ c max(z - k, 0)^p in 40 digits.

    Given u = √q z, v is normal with mean √q' ρ z and deviation √q' sin θ, of which the means of σ
    and σ' are known; what is left is an integral over z.
    """
    with mpmath.workdps(40):
        angle, roots = mpmath.mpf(theta), [mpmath.sqrt(mpmath.mpf(each)) for each in q]
        terms = [(mpmath.mpf(c), mpmath.mpf(k), p) for c, k, p in terms]
        means = (  # of max(z - t, 0)^p
            lambda t: mpmath.ncdf(-t),
            lambda t: mpmath.npdf(t) - t * mpmath.ncdf(-t),
            lambda t: (1 + t * t) * mpmath.ncdf(-t) - t * mpmath.npdf(t),
        )

        def value(terms, z):
            return sum(c * (z - k) ** p for c, k, p in terms if z > k)

        def mean_value(terms, z):  # of v, given z
            at, sd = roots[1] * mpmath.cos(angle) * z, roots[1] * mpmath.sin(angle)
            return sum(c * sd**p * means[p]((k - at) / sd) for c, k, p in terms)

        def integral(of, *edges):
            inside = sorted(z for z in {*edges, *range(-12, 13, 4)} if -16 < z < 16)
            return mpmath.quad(lambda z: mpmath.npdf(z) * of(z), [-16, *inside, 16])

        def of_two(terms):
            # where v, given u, is at a kink, to within some sin θ
            steps = [step * mpmath.sin(angle) for step in (-40, -8, -2, 0, 2, 8, 40)]
            layers = [k / roots[1] / mpmath.cos(angle) + s for _, k, _ in terms for s in steps]
            edges = [[k / root for _, k, _ in terms] for root in roots]
            product = integral(
                lambda z: value(terms, roots[0] * z) * mean_value(terms, z), *edges[0], *layers
            )
            squares = [
                integral(lambda z, root=root: value(terms, root * z) ** 2, *at)
                for root, at in zip(roots, edges, strict=True)
            ]
            return float(1 - product / mpmath.sqrt(mpmath.fprod(squares))), [*map(float, squares)]

        derivative = [(c * p, k, p - 1) for c, k, p in terms if p]
        return zip(of_two(terms), of_two(derivative), strict=True)


def bent(function, *kinks):
    derivative = torch.func.grad(lambda z: function(z).sum())
    return Activation(function.__name__, function, derivative, kinks=kinks)


def hat(z):
    return 2 - (z - 0.5).abs()


HARD_TANH, HARD_SWISH = bent(functional.hardtanh, 1, -1), bent(functional.hardswish, -3, 3)
BENDS = [(-1 / 2, -3, 1), (-1 / 2, 3, 1), (1 / 6, -3, 2), (-1 / 6, 3, 2)]  # of hardswish
PIECEWISE_LINEAR = [HARD_TANH, bent(functional.relu6, 6), bent(hat, 0.5)]
PIECEWISE_LINEAR += map(activations.normrelu, (-1.5975, -0.25, 2))
VARIANCES = [(1, 1), (0.5, 2), (1, 1.0009765625), (9, 0.25)]
# A seventh has every function at two angles and more, and every pair of variances.
CASES = [*itertools.product(PIECEWISE_LINEAR, VARIANCES, (1e-8, 0.4, 2.9))][::7]
# Its kinks are far out in the normal density: most pre-activations are cut to 0.
CASES += [(bent(functional.softshrink, -0.5, 0.5), (0.0025, 0.002401), 0.02)]
CASES += [(HARD_SWISH, (q, q), theta) for q, theta in ((1, 1e-8), (4, 0.4), (0.25, 2.9))]


@pytest.mark.parametrize(("sigma", "q", "theta"), CASES)
def test_functions_with_kinks_are_their_integral(sigma, q, theta):
    layer, terms = dual(sigma, np.array(q)), BENDS if sigma is HARD_SWISH else pieces(sigma)
    assert isinstance(layer, QuadratureDual if q[0] == q[1] else PiecewiseLinearDual)
    distances, moments = piecewise_layer(terms, q, theta)
    # q - q' keeps 13 of 16 digits where norms are nearly equal, and tails of densities lose two
    tolerance = {1.0009765625: 1e-11, 0.002401: 1e-10, 4: 1e-11}.get(q[1], 1e-12)
    assert cosine_distances(layer, theta) == pytest.approx(distances, rel=tolerance)
    variances, slopes = sigma.gain**2 * np.array(moments)
    np.testing.assert_allclose(layer.variances, variances, rtol=tolerance)
    np.testing.assert_allclose(layer.slopes, slopes, rtol=1e-14)
    assert layer.error < 1e-13
    one, none = slice(0, 1), np.zeros((0, 1))  # of no pairs there are no distances
    assert [each.shape for each in layer.cosine_distances(one, one, none, none)] == [(0, 1)] * 2


@pytest.mark.parametrize("q", [(1.0, 1.0), (0.5, 2.0), (1.0, 1.0 + 1e-7)])
@pytest.mark.parametrize("name", ["relu", "linear", "leaky_relu-0.3", "erf"])
def test_quadrature_is_the_closed_form(name, q):
    sigma = activations.get(name)
    layer = QuadratureDual(replace(sigma, negative_slope=None), np.array(q))
    assert layer.error < 2e-14
    exact = dual(sigma, np.array(q))
    np.testing.assert_allclose(layer.variances, exact.variances, rtol=1e-14)
    np.testing.assert_allclose(layer.slopes, exact.slopes, rtol=1e-14)
    for theta in ANGLES:
        # The error is absolute, and small angles keep relative precision beside it.
        tolerance = {"rel": 3e-12, "abs": layer.error * min(1, theta)}
        expected = pytest.approx(cosine_distances(exact, theta), **tolerance)
        assert cosine_distances(layer, theta) == expected


@pytest.mark.parametrize("name", ["tanh", "gelu", "softplus"])
def test_blocks_of_a_dataset_share_tables_with_the_same_result(name):
    sigma = activations.get(name)
    one, other = np.array([0.9, 0.5, 2.1]), np.array([1.9, 0.53])
    layer, second = dual(sigma, one), dual(sigma, other)
    assert layer._b is second._b
    for q, shared in ((one, layer), (other, second)):
        alone = QuadratureDual(sigma, q)
        np.testing.assert_array_equal(shared.variances, alone.variances)
        for theta in ANGLES:
            expected = pytest.approx(cosine_distances(alone, theta), rel=1e-11, abs=1e-14)
            assert cosine_distances(shared, theta) == expected


@pytest.mark.parametrize("q", [[3.0, 60.0], [700.0]], ids=str)
@pytest.mark.parametrize("name", [*activations.names(), "normalized_relu"])
def test_errors_are_small_for_the_packages_activations(name, q):
    assert dual(activations.get(name), np.array(q)).error < (1e-13 if max(q) < 100 else 1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("q", [1e9, 1e17])
def test_duals_that_are_not_right_say_so(q):
    """Of tanh as a step: moments that the nodes miss, and quadrature that is not a number."""
    layer = dual(activations.get("tanh"), np.array([q]))
    slope = layer.slopes[0] * math.sqrt(q) * math.sqrt(2 * math.pi) * 3 / 4
    assert abs(slope / activations.get("tanh").gain ** 2 - 1) <= layer.error + 1e-4
    assert layer.error > 1e-9
    assert layer.relative_error > 1e-9


@pytest.mark.parametrize("q", [[0.7, 0.7], [0.7, 0.7, 3.0]])
@pytest.mark.parametrize("name", ["selu", "normrelu"])
def test_equal_samples_have_no_cosine_distances(name, q):
    assert cosine_distances(dual(activations.get(name), np.array(q)), 0.0) == (0, 0)


@pytest.mark.filterwarnings("ignore::ntk_conditioning.duals.quadrature.InaccurateDualWarning")
def test_errors_at_the_ends_of_a_range_of_norms_are_told(monkeypatch):
    """Of sin 4z: E sin(4u) sin(4v) = exp(-8 (q + q')) sinh(16 √(q q') cos θ)."""
    monkeypatch.setattr(quadrature, "MAX_VARIANCES", 20)
    sine = Activation("sine", lambda z: (4 * z).sin(), lambda z: 4 * (4 * z).cos())
    layer = QuadratureDual(sine, np.exp([0.26, 2.748]))
    assert abs(cosine_distances(layer, 2.5, first=1)[0] - 1) < layer.error  # 1 up to 1e-20
    assert layer.error > 0.01


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


def test_affinity_is_measured_without_cancellation():
    """z + 1e-6 h_2(z) + 3: μ is 1e-12 / (1 + 1e-12)."""
    series = expand(lambda z: z + 1e-6 * (z**2 - 1) / math.sqrt(2) + 3)
    assert series.non_linearity == pytest.approx(1e-12, rel=1e-8, abs=0)
    assert series.non_affinity == pytest.approx(1e-13, rel=1e-8, abs=0)


NAMES = ["tanh", "selu", "normrelu", "normalized_gelu", "gelu", "normalized_relu", "sigmoid"]


@pytest.mark.parametrize("name", ["relu", *NAMES])
def test_the_series_is_the_dual_of_which_a_layer_keeps_the_fixed_point(name):
    sigma = activations.get(name)
    series, point, layer = expansion(sigma), fixed_point(sigma), dual(sigma, np.ones(1))
    for rho in (-0.5, 0.0, 0.3, 0.5):
        expected = pytest.approx(cosine_after(layer, rho), abs=1e-13)
        assert series.dual(rho) / series.square == expected
    assert cosine_after(layer, point.rho) == pytest.approx(point.rho, abs=1e-12)
    if name != "relu":  # whose dual has no second derivative there
        near = cosine_after(layer, point.rho - 1e-6)
        assert (point.rho - near) / 1e-6 == pytest.approx(point.slope, rel=1e-4)


def test_certain_fixed_points_are_exact():
    names = ("linear", "normrelu", "relu", "leaky_relu-0.2", "softplus")
    points = [fixed_point(activations.get(name)) for name in names]
    assert [(point.rho, point.error) for point in points] == [(0, 0)] * 2 + [(1, 0)] * 3


@pytest.mark.parametrize("mean", [1e-7, 1e-8, 1e-12])
def test_fixed_points_of_tiny_means_are_known_to_their_error(mean):
    tanh = activations.get("tanh")
    point = fixed_point(replace(tanh, name="mean", function=lambda z: z.tanh() + mean))
    expected = mean**2 / expansion(tanh).square / (1 - point.slope)
    assert abs(point.rho - expected) <= point.error < 1e-12


@pytest.mark.parametrize("kink", [-1.5975, 0.3])
def test_quadrature_is_normrelus_closed_form(kink):
    gamma = np.array([0.1, 0.5, 1.0, 2.0, 5.0])
    sigma, theory = activations.normrelu(kink), NormReLU(kink)
    np.testing.assert_allclose(length_map(sigma, gamma), theory.length_map(gamma), rtol=1e-13)
    slope = length_map_slope(sigma, gamma)
    np.testing.assert_allclose(slope, theory.length_map_slope(gamma), rtol=1e-12)
    np.testing.assert_allclose(bias(sigma, gamma), theory.bias(gamma), rtol=1e-11, atol=1e-15)
