"""Finite networks approach the infinite-width kernel at the rate of the law of large numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ntk_conditioning import activations, empirical, infinite
from ntk_conditioning.networks import init_mlp
from ntk_conditioning.seeds import generator

WIDTHS = (64, 128, 256, 512, 1024)
SEEDS = range(32)


@pytest.mark.parametrize("activation", ["relu", "tanh", "erf", "selu", "normrelu"])
def test_empirical_kernel_converges_like_one_over_the_root_of_the_width(activation):
    """Inputs of unequal norms, depth 2; root mean square of the relative error over seeds."""
    x = generator(1, "data").standard_normal((8, 6)) / np.sqrt(6)
    limit = infinite.ntk(x, depth=2, activation=activation)
    errors = []
    for width in WIDTHS:
        squares = []
        for seed in SEEDS:
            mlp = init_mlp(
                6,
                depth=2,
                width=width,
                activation=activations.get(activation),
                generator=generator(seed, "init"),
            )
            k = empirical.ntk(mlp, torch.from_numpy(x)).numpy()
            squares.append(np.sum((k - limit) ** 2) / np.sum(limit**2))
        errors.append(np.sqrt(np.mean(squares)))
    slope, _ = np.polyfit(np.log(WIDTHS), np.log(errors), 1)
    assert slope == pytest.approx(-0.5, abs=0.15)
    assert errors[-1] < 0.1
