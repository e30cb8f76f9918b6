"""Convolutional kernels of infinite width against 40 digits, finite networks and exact limits."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy import stats

from ntk_conditioning.angles.pairs import ZeroRowError
from ntk_conditioning.kernels import infinite_convolutional
from ntk_conditioning.kernels.infinite import SamplesError, UnresolvedKernelError
from ntk_conditioning.kernels.infinite_convolutional import ConvolutionError, kernels
from ntk_conditioning.memory import NotEnoughMemoryError
from ntk_conditioning.networks import activations
from tests.ntk_conditioning.references import LAYERS

POOLINGS = ("none", "average")


def images(n: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, *shape))


def slow_kernels(x: np.ndarray, depth: int, layer, *, pooling: str, taps: int) -> list[np.ndarray]:
    """Return NNGP and NTK by loops over pairs of pixels, in mpmath's digits.

    ``layer`` maps variances and covariance (Σ_pp, Σ_qq, Σ_pq) to g² E σσ and g² E σ'σ'.
    """
    n, _, *size = x.shape
    pixels = list(itertools.product(range(n), *map(range, size)))
    offsets = list(itertools.product(range(-(taps // 2), taps // 2 + 1), repeat=2))
    colours = {p: [mpf(float(each)) for each in x[p[0], :, p[1], p[2]]] for p in pixels}
    sigma = {(p, q): mpmath.fdot(colours[p], colours[q]) for p in pixels for q in pixels}
    tangent = dict.fromkeys(sigma, mpf(0))

    def mean(values, p, q):
        neighbours = (((p[0], p[1] + a, p[2] + b), (q[0], q[1] + a, q[2] + b)) for a, b in offsets)
        return mpmath.fsum(values.get(pair, 0) for pair in neighbours) / taps**2

    for _ in range(depth):
        before = {pair: mean(sigma, *pair) for pair in sigma}
        below = {pair: before[pair] + mean(tangent, *pair) for pair in sigma}
        for p, q in before:
            pair = p, q
            sigma[pair], slope = layer(before[p, p], before[q, q], before[pair], p == q)
            tangent[pair] = below[pair] * slope
    results = np.zeros((2, n, n))
    for i, j in itertools.product(range(n), repeat=2):
        pairs = [pair for pair in sigma if (pair[0][0], pair[1][0]) == (i, j)]
        if pooling == "none":
            pairs = [(p, q) for p, q in pairs if p[1:] == q[1:]]
        covariance, gradients = (mpmath.fsum(k[p] for p in pairs) for k in (sigma, tangent))
        results[:, i, j] = covariance / len(pairs), (covariance + gradients) / len(pairs)
    return list(results)


def hard_images() -> np.ndarray:
    """Return images with near duplicates, corners of zeros and constant, opposite patches."""
    x = images(4, 2, 3, 4)
    x[1] = x[0] * (1 + 1e-7 * images(1, 2, 3, 4, seed=1)[0])
    x[2] = 0
    x[2, :, 0, 0] = 1.0, -0.3
    x[3], x[3, :, :, 2:] = -0.4, 2.8
    return x


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize(
    ("name", "taps"), [*((name, 3) for name in LAYERS), ("relu", 1), ("relu", 5)]
)
def test_kernels_are_those_of_loops_over_pixels_in_40_digits(name, taps, pooling):
    """Five taps reach over the whole image."""
    x, depths = hard_images(), [0, 1, 3] if taps == 3 else [2]
    # a few roundings, and those of quadrature
    tolerance = 1e-13 if name == "normalized_relu" else 1e-14
    options = {"activation": name, "pooling": pooling, "kernel_size": taps}
    for kernel in kernels(x, depths=depths.copy(), **options):
        assert kernel.depth == depths.pop(0)
        with mpmath.workdps(40):
            exact = slow_kernels(x, kernel.depth, LAYERS[name], pooling=pooling, taps=taps)
        for k, expected in zip((kernel.nngp, kernel.ntk), exact, strict=True):
            np.testing.assert_allclose(k, expected, rtol=0, atol=tolerance * expected.max())
    assert depths == []


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("name", ["relu", "normalized_relu"])
def test_tiles_do_not_show(monkeypatch, name, pooling):
    x = images(7, 1, 3, 3)
    x[5], x[6, :, 1:] = x[1], 0
    options = {"depths": [1, 2], "activation": name, "pooling": pooling}
    whole = kernels(x, **options)[-1]
    monkeypatch.setattr(infinite_convolutional, "PAIRS", 700)
    tiled = kernels(x, **options)[-1]
    for kernel in ("nngp", "ntk"):
        expected = getattr(whole, kernel)
        close = {"rtol": 0, "atol": 1e-13 * expected.max()}
        np.testing.assert_array_equal(getattr(tiled, kernel), getattr(tiled, kernel).T)
        np.testing.assert_allclose(getattr(tiled, kernel), expected, **close)


ONES = np.ones((2, 1, 3, 3))


@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        (np.ones((2, 9)), {}, SamplesError, r"shape \(2, 9\); give \(n, colours"),
        (ONES * math.nan, {}, SamplesError, "not a number"),
        (ONES, {"depths": [2, -1]}, SamplesError, "-1 is negative"),
        (ONES * [[[[1]]], [[[0]]]], {}, ZeroRowError, "row 1"),
        (ONES, {"kernel_size": 2}, ConvolutionError, "kernel size 2; give an odd"),
        (ONES, {"pooling": "max"}, ConvolutionError, "'max'; give 'none' or 'average'"),
        (np.ones((2, 1, 50, 50)), {"pooling": "average"}, NotEnoughMemoryError, "2500 pixels take"),
        (ONES * 1e-170, {}, UnresolvedKernelError, "relu at depth 1: .*; scale the images"),
        (ONES * [[[[1]]], [[[1e-170]]]], {}, UnresolvedKernelError, "scale the images"),
        (ONES * 1e160, {}, UnresolvedKernelError, "relu at depth 1: .*; scale the images"),
        (ONES * 1e6, {"activation": "tanh"}, UnresolvedKernelError, "tanh at depth 1: .*; scale"),
    ],
)
@pytest.mark.filterwarnings("ignore::ntk_conditioning.duals.quadrature.InaccurateDualWarning")
def test_what_cannot_be_computed_is_refused(x, options, error, message):
    with pytest.raises(error, match=message):
        kernels(x, **{"depths": [1], "activation": "relu"} | options)


def test_patches_of_zeros_know_of_kinks():
    """E σ(z) beside σ(0), which is not 0, in closed form."""
    sigma, kink = activations.get("normrelu-1"), 1
    scale, offset = activations.normrelu_constants(kink)
    x = np.zeros((2, 1, 1, 9))
    x[0, 0, 0, 0], x[1, 0, 0, 8] = 2, 3  # reach two patches each, with means of squares 4/9 and 1

    def mean(s: float) -> float:  # of σ(s z)
        above = s * stats.norm.pdf(kink / s) - kink * stats.norm.sf(kink / s)
        return scale * (above + offset)

    zero = scale * offset
    expected = (2 * mean(2 / 3) * zero + 2 * zero * mean(1) + 5 * zero * zero) / 9
    (found,) = kernels(x, depths=[1], activation=sigma)
    assert found.nngp[0, 1] == pytest.approx(expected, rel=1e-12)
