"""Bounds of liu2022transition against closed forms and Hessians."""

import itertools
import math

import numpy as np
import pytest
import torch

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


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "softplus", "gelu"])
def test_no_sub_model_bends_more_than_its_smoothness(name: str):
    """Norms of dense Hessians of u σ(w·x)/sqrt(d); somewhere they come near."""
    activation, rng = activations.get(name), np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal(3))
    c = float(x.norm()) / math.sqrt(3)
    norms = []
    for u, z in itertools.product(np.linspace(-2, 2, 9), np.linspace(-2, 2, 21)):
        point = torch.cat([x * z * math.sqrt(3) / x.square().sum(), torch.tensor([u])])
        hessian = torch.autograd.functional.hessian(
            lambda p: p[3] * activation.function(p[:3] @ x / math.sqrt(3)), point
        )
        norms.append(float(torch.linalg.matrix_norm(hessian, 2)))
    bound = theory.two_layer_smoothness(activation, c, 2.0)
    assert 0.7 * bound < max(norms) <= bound * (1 + 1e-9)
