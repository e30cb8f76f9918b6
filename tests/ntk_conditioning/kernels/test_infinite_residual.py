"""Residual and biased networks of infinite width against 50 digits and finite networks."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf

from ntk_conditioning.angles.pairs import ZeroRowError
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.infinite import SamplesError, UnresolvedKernelError
from ntk_conditioning.kernels.infinite_residual import Network, ScaleError, nngp, ntk
from ntk_conditioning.networks import activations
from tests.ntk_conditioning.references import (
    erf_layer,
    exact_gram,
    normalized_relu_layer,
    relu_layer,
)

LAYERS = {"relu": relu_layer, "erf": erf_layer, "normalized_relu": normalized_relu_layer}


def samples(n: int, d: int) -> np.ndarray:
    """Return rows of which two are close in angle and in norm."""
    x = np.random.default_rng(0).standard_normal((n, d)) / math.sqrt(d)
    x[1] = (1 + 3e-6) * (x[0] + 1e-6 * x[2])
    return x


def slow_kernels(x, depth, layer, *, branch_scale, bias_scale) -> list[mpmath.matrix]:
    """Return NNGP and NTK by their recursion, in mpmath's digits."""
    n, bias = len(x), mpf(bias_scale) ** 2
    sigma = exact_gram(x) + bias * mpmath.ones(n)
    theta = sigma.copy()
    for _ in range(depth):
        blocks = mpmath.zeros(n), mpmath.zeros(n)
        for i, j in itertools.product(range(n), repeat=2):
            value, slope = layer(sigma[i, i], sigma[j, j], sigma[i, j], i == j)
            blocks[0][i, j] = value + bias
            blocks[1][i, j] = value + bias + theta[i, j] * slope
        if branch_scale is None:
            sigma, theta = blocks
        else:
            branch = mpf(branch_scale) ** 2
            sigma, theta = sigma + branch * blocks[0], theta + branch * blocks[1]
    if branch_scale is not None:
        sigma = sigma + bias * mpmath.ones(n)
        theta = theta + sigma
    return [sigma, theta]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize(
    ("branch_scale", "bias_scale"), [(None, 0.1), (1.0, 0.0), (0.5, 0.3), (0.0, 0.1)]
)
def test_kernels_are_those_of_50_digits(name, depth, branch_scale, bias_scale):
    x, scales = samples(4, 5), {"branch_scale": branch_scale, "bias_scale": bias_scale}
    options = {"depth": depth, "activation": name, **scales}
    with mpmath.workdps(50):
        exact = slow_kernels(x, depth, LAYERS[name], **scales)
    for k, expected in zip((nngp(x, **options), ntk(x, **options)), exact, strict=True):
        reference = np.array(expected.tolist(), dtype=np.float64)
        np.testing.assert_allclose(k, reference, rtol=0, atol=1e-13 * reference.max())
        np.testing.assert_array_equal(k, k.T)


@pytest.mark.parametrize("name", ["relu", "erf"])
def test_plain_networks_without_biases_are_those_of_infinite(name):
    x = samples(7, 5)
    network = Network(x[:3], x[3:], depth=3, activation=name)
    layer = infinite.Layer(x[:3], x[3:], depth=3, activation=name)
    np.testing.assert_allclose(network.nngp, layer.nngp, rtol=0, atol=1e-14 * layer.nngp.max())
    np.testing.assert_allclose(network.ntk, layer.ntk, rtol=0, atol=1e-14 * layer.ntk.max())


def finite_ntk(x, *, depth, width, name, branch_scale, bias_scale, seed) -> np.ndarray:
    """Return the NTK of a random network as the module under test defines it."""
    sigma, rng = activations.get(name), np.random.default_rng(seed)
    plain = branch_scale is None
    widths = [x.shape[1], *[width] * (depth + 1)]
    if plain:
        widths[-1] = 1
    shapes = [(after, before) for before, after in itertools.pairwise(widths)]
    if not plain:
        shapes.append((1, width))
    weights, biases = (
        [torch.from_numpy(rng.standard_normal(each)).requires_grad_() for each in sizes]
        for sizes in (shapes, [after for after, _ in shapes])
    )
    u = torch.from_numpy(x) @ weights[0].T + bias_scale * biases[0]
    for weight, bias in zip(weights[1 : depth + 1], biases[1 : depth + 1], strict=True):
        block = sigma.gain / math.sqrt(width) * sigma.function(u) @ weight.T + bias_scale * bias
        u = block if plain else u + branch_scale * block
    if not plain:
        u = u @ weights[-1].T / math.sqrt(width) + bias_scale * biases[-1]
    parameters = [*weights, *(biases if bias_scale else [])]
    rows = []
    for output in u[:, 0]:
        parts = torch.autograd.grad(output, parameters, retain_graph=True)
        rows.append(torch.cat([part.flatten() for part in parts]))
    j = torch.stack(rows)
    return (j @ j.T).numpy()


@pytest.mark.parametrize(
    ("name", "branch_scale", "bias_scale"),
    [("relu", None, 0.5), ("relu", 1.0, 0.0), ("erf", 1 / math.sqrt(3), 0.5)],
)
def test_finite_networks_approach_them_like_one_over_the_root_of_the_width(
    name, branch_scale, bias_scale
):
    """Root mean square of the relative error over 24 networks."""
    x, widths = samples(6, 5), (32, 128, 512)
    options = {"depth": 3, "branch_scale": branch_scale, "bias_scale": bias_scale}
    limit = ntk(x, activation=name, **options)
    squares = np.zeros(len(widths))
    for row, seed in itertools.product(range(len(widths)), range(24)):
        k = finite_ntk(x, width=widths[row], name=name, seed=seed, **options)
        squares[row] += np.sum((k - limit) ** 2) / np.sum(limit**2) / 24
    errors = np.sqrt(squares)
    assert np.polyfit(np.log(widths), np.log(errors), 1)[0] == pytest.approx(-0.5, abs=0.15)
    assert errors[-1] < 0.15


@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        ([[1.0]], {"depth": -1}, SamplesError, "-1 is negative"),
        ([[1.0], [0.0]], {}, ZeroRowError, "row 1"),
        ([[1.0]], {"branch_scale": -1.0}, ScaleError, "branch_scale is -1"),
        ([[1.0]], {"bias_scale": math.inf}, ScaleError, "bias_scale is inf"),
        ([[1e150]], {"branch_scale": 1e10}, UnresolvedKernelError, "not finite"),
        ([[1e5]], {"activation": "tanh"}, UnresolvedKernelError, "tanh at depth 1: .*; scale"),
    ],
)
@pytest.mark.filterwarnings("ignore::ntk_conditioning.duals.quadrature.InaccurateDualWarning")
def test_what_cannot_be_computed_is_refused(x, options, error, message):
    with pytest.raises(error, match=message):
        ntk(x, **{"depth": 1, "activation": "relu"} | options)
