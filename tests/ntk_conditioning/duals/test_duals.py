"""Duals: closed forms against high precision, and quadrature against them and plain integration."""

import itertools
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from ntk_conditioning.duals import quadrature
from ntk_conditioning.duals.closed_forms import ErfDual, LeakyReLUDual, dual
from ntk_conditioning.duals.piecewise_linear import PiecewiseLinearDual
from ntk_conditioning.duals.quadrature import InaccurateDualWarning, QuadratureDual
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from tests.ntk_conditioning.references import erf_layer

ANGLES = (1e-9, 1e-5, 0.29, 0.31, 1.0, 2.0, 3.0, math.pi)
PLAIN = ("tanh", "gelu", "selu", "sigmoid", "softplus", "normalized_relu")
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
Z, W = 4.5 * np.concatenate([-1 - NODES, 1 + NODES]), np.tile(WEIGHTS, 2)
DENSITY = stats.norm.pdf(Z)


def cosine_distances(layer, theta: float) -> tuple[float, float]:
    """Return w' and h of the first and second sample of a dual at one angle."""
    w = np.full((1, 1), 2 * math.sin(theta / 2) ** 2)
    next_w, h = layer.cosine_distances(slice(0, 1), slice(1, 2), w, np.full((1, 1), theta))
    return next_w.item(), h.item()


@pytest.mark.parametrize("theta", ANGLES)
@pytest.mark.parametrize("slope", [0.0, 0.01, 0.3, 1.0])
def test_leaky_relus_are_their_integral(slope, theta):
    """E σσ and E σ'σ' of relu(z) + a·min(z, 0) from the arc-cosine kernels (Cho & Saul 2009)."""
    with mpmath.workdps(40):
        pi, a = mpmath.pi, mpmath.mpf(slope)
        same, opposite = mpmath.mpf(theta), pi - mpmath.mpf(theta)
        order_1, other_1 = (mpmath.sin(t) + (pi - t) * mpmath.cos(t) for t in (same, opposite))
        # Pairs of equal signs occur with factors 1 and a², of opposite signs twice with a.
        w = 1 - (order_1 - 2 * a / (1 + a * a) * other_1) / pi
        h = 1 - (pi - same + 2 * a / (1 + a * a) * (pi - opposite)) / pi
        expected = float(w), float(h)
    layer = LeakyReLUDual(np.ones(2), negative_slope=slope)
    assert cosine_distances(layer, theta) == pytest.approx(expected, rel=4e-15, abs=1e-30)


@pytest.mark.parametrize("theta", ANGLES)
@pytest.mark.parametrize(
    "q", [(1.0, 1.0), (0.3, 5.0), (2.0, 2.0 + 1e-6), (7e2, 6.5e2), (1e16, 2e16)]
)
def test_erf_is_williams_formula(q, theta):
    with mpmath.workdps(50):
        q1, q2 = map(mpmath.mpf, q)
        covariance = mpmath.sqrt(q1 * q2) * mpmath.cos(mpmath.mpf(theta))
        cases = (q1, q2, covariance), (q1, q1, q1), (q2, q2, q2)
        moments = zip(*itertools.starmap(erf_layer, cases), strict=True)
        expected = tuple(float(1 - cross / mpmath.sqrt(one * two)) for cross, one, two in moments)
    # Of nearly equal variances, q - q' keeps 10 of 16 digits, and what is left of w' is its square.
    expected = pytest.approx(expected, rel=1e-8 if q[1] == 2 + 1e-6 else 1e-12, abs=1e-24)
    assert cosine_distances(ErfDual(np.array(q)), theta) == expected


def piecewise(level, slope, jumps, bends=()):
    """Return the terms (c, k, p) of level + slope z + Σ c max(z - k, 0) + Σ c max(z - k, 0)²."""
    far = -60  # where no sample is
    terms = [(level + slope * far, far, 0), (slope, far, 1)]
    return [*terms, *((c, k, 1) for k, c in jumps), *((c, k, 2) for k, c in bends)]


