"""Finite networks approach the infinite-width kernel at the rate of the law of large numbers."""

import numpy as np
import pytest
import torch

from ntk_conditioning.kernels import empirical, infinite
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, init_mlp
from ntk_conditioning.seeds import generator

WIDTHS = (64, 256, 1024)
ACTIVATIONS = ("relu", "tanh", "erf", "selu", "normrelu")


def test_empirical_kernels_converge_like_one_over_the_root_of_the_width():
    """Inputs of unequal norms, depth 2; root mean square of the relative error over seeds."""
    x = generator(1, "data").standard_normal((8, 6)) / np.sqrt(6)
    layers = {name: infinite.InfiniteNetwork(x, depth=2, activation=name) for name in ACTIVATIONS}
    squares = {name: np.zeros((len(WIDTHS), 2)) for name in ACTIVATIONS}
    for row, width in enumerate(WIDTHS):
        for seed in range(24):
            rng = generator(seed, "init")
            weights = init_mlp(6, depth=2, width=width, activation="relu", generator=rng).weights
            for name, layer in layers.items():
                mlp, rows = MLP(weights, activations.get(name)), torch.from_numpy(x)
                kernels = empirical.ntk(mlp, rows).numpy(), empirical.nngp(mlp, rows).numpy()
                for column, limit in enumerate((layer.ntk, layer.nngp)):
                    off = np.sum((kernels[column] - limit) ** 2) / np.sum(limit**2)
                    squares[name][row, column] += off / 24
    for name in ACTIVATIONS:
        errors = np.sqrt(squares[name])
        slopes, _ = np.polyfit(np.log(WIDTHS), np.log(errors), 1)
        assert slopes == pytest.approx([-0.5, -0.5], abs=0.15), name
        assert errors[-1].max() < 0.1
