"""Convolutional kernels of infinite width against 40 digits, and all against their networks."""

import math

import mpmath
import numpy as np
import pytest

from ntk_conditioning.angles.pairs import ZeroRowError
from ntk_conditioning.kernels import infinite_convolutional, infinite_models
from ntk_conditioning.kernels.infinite import SamplesError, UnresolvedKernelError
from ntk_conditioning.kernels.infinite_convolutional import ConvolutionError, kernels
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.memory import NotEnoughMemoryError
from tests.ntk_conditioning.gradients import deep_network, inputs, network
from tests.ntk_conditioning.references import LAYERS, exact, next_layer


def images(n, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal((n, *shape))


def slow_kernels(x, depth, layer, *, pooling, taps):
    """Return NNGP and NTK from those of all pairs of pixels, in mpmath's digits."""
    (n, _, height, width), half = x.shape, taps // 2
    sigma = np.tensordot(exact(x), exact(x), axes=(1, 1))
    tangent = 0 * sigma

    def mean(k):
        k = np.pad(k, [(0, 0), (half, half), (half, half)] * 2)
        shifts = ((slice(a, a + height), slice(b, b + width)) for a, b in np.ndindex(taps, taps))
        return sum(k[:, i, j, :, i, j] for i, j in shifts) / taps**2

    for _ in range(depth):
        below, before = mean(sigma + tangent), mean(sigma).reshape(n * height * width, -1)
        sigma, slopes = next_layer(layer, before).reshape(2, *sigma.shape)
        tangent = below * slopes
    results = (k.reshape(n, height * width, n, -1) for k in (sigma, sigma + tangent))
    if pooling == "average":
        return [k.mean((1, 3)).astype(float) for k in results]
    return [k.trace(axis1=1, axis2=3).astype(float) / (height * width) for k in results]


def hard_images():
    """Return images with near duplicates, corners of zeros and constant, opposite patches."""
    x = images(4, 2, 3, 4)
    x[1] = x[0] * (1 + 1e-7 * images(1, 2, 3, 4, seed=1)[0])
    x[2] = 0
    x[2, :, 0, 0] = 1.0, -0.3
    x[3], x[3, :, :, 2:] = -0.4, 2.8
    return x


@pytest.mark.parametrize("pooling", ["none", "average"])
@pytest.mark.parametrize(
    ("name", "taps"), [*((name, 3) for name in LAYERS), ("relu", 1), ("relu", 5)]
)
def test_kernels_are_those_of_loops_over_pixels_in_40_digits(name, taps, pooling, monkeypatch):
    """Five taps reach over the whole image, and a tile over two by two images."""
    monkeypatch.setattr(infinite_convolutional, "PAIRS", 4 * (144 if pooling == "average" else 12))
    x, depths = hard_images(), [0, 1, 3] if taps == 3 else [2]
    # a few roundings, and those of quadrature
    tolerance = 1e-13 if name == "normalized_relu" else 1e-14
    options = {"activation": name, "pooling": pooling, "kernel_size": taps}
    for kernel in kernels(x, depths=depths.copy(), **options):
        assert kernel.depth == depths.pop(0)
        with mpmath.workdps(40):
            expected = slow_kernels(x, kernel.depth, LAYERS[name], pooling=pooling, taps=taps)
        for k, right in zip((kernel.nngp, kernel.ntk), expected, strict=True):
            np.testing.assert_allclose(k, right, rtol=0, atol=tolerance * right.max())
            np.testing.assert_array_equal(k, k.T)
    assert depths == []


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
        (ONES * 1e-170, {}, UnresolvedKernelError, "relu at depth 1: .*; scale the data"),
        (ONES * [[[[1]]], [[[1e-170]]]], {}, UnresolvedKernelError, "scale the data"),
        (ONES * 1e160, {}, UnresolvedKernelError, "relu at depth 1: .*; scale the data"),
        (
            ONES * 1e6,
            {"activation": "tanh", "kernel_size": 1},
            UnresolvedKernelError,
            "tanh at depth 1: .*; scale",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::ntk_conditioning.duals.quadrature.InaccurateDualWarning")
def test_what_cannot_be_computed_is_refused(x, options, error, message):
    with pytest.raises(error, match=message):
        kernels(x, **{"depths": [1], "activation": "relu"} | options)


IMAGE, NETWORKS = (4, 4, 2), 40


@pytest.mark.parametrize(
    ("model", "activation"),
    [
        *(("mlp", name) for name in ("erf", "tanh", "selu", "normrelu")),
        ("mlp_bias", "relu"),
        ("residual_mlp", "relu"),
        ("residual_mlp_scaled", "erf"),
        ("conv", "erf"),
        ("conv_pool", "relu"),
    ],
)
def test_networks_tend_to_their_limit(model, activation):
    """Every entry's mean within four standard errors, and a bias of order 1 / width."""
    x, width = inputs(3, 32) / 4, 256
    seen = x
    if model.startswith("conv"):
        seen, width = x.reshape(-1, *IMAGE).movedim(-1, 1), 64
    found = []
    for seed in range(NETWORKS):
        given = {"activation": activation, "seed": seed}
        if model == "mlp":
            drawn = network(32, width=width, **given)
        else:
            drawn = deep_network(model, 2, width, image=IMAGE, outputs=1, **given)
        found.append(ntk(drawn, seen).numpy())
    options = {"image": IMAGE, "depths": [2], "activation": activation}
    limit = infinite_models.ntks(model, x.numpy(), **options)[2]
    error = np.std(found, axis=0, ddof=1) / np.sqrt(NETWORKS)
    assert (error < 0.05 * limit.max()).all(), "an experiment that can tell"
    assert (np.abs(np.mean(found, axis=0) - limit) < 4 * error + 2 / width * limit.max()).all()
