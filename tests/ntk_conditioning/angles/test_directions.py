"""Angles between samples, from their differences, against many digits."""

import mpmath
import numpy as np
import pytest

from ntk_conditioning.angles.directions import angles_between


@pytest.mark.parametrize("delta", [1.0, 1e-8, 1e-15])
@pytest.mark.parametrize("ratio", [1.0, -1.7, 1e-150])
def test_angles_are_those_of_60_digits(ratio, delta):
    x = np.random.default_rng(0).standard_normal((3, 6))
    x[1] = ratio * (x[0] + delta * x[2])
    with mpmath.workdps(60):
        a, b = (mpmath.matrix([mpmath.mpf(float(value)) for value in row]) for row in x[:2])
        lengths = mpmath.norm(a) * mpmath.norm(b)
        expected = float(mpmath.acos(mpmath.fdot(a, b) / lengths))
    assert float(angles_between(x[:1], x[1:2])[0]) == pytest.approx(expected, rel=4e-15)
