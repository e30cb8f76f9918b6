"""Kernels of images, along depth and in tables, against many digits; all against networks."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from ntk_conditioning.angles.pairs import ZeroRowError
from ntk_conditioning.duals.closed_forms import angle_of
from ntk_conditioning.kernels import infinite, infinite_convolutional, infinite_models
from ntk_conditioning.kernels.depth_profiles import Correlations, along_depth, layer_by_layer
from ntk_conditioning.kernels.infinite import SamplesError, UnresolvedKernelError
from ntk_conditioning.kernels.infinite_convolutional import ConvolutionError, kernels
from ntk_conditioning.kernels.interpolated_kernels import tables
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.memory import NotEnoughMemoryError
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.sphere import unit_rows
from tests.ntk_conditioning.gradients import deep_network, inputs
from tests.ntk_conditioning.references import (
    LAYERS,
    erf_layer,
    exact,
    next_layer,
    relu_angles,
    samples,
)


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
    x, other = np.random.default_rng(0).standard_normal((2, 4, 2, 3, 4))
    x[1] = x[0] * (1 + 1e-7 * other[0])
    x[2] = 0
    x[2, :, 0, 0] = 1.0, -0.3
    x[3], x[3, :, :, 2:] = -0.4, 2.8
    return x


@pytest.mark.parametrize("pooling", ["none", "average"])
@pytest.mark.parametrize(
    ("name", "taps"), [*((name, 3) for name in LAYERS), ("relu", 1), ("relu", 5)]
)
def test_kernels_are_those_of_loops_over_pixels_in_40_digits(name, taps, pooling, monkeypatch):
    monkeypatch.setattr(infinite_convolutional, "PAIRS", 4 * (144 if pooling == "average" else 12))
    x, depths = hard_images(), [0, 1, 3] if taps == 3 else [2]
    # a few roundings, and those of quadrature
    tolerance = 1e-13 if name == "normalized_relu" else 1e-14
    options = {"activation": name, "pooling": pooling, "kernel_size": taps}
    for kernel in kernels(x, depths=[*reversed(depths)], **options):
        assert kernel.depth == depths.pop(0)
        with mpmath.workdps(40):
            expected = slow_kernels(x, kernel.depth, LAYERS[name], pooling=pooling, taps=taps)
        for k, right in zip((kernel.nngp, kernel.ntk), expected, strict=True):
            np.testing.assert_allclose(k, right, rtol=0, atol=tolerance * right.max())
            np.testing.assert_array_equal(k, k.T)
    assert depths == []


def profiles(x, **options):
    return [*along_depth(x, **options)]


NETWORK = infinite.ntk, infinite.min_angle
NO_SAMPLES = [
    (np.ones(3), SamplesError, r"shape \(3,\)"),
    (np.ones((0, 3)), SamplesError, r"shape \(0, 3\)"),
    ([[1.0, math.nan]], SamplesError, "not a number"),
    (np.ones((2, 3)) * 1j, SamplesError, "complex128"),
    ([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]], ZeroRowError, "row 1"),
]
UNIT, SECOND = unit_rows(samples(2, 4, seed=1)), np.array([[0], [1]])
ONES, WIDE, MANY = np.ones((2, 1, 3, 3)), np.ones((2, 1, 999, 999)), np.ones((10**6, 1, 1, 1))
UNFIT = [({"kernel_size": k}, f"kernel size {k}; give an odd") for k in (2, -1, 1.5)]
SCALE = "^{} at depth 1: .*; scale the data"
LIMITED = [  # not resolved, or beyond the range
    *((infinite.ntk, "erf", scale * UNIT) for scale in (1e200, 1e-170**SECOND, 1e100**SECOND)),
    *((infinite.min_angle, "erf", scale * UNIT) for scale in (1e-170, 1e100, 1e200**SECOND)),
    *((kernels, "relu", scale * ONES) for scale in (1e-170, 1e160, [[[[1]]], [[[1e-170]]]])),
    (infinite.ntk, "tanh", 1e5 * UNIT),
    (infinite.min_angle, "tanh", 5e3 * UNIT),
    (kernels, "tanh", 1e7 * ONES[..., :1, :1]),
]
FUNCTIONS = lambda z: (1e5 * z).tanh(), lambda z: 1e5 / (1e5 * z).cosh() ** 2
STEEP = {"activation": activations.Activation("steep", *FUNCTIONS)}


@pytest.mark.parametrize(
    ("function", "x", "options", "error", "message"),
    [
        *((function, x, {}, *refusal) for function in NETWORK for x, *refusal in NO_SAMPLES),
        (infinite.ntk, UNIT, {"x2": np.ones((2, 5))}, SamplesError, "4 features and x2 5"),
        (infinite.ntk, UNIT, {"depth": -1}, SamplesError, "-1 is negative"),
        (infinite.ntk, [[1e150]], {"branch_scale": 1e10}, UnresolvedKernelError, "not finite"),
        *((f, x, {"activation": a}, UnresolvedKernelError, SCALE.format(a)) for f, a, x in LIMITED),
        (profiles, np.diag([1, 2]), {}, SamplesError, "norms from 1 to 2; scale the samples to no"),
        (profiles, 3 * np.eye(2), {}, SamplesError, "norms from 3 to 3; scale the samples to norm"),
        (profiles, [[1.0, 0.0]], {}, SamplesError, "a single sample has no pair"),
        (profiles, np.eye(2), {"depths": [-1]}, SamplesError, "depth -1 is negative"),
        (profiles, np.eye(2), STEEP, UnresolvedKernelError, "^steep .* scale the data"),
        (kernels, np.ones((2, 9)), {}, SamplesError, r"shape \(2, 9\); give \(n, colours"),
        (kernels, ONES * math.nan, {}, SamplesError, "not a number"),
        (kernels, ONES, {"depths": [2, -1]}, SamplesError, "-1 is negative"),
        (kernels, ONES, {"depths": [1.5]}, SamplesError, "depth 1.5 is .* not whole"),
        (kernels, ONES * [[[[1]]], [[[0]]]], {}, ZeroRowError, "row 1"),
        *((kernels, ONES, size, ConvolutionError, problem) for size, problem in UNFIT),
        (kernels, ONES, {"pooling": "max"}, ConvolutionError, "'max'; give 'none' or 'average'"),
        (kernels, WIDE, {"pooling": "average"}, NotEnoughMemoryError, "998,001 pixels takes"),
        (kernels, MANY, {}, NotEnoughMemoryError, "1,000,000 images of 1 pixels takes 16000"),
        (
            kernels,
            WIDE,
            {"kernel_size": 99_999},
            NotEnoughMemoryError,
            "2 images of 998,001 pixels",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::ntk_conditioning.duals.quadrature.InaccurateDualWarning")
def test_what_cannot_be_computed_is_refused(function, x, options, error, message):
    depth = {"depth": 1} if function in NETWORK else {"depths": [1]}
    with pytest.raises(error, match=message):
        function(x, **{"activation": "relu"} | depth | options)


IMAGE, NETWORKS = (4, 4, 2), 40
LIMITS = [("mlp", name) for name in ("erf", "tanh", "selu", "normrelu")]
LIMITS += [("mlp_bias", "relu"), ("residual_mlp", "relu"), ("residual_mlp_scaled", "erf")]
LIMITS += [("conv", "erf"), ("conv_pool", "relu")]


@pytest.mark.parametrize(("model", "activation"), LIMITS)
def test_networks_tend_to_their_limit(model, activation):
    x, conv = inputs(3, 32) / 4, model.startswith("conv")
    seen, width = (x.reshape(-1, *IMAGE).movedim(-1, 1), 64) if conv else (x, 256)
    size = {"depth": 2, "width": width, "image": IMAGE, "outputs": 1, "activation": activation}
    drawn = (deep_network(model, **size, seed=seed) for seed in range(NETWORKS))
    found = [ntk(network, seen).numpy() for network in drawn]
    options = {"image": IMAGE, "depths": [2], "activation": activation}
    limit = infinite_models.ntks(model, x.numpy(), **options)[2]
    error = np.std(found, axis=0, ddof=1) / np.sqrt(NETWORKS)
    assert (error < 0.05 * limit.max()).all(), "an experiment that can tell"
    assert (np.abs(np.mean(found, axis=0) - limit) < 4 * error + 2 / width * limit.max()).all()


def close_pair(theta: float) -> np.ndarray:
    return np.array([[1.0, 0.0], [math.cos(theta), math.sin(theta)]])


@pytest.mark.parametrize("name", ["relu", "erf", "linear", "normrelu", "normalized_gelu"])
def test_one_pass_is_the_recursion_of_every_depth(name):
    x = np.random.default_rng(0).standard_normal((12, 4))
    x[2:4] = -x[:2] + [[1e-2], [1e-7]] * x[2:4]
    x, upper, depths = unit_rows(x), np.triu_indices(12, 1), [0, 1, 3, 9]
    for found in along_depth(x, depths=reversed(depths), activation=name):
        assert found.depth == depths.pop(0)
        layer = infinite.InfiniteNetwork(x, depth=found.depth, activation=name)
        for kernel, correlations in ((layer.nngp, found.nngp), (layer.ntk, found.ntk)):
            error = np.abs(kernel[upper] / kernel[0, 0] - correlations.pairs).max()
            assert error <= 2 * correlations.error < (1e-11 if "norm" in name else 1e-12)
    assert depths == []


@pytest.mark.parametrize("theta", [1e-7, 1e-2, 1.3])
def test_errors_bound_those_of_deep_kernels(theta):
    with mpmath.workdps(50):
        rho = mpmath.cos(mpmath.mpf(theta))
        for _ in range(400):
            rho, _ = erf_layer(1, 1, rho)
        exact = {"erf": rho, "relu": mpmath.cos(relu_angles(theta, 400)[-1])}
    for name, expected in exact.items():
        (found,) = along_depth(close_pair(theta), depths=[400], activation=name)
        assert abs(found.nngp.pairs[0] - expected) <= found.nngp.error < 2e-12


def test_the_excess_keeps_digits_that_kappa_loses_unless_rounding_makes_the_kernel_singular():
    """Two samples: kappa - 1 = 2ρ / (1 - ρ), and ρ falls by σ̂'(0) per layer."""
    (deep,) = along_depth(close_pair(1.0), depths=[300], activation="erf")
    rho = deep.nngp.pairs[0]
    excess, error = deep.nngp.excess
    assert 1e-13 < rho < 1e-11
    assert excess == pytest.approx(2 * rho / (1 - rho), rel=1e-12)
    assert 2 * deep.nngp.error < error < 1e-12
    (singular,) = along_depth(close_pair(1e-9), depths=[1], activation="relu")
    assert singular.nngp.excess is None
    assert singular.nngp.eigenvalues[0] == pytest.approx(-1)
    # with an error that exceeds κ, and one that does not
    known = [Correlations(np.array([1e-3]), np.array([e])).excess for e in (4e-4, 2e-4)]
    assert [excess is None for excess in known] == [True, False]


