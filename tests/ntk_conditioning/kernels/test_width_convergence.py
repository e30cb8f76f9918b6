"""Finite networks approach the infinite-width kernel at the rate of the law of large numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ntk_conditioning.kernels import empirical, infinite
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator

WIDTHS = (64, 256, 1024)
SEEDS = range(24)


@pytest.mark.parametrize("activation", ["relu", "tanh", "erf", "selu", "normrelu"])
def test_empirical_kernels_converge_like_one_over_the_root_of_the_width(activation):
    """Inputs of unequal norms, depth 2; root mean square of the relative error over seeds."""
    x = generator(1, "data").standard_normal((8, 6)) / np.sqrt(6)
    limits = [kernel(x, depth=2, activation=activation) for kernel in (infinite.ntk, infinite.nngp)]
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
            rows = torch.from_numpy(x)
            kernels = empirical.ntk(mlp, rows).numpy(), empirical.nngp(mlp, rows).numpy()
            squares.append(
                [
                    np.sum((kernel - limit) ** 2) / np.sum(limit**2)
                    for kernel, limit in zip(kernels, limits, strict=True)
                ]
            )
        errors.append(np.sqrt(np.mean(squares, axis=0)))
    slopes, _ = np.polyfit(np.log(WIDTHS), np.log(errors), 1)
    assert slopes == pytest.approx([-0.5, -0.5], abs=0.15)
    assert errors[-1].max() < 0.1
