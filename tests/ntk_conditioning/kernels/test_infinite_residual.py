"""Residual and biased networks of infinite width against 50 digits."""

import math

import mpmath
import numpy as np
import pytest

from ntk_conditioning.kernels.infinite import nngp, ntk
from tests.ntk_conditioning.references import LAYERS, infinite_kernels


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize(
    ("branch_scale", "bias_scale"), [(None, 0.1), (1.0, 0.0), (0.5, 0.3), (0.0, 0.1)]
)
def test_kernels_are_those_of_50_digits(name, depth, branch_scale, bias_scale):
    x = np.random.default_rng(0).standard_normal((4, 5)) / math.sqrt(5)
    x[1] = (1 + 3e-6) * (x[0] + 1e-6 * x[2])
    scales = {"branch_scale": branch_scale, "bias_scale": bias_scale}
    with mpmath.workdps(50):
        exact = infinite_kernels(x, depth, LAYERS[name], **scales)
    for kernel, expected in zip((nngp, ntk), exact, strict=True):
        k = kernel(x, depth=depth, activation=name, **scales)
        reference = np.array(expected.tolist(), dtype=np.float64)
        np.testing.assert_allclose(k, reference, rtol=0, atol=1e-13 * reference.max())
        np.testing.assert_array_equal(k, k.T)