def test_errors_of_all_entries_at_once_move_eigenvalues_by_no_more_than_their_bound():
    error, distances = 1e-6, np.full(15, 0.5)  # of 6 samples
    here, there = (Correlations(distances + off, error) for off in (0, error))
    moved = np.abs(np.subtract(here.eigenvalues, there.eigenvalues)).max()
    assert 4 * error < moved <= here.eigenvalue_error < 10 * error


@pytest.mark.parametrize("name", ["relu", "erf", "tanh", "selu", "sigmoid", "normrelu"])
def test_a_table_is_within_its_error_at_all_scales(name):
    sigma, rng = activations.get(name), np.random.default_rng(0)
    theta = np.exp(rng.uniform(np.log(2e-8), np.log(3.1), 3000))
    theta = np.append(theta, np.pi - theta[:300])
    w = 2 * np.sin(theta / 2) ** 2
    layers = [*itertools.islice(layer_by_layer(sigma, w, angle_of(w)), 65)]
    for depth, table in tables(sigma, [0, 1, 7, 64]).items():
        exact = layers[depth].ntk.distances
        for part in (slice(None), w < 1e-3, w < 1e-12):
            assert np.abs(table(w[part]) - exact[part]).max() <= table.error(w[part])
        inner = (w > 1e-6) & (w < 1.9)
        np.testing.assert_allclose(table(w[inner]), exact[inner], rtol=1e-9)


def test_distances_of_0_stay_0_and_their_errors_are_told():
    table = tables(activations.get("relu"), [3])[3]
    assert table(np.array([0.0, 1e-300])).tolist() == [0.0, pytest.approx(0, abs=1e-280)]
    # e rises like the root of w: what is lost of a small distance counts
    assert table.error(np.array([1e-12, 1.0]), 1e-16) > 1e-11
    assert table.error(np.array([0.1, 1.0]), 1e-16) < 3e-14
