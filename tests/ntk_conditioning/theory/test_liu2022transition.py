"""Bounds of liu2022transition against closed forms."""

import math

import pytest

from ntk_conditioning.networks import activations
from ntk_conditioning.theory import liu2022transition as theory


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("tanh", 1.0, 4 / (3 * math.sqrt(3))),
        ("sigmoid", 0.25, 1 / (6 * math.sqrt(3))),
        ("softplus", 1.0, 0.25),
        ("erf", 2 / math.sqrt(math.pi), 2 * math.sqrt(2 / (math.pi * math.e))),
        ("linear", 1.0, 0.0),
        ("relu", 1.0, math.inf),
    ],
)
def test_suprema_of_slopes_are_those_of_calculus(name: str, first: float, second: float):
    largest, curvature = theory.slope_bounds(activations.get(name))
    assert (largest, curvature) == pytest.approx((first, second), rel=1e-6)
    assert largest <= first * (1 + 1e-12)
    assert curvature <= second * (1 + 1e-10)  # differences lose digits
