"""Infinite-width kernels against the paper's formula, high precision, and slow obvious ways."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from ntk_conditioning.kernels import infinite, infinite_network
from ntk_conditioning.kernels.infinite import InfiniteNetwork
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.sphere import unit_rows
from tests.ntk_conditioning.references import (
    LAYERS,
    exact_extremes,
    infinite_kernels,
    samples,
    theorem_4_4,
)


def exact_degrees(kernel, n):
    angles = np.zeros((n, n))
    for i, j in itertools.combinations(range(n), 2):
        cosine = kernel[i, j] / mpmath.sqrt(kernel[i, i] * kernel[j, j])
        angles[i, j] = mpmath.degrees(mpmath.acos(cosine))
    return angles


NEAR = samples(9, 4, spread=1.0)
NEAR[1] = NEAR[0] + 1e-9 * NEAR[2]


@pytest.mark.parametrize(("depth", "delta"), [(0, 1.0), (1, 1e-3), (3, 1e-7), (5, 1e-13)])
def test_relu_is_theorem_4_4_and_so_is_lambda_min_of_near_duplicates(depth, delta):
    x = samples(12, 30, spread=0.3)
    x[1] = 1.7 * (x[0] + delta * samples(1, 30, seed=1))
    with mpmath.workdps(50):
        exact = theorem_4_4(x, depth)
        angle = math.radians(exact_degrees(exact, 2)[0, 1])
    lambda_min, lambda_max = exact_extremes(exact)
    kappa = lambda_max / lambda_min
    assert 0.5 < kappa * delta < 500
    found = infinite.gradient_angles(x, depth=depth, activation="relu")[0, 1]
    assert found == pytest.approx(angle, rel=1e-12)
    k = infinite.ntk(x, depth=depth, activation="relu")
    np.testing.assert_allclose(k, exact.astype(float), rtol=1e-13, atol=1e-15 * k.max())
    # rounding the exact kernel to float64 already moves lambda_min by eps · kappa
    eps = np.finfo(np.float64).eps
    assert np.linalg.eigvalsh(k)[0] == pytest.approx(lambda_min, rel=1e-12 + 10 * eps * kappa)


@given(
    x=st.integers(0, 2**32 - 1).map(lambda seed: samples(7, 4, seed=seed, spread=1.0)),
    name=st.sampled_from(["relu", "leaky_relu-0.2", "linear", "erf"]),
    depth=st.integers(0, 6),
)
@example(x=samples(4, 4, spread=1.0), name="selu", depth=2)
@example(x=NEAR, name="linear", depth=4)
def test_kernels_are_symmetric_positive_and_have_the_cosines_of_the_angles(x, name, depth):
    """Norms are those of liu2023relu, Eqs. (39) and (21), where Corollary 3.2 prints (L+1)²."""
    layer = InfiniteNetwork(x, depth=depth, activation=name)
    for k in (layer.ntk, layer.nngp):
        np.testing.assert_array_equal(k, k.T)
        eigenvalues = np.linalg.eigvalsh(k)
        assert eigenvalues[0] >= -1e-14 * eigenvalues[-1]
    angles, norms = infinite.gradient_angles(x, depth=depth, activation=name), np.diag(layer.ntk)
    np.testing.assert_array_equal(angles, angles.T)
    np.testing.assert_array_equal(np.diag(angles), 0)
    cosines = layer.ntk / np.sqrt(np.outer(norms, norms))
    np.testing.assert_allclose(np.cos(angles), cosines, rtol=0, atol=1e-14)
    if layer.activation.homogeneous:
        squares = np.einsum("nd,nd->n", x, x)
        np.testing.assert_allclose(norms, (depth + 1) * squares, rtol=1e-14)
        np.testing.assert_allclose(np.diag(layer.nngp), squares, rtol=1e-14)
        assert layer.error == 0
    if name == "linear":  # Corollary 4.2
        inputs = infinite.gradient_angles(x, depth=0, activation="relu")
        np.testing.assert_allclose(angles, inputs, rtol=1e-14)


SCALES = [(None, 0.0), (None, 0.1), (1.0, 0.0), (0.5, 0.3), (0.0, 0.1)]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize(("branch", "bias"), SCALES)
def test_unequal_norms_and_near_duplicates_have_the_kernels_of_60_digits(
    name, depth, branch, bias, monkeypatch
):
    monkeypatch.setattr(infinite_network, "TILE", 2)
    monkeypatch.setattr(infinite_network, "GATHERED", 8)
    x, scales = samples(5, 4, spread=1.0), {"branch_scale": branch, "bias_scale": bias}
    x[1] = (1 + 3e-6) * (x[0] + 1e-6 * x[2])
    with mpmath.workdps(60):
        exact = infinite_kernels(x, depth, LAYERS[name], **scales)
        degrees = exact_degrees(exact[1], 5)
    for kernel, digits in zip((infinite.nngp, infinite.ntk), exact, strict=True):
        given, expected = {"depth": depth, "activation": name} | scales, digits.astype(float)
        k, block = kernel(x, **given), kernel(x[:2], x[1:], **given)
        np.testing.assert_allclose(k, expected, rtol=0, atol=1e-13 * expected.max())
        np.testing.assert_allclose(block, expected[:2, 1:], rtol=0, atol=1e-13 * expected.max())
        np.testing.assert_array_equal(k, k.T)
    if branch is None and not bias:
        angles = np.degrees(infinite.gradient_angles(x, depth=depth, activation=name))
        # the variances' difference keeps 10 digits
        np.testing.assert_allclose(angles, degrees + degrees.T, rtol=1e-8)


def plain_ntk(x: np.ndarray, name: str) -> np.ndarray:
    """Return the NTK at depth 1 of samples of equal norm, on panels halved towards 0."""
    sigma, covariance = activations.get(name), x @ x.T
    positive = np.concatenate([[0], 2.0 ** np.arange(-40, 1), np.arange(1.25, 13, 0.25)])
    edges = np.union1d(-positive, positive)
    nodes, weights = np.polynomial.legendre.leggauss(14)
    half = np.diff(edges)[:, None] / 2
    u, weights = (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    square, mass = covariance[0, 0], weights * stats.norm.pdf(u)
    values, slopes = (sigma.gain * f(math.sqrt(square) * u) for f in (sigma.values, sigma.slopes))
    k = np.full(covariance.shape, (values**2 + square * slopes**2) @ mass)
    for i, j in itertools.combinations(range(len(x)), 2):
        cosine = covariance[i, j] / square
        conditional = weights * stats.norm.pdf(u, cosine * u[:, None], math.sqrt(1 - cosine**2))
        after, slope = ((mass * f) @ (conditional @ f) for f in (values, slopes))
        k[i, j] = k[j, i] = after + covariance[i, j] * slope
    return k


def absolute(slope):
    flags = {"homogeneous": True, "negative_slope": slope}
    return activations.Activation("abs", lambda z: z.abs(), lambda z: z.sign(), **flags)


RNG = np.random.default_rng(0)
FAR, EQUAL = samples(40, 7, spread=0.2), unit_rows(samples(18, 6, seed=4))
NORMS = EQUAL * np.exp(RNG.uniform(-0.3, 0.3, (18, 1)))
NORMS[[11, 17]] = NORMS[[8, 8]] + [[1e-9], [2e-9]] * samples(2, 6, seed=10)
# The embeddings of an even activation cannot tell x from -x.
OPPOSITE = samples(30, 5, seed=2, spread=1.0)
OPPOSITE[11] = -OPPOSITE[3] + 1e-3 * OPPOSITE[4]
CONTRAST = unit_rows(1 + 1e-3 * RNG.standard_normal((90, 40)))
HARD = {
    "random": samples(23, 4, seed=3, spread=0.5),
    # Their cosines are all 1 up to rounding, so that screening puts them in any order.
    "many near duplicates": np.vstack([FAR, FAR + RNG.uniform(1e-9, 2e-9, FAR.shape)]),
    "low contrast": CONTRAST,
    "low contrast, norms": CONTRAST * np.exp(RNG.uniform(-1e-3, 1e-3, (90, 1))),
    "12 decades": samples(60, 8) * 10 ** RNG.uniform(-6, 6, (60, 1)),
    "two clusters": samples(2, 5)[np.arange(100) % 2] + 1e-9 * samples(100, 5, seed=2),
    # There the angle between gradients need not grow with that between inputs.
    "beyond 90 degrees": np.eye(6) - 1 / 6 + 1e-3 * samples(6, 6),
}
SETS = HARD | {"equal": EQUAL, "norms": NORMS, "opposite": OPPOSITE}
ALL_NAMES = [*activations.names(), "normalized_relu", "leaky_relu-3"]
CLOSED = [("relu", 0), ("relu", 5), ("linear", 2), ("erf", 2)]
CASES = [(kind, *network) for kind in HARD for network in CLOSED]
CASES += itertools.product(["equal", "norms"], ALL_NAMES, [2])
CASES += itertools.product(["opposite"], [absolute(-1.0), absolute(None)], [0, 1, 3])


@pytest.mark.parametrize(("kind", "name", "depth"), CASES, ids=str)
def test_the_closest_pair_is_that_of_all_angles(kind, name, depth, monkeypatch):
    monkeypatch.setattr(infinite_network, "TILE", 25)
    x, sigma = SETS[kind], activations.get(name)
    found = infinite.min_angle(x, depth=depth, activation=name)
    angles = infinite.gradient_angles(x, depth=depth, activation=name)
    angles[np.tril_indices(len(x))] = math.inf
    assert (found.i, found.j) == np.unravel_index(angles.argmin(), angles.shape)
    # quadrature is at every row's norm, where the search takes one
    rel = 1e-8 if sigma.homogeneous and sigma.negative_slope is None else 1e-12
    # norms that differ by rounding are taken as equal
    assert found.angle == pytest.approx(angles.min(), rel=rel, abs=1e-14)
    assert found.duplicates == 0
    # an error of 1e-14 in a cosine distance would be one of 1e-7 here, were it not relative
    assert 0 < found.error < 1e-3 * found.angle


FIVE, ROUNDING = np.random.default_rng(0).standard_normal((5, 6)), math.degrees(1e-14)
THREE = unit_rows(FIVE[:3])
ERRORS = [  # samples, what is above the error in degrees, and how well the angle is known
    *(("erf", scale * FIVE, 2e-11, 1e-3) for scale in (1e-8, 1.0, 1e4, 1e60)),
    *(("relu", scale * FIVE, 1e-12, 1e-3) for scale in (1e-8, 1.0, 1e4, 1e60)),
    *(("tanh", THREE * scale, error, 1e-3) for scale, error in ((1.0, 1e-10), (1e3, 1e-3))),
    *(("gelu", THREE * scale, error, 1e-3) for scale, error in ((1e2, 1e-10), (1e4, 1e-3))),
    ("gelu", THREE * 1e8, 1e-3, 1e-3),
    # close ones of different norms keep their digits, but for what rounding of norms takes
    ("erf", np.array([[1e-5, 0], [3.16e-4, 3.16e-13]]), ROUNDING, 1e-14),
    ("erf", np.array([[0.6, 0.8], [0.6 + 1e-9, 0.8 + 1.1e-9]]), ROUNDING, 1e-6),
    ("erf", np.array([[1e-6, 1e-7], [0.5, 0.06]]), ROUNDING, 1e-13),
]


@pytest.mark.filterwarnings("ignore::ntk_conditioning.duals.quadrature.InaccurateDualWarning")
@pytest.mark.parametrize(("name", "x", "error", "rel"), ERRORS)
def test_errors_of_smallest_angles_hold(name, x, error, rel):
    depth, layer = (2, LAYERS[name]) if name in LAYERS else (1, None)
    with mpmath.workdps(150):
        k = infinite_kernels(x, depth, layer)[1] if layer else plain_ntk(x, name)
        angles = exact_degrees(k, len(x))
    found = infinite.min_angle(x, depth=depth, activation=name)
    smallest, bound = angles[np.triu_indices(len(x), 1)].min(), math.degrees(found.error)
    assert abs(found.degrees - smallest) <= bound < error
    assert found.degrees == pytest.approx(float(smallest), rel=rel)
    assert found.i < found.j
    assert angles[found.i, found.j] <= smallest + 2 * bound
