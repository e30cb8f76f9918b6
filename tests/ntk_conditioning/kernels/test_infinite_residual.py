"""Residual and biased networks of infinite width against 50 digits and finite networks."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from ntk_conditioning.angles.pairs import ZeroRowError
from ntk_conditioning.kernels.infinite import SamplesError, UnresolvedKernelError, nngp, ntk
from ntk_conditioning.kernels.infinite_network import ScaleError
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