def piecewise_distances(terms, q, theta):
    """Return w' and h of σ(z) = Σ c max(z - k, 0)^p in 40 digits, from its ``terms`` (c, k, p).

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
            inside = sorted(z for z in {*edges, *range(-8, 9, 4)} if -12 < z < 12)
            return mpmath.quad(lambda z: mpmath.npdf(z) * of(z), [-12, *inside, 12])

        def distance(terms):
            # where v, given u, is at a kink, to within some sin θ
            layers = [
                k / roots[1] / mpmath.cos(angle) + step * mpmath.sin(angle)
                for _, k, _ in terms
                for step in (-40, -8, -2, 0, 2, 8, 40)
            ]
            edges, edges2 = ([k / root for _, k, _ in terms] for root in roots)
            product = integral(
                lambda z: value(terms, roots[0] * z) * mean_value(terms, z), *edges, *layers
            )
            square = integral(lambda z: value(terms, roots[0] * z) ** 2, *edges)
            square2 = integral(lambda z: value(terms, roots[1] * z) ** 2, *edges2)
            return float(1 - product / mpmath.sqrt(square * square2))

        return distance(terms), distance([(c * p, k, p - 1) for c, k, p in terms if p])


def bent(name, function, derivative, kinks):
    return Activation(name, function, derivative, kinks=kinks)


PIECEWISE_LINEAR = [
    (
        bent("hardtanh", lambda z: z.clamp(-1, 1), lambda z: (z.abs() < 1).to(z), (1, -1)),
        piecewise(-1, 0, [(-1, 1), (1, -1)]),
    ),
    (
        bent("relu6", lambda z: z.clamp(0, 6), lambda z: ((z > 0) & (z < 6)).to(z), (6,)),
        piecewise(0, 0, [(0, 1), (6, -1)]),
    ),
    (
        bent("hat", lambda z: 2 - (z - 0.5).abs(), lambda z: -(z - 0.5).sign(), (0.5,)),
        piecewise(1.5, 1, [(0.5, -2)]),
    ),
    *(
        (sigma, piecewise(scale * offset, 0, [(kink, scale)]))
        for sigma in map(activations.normrelu, (-1.5975, -0.25, 2))
        for scale, kink, offset in [sigma.shifted_relu]
    ),
]
VARIANCES = [(1, 1), (0.5, 2), (1, 1.0009765625), (9, 0.25)]
CASES = [*itertools.product(PIECEWISE_LINEAR, VARIANCES, (1e-8, 0.4, 2.9))]


# A seventh has every function at two angles and more, and every pair of variances.
@pytest.mark.parametrize(("sigma_and_terms", "q", "theta"), CASES[::7])
def test_piecewise_linear_functions_are_their_integral(sigma_and_terms, q, theta):
    sigma, terms = sigma_and_terms
    layer = dual(sigma, np.array(q))
    assert isinstance(layer, QuadratureDual if q == (1, 1) else PiecewiseLinearDual)
    expected = piecewise_distances(terms, q, theta)
    # from λ and b, and from q - q', which keeps 13 of 16 digits where norms are nearly equal
    tolerance = 1e-11 if q[1] == 1.0009765625 else 1e-12
    assert cosine_distances(layer, theta) == pytest.approx(expected, rel=tolerance)
    assert layer.error < 1e-13
    one, none = slice(0, 1), np.zeros((0, 1))  # of no pairs there are no distances
    assert [each.shape for each in layer.cosine_distances(one, one, none, none)] == [(0, 1)] * 2


@pytest.mark.parametrize(("q", "theta"), [(1.0, 1e-8), (4.0, 0.4), (0.25, 2.9)])
def test_curves_with_kinks_are_their_integral_where_samples_have_one_norm(q, theta):
    hardswish = Activation(
        "hardswish",
        lambda z: z * (z + 3).clamp(0, 6) / 6,
        lambda z: ((2 * z + 3) / 6).where(z.abs() < 3, (z > 0).to(z)),
        kinks=(-3.0, 3.0),
    )
    layer = dual(hardswish, np.full(2, q))
    sixth = mpmath.mpf(1) / 6
    terms = piecewise(0, 0, [(-3, -0.5), (3, -0.5)], bends=[(-3, sixth), (3, -sixth)])
    expected = piecewise_distances(terms, (q, q), theta)
    assert cosine_distances(layer, theta) == pytest.approx(expected, rel=1e-11)
    assert layer.error < 1e-13


@pytest.mark.parametrize("name", ["normrelu", "normalized_normrelu-2"])
def test_moments_of_shifted_relus_are_quadratures(name):
    sigma, q = activations.get(name), np.array([0.1, 1.0, 4.0])
    layer, (scale, kink, _) = dual(sigma, q), sigma.shifted_relu
    values = [sigma.expectation(np.square, q=each) for each in q]
    np.testing.assert_allclose(layer.variances, values, rtol=1e-12)
    assert layer.variances[1] == pytest.approx(1, abs=1e-13)
    slopes = scale**2 * special.ndtr(-kink / np.sqrt(q))
    np.testing.assert_allclose(layer.slopes, slopes, rtol=1e-14)


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


def expectation(f, q, q2, theta):
    """Return E f(u) f(v) on a grid over z and t, cut where u = √q z or v changes sign."""
    total = 0.0
    for side in (-4.5, 4.5):
        z = side * (1 + NODES)
        crossing = np.clip(-z / math.tan(theta), -9, 9)[:, None]
        for end in (-9, 9):
            half = (end - crossing) / 2
            t = crossing + half * (1 + NODES)
            v = math.sqrt(q2) * (math.cos(theta) * z[:, None] + math.sin(theta) * t)
            inner = (np.abs(half) * f(v) * stats.norm.pdf(t)) @ WEIGHTS
            total += 4.5 * (f(math.sqrt(q) * z) * stats.norm.pdf(z) * inner) @ WEIGHTS
    return total


@pytest.mark.parametrize(("q", "theta"), [((1.0, 1.0), 0.4), ((0.6, 2.5), 1.3), ((4.0, 0.8), 2.7)])
@pytest.mark.parametrize("name", PLAIN)
def test_quadrature_is_plain_integration(name, q, theta):
    sigma = activations.get(name)
    layer = QuadratureDual(sigma, np.array(q))
    distances, moments = cosine_distances(layer, theta), (layer.variances, layer.slopes)
    for f, distance, moment in zip((sigma.values, sigma.slopes), distances, moments, strict=True):
        squares = [4.5 * (f(math.sqrt(each) * Z) ** 2 * DENSITY) @ W for each in q]
        np.testing.assert_allclose(moment, sigma.gain**2 * np.array(squares), rtol=1e-13)
        expected = 1 - expectation(f, *q, theta) / math.sqrt(math.prod(squares))
        assert distance == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("q", [[3.0, 60.0], [700.0]], ids=str)
@pytest.mark.parametrize("name", [*PLAIN, "normrelu"])
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


def test_kinks_elsewhere_are_reported_with_the_error_they_cause(monkeypatch):
    """Where norms differ; tables would grow for a quarter of a minute."""
    monkeypatch.setattr(quadrature, "MAX_ANGLES", 40)
    monkeypatch.setattr(quadrature, "MAX_VARIANCES", 12)
    functions = lambda z: z.clamp(-1, 1), lambda z: (z.abs() < 1).to(z.dtype)
    hard_tanh = Activation("hard_tanh", *functions, kinks=(-1.0, 1.0))
    warning = "hard_tanh: .* only right to .* kinks that are not declared, or not at 0"
    ends = 1 / np.sqrt([0.8, 1.25])
    with pytest.warns(InaccurateDualWarning, match=warning):
        layer = QuadratureDual(hard_tanh, 1 / ends**2)
    assert layer.error > quadrature.WARN_ABOVE
    # E σ'(u)σ'(v) = P(|u| < 1, |v| < 1)
    cosine = math.cos(0.9)
    density = stats.multivariate_normal(cov=[[1, cosine], [cosine, 1]]).pdf
    limits = -ends[1], ends[1], -ends[0], ends[0]
    both, _ = integrate.dblquad(lambda u, v: density([u, v]), *limits)
    expected = 1 - both / math.sqrt(math.prod(special.ndtr(ends) - special.ndtr(-ends)))
    assert cosine_distances(layer, 0.9)[1] == pytest.approx(expected, abs=10 * layer.error)


@pytest.mark.filterwarnings("ignore::ntk_conditioning.duals.quadrature.InaccurateDualWarning")
def test_errors_at_the_ends_of_a_range_of_norms_are_told(monkeypatch):
    """Of sin 4z: E sin(4u) sin(4v) = exp(-8 (q + q')) sinh(16 √(q q') cos θ)."""
    monkeypatch.setattr(quadrature, "MAX_VARIANCES", 20)
    sine = Activation("sine", lambda z: (4 * z).sin(), lambda z: 4 * (4 * z).cos())
    layer = QuadratureDual(sine, np.exp([0.26, 2.748]))
    w = np.full((1, 1), 1 - math.cos(2.5))
    found = layer.cosine_distances(slice(1, 2), slice(1, 2), w, np.full((1, 1), 2.5))[0]
    assert abs(found - 1) < layer.error  # 1 up to 1e-20
    assert layer.error > 0.01


def test_kinks_far_out_in_the_normal_density_are_seen():
    """Soft shrinkage of samples on one line whose pre-activations are mostly cut to 0."""
    functions = (
        lambda z: (z - 0.5).clamp(min=0) + (z + 0.5).clamp(max=0),
        lambda z: (z.abs() > 0.5).to(z.dtype),
    )
    shrink = Activation("shrink", *functions, kinks=(-0.5, 0.5))

    def mean(s, t):
        def product(z):
            return (s * z - 0.5) * (t * z - 0.5) * stats.norm.pdf(z)

        return integrate.quad(product, 0.5 / min(s, t), 25, epsabs=0, epsrel=1e-12)[0]

    s, t = 0.05, 0.049
    expected = 1 - mean(s, t) / math.sqrt(mean(s, s) * mean(t, t))
    found = cosine_distances(dual(shrink, np.square([s, t])), 0.0)[0]
    assert found == pytest.approx(expected, rel=1e-8)
