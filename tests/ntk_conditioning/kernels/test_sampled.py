"""Kernels of networks whose weights are never drawn, against networks with weights."""

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.kernels.sampled import sampled_ntks
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp


# more samples than units, or than dimensions, too: factors have other shapes then
@pytest.mark.parametrize(
    ("name", "depth", "width", "n", "d"),
    [("relu", 3, 24, 6, 9), ("tanh", 4, 12, 5, 3), ("tanh", 2, 4, 7, 9)],
)
def test_kernels_have_the_distribution_of_networks(name, depth, width, n, d):
    """Of their largest and smallest eigenvalue, an entry, and the logarithm of their trace."""
    x = np.random.default_rng(7).standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1)[:, None]
    size = {"depth": depth, "width": width, "activation": activations.get(name)}
    ours = sampled_ntks(x, **size, networks=1000, generator=np.random.default_rng(1))
    mlps = (init_mlp(d, **size, generator=np.random.default_rng(seed)) for seed in range(1000))
    theirs = np.stack([ntk(mlp, torch.from_numpy(x)).numpy() for mlp in mlps])
    numbers = [
        lambda k: np.linalg.eigvalsh(k)[:, -1],
        lambda k: np.linalg.eigvalsh(k)[:, 0],
        lambda k: k[:, 0, 1],
        lambda k: np.log(np.trace(k, axis1=1, axis2=2)),
    ]
    for of in numbers:
        assert ks_2samp(of(ours), of(theirs)).pvalue > 1e-3


def test_samples_that_are_equal_or_parallel_have_equal_or_parallel_gradients():
    x = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 0.0]])
    size = {"depth": 5, "width": 16, "networks": 3, "activation": activations.get("relu")}
    for k in sampled_ntks(x, **size, generator=np.random.default_rng(0)):
        np.testing.assert_allclose(k[0], k[1], rtol=1e-12)
        np.testing.assert_allclose(2 * k[2], k[3], rtol=1e-10)


def test_networks_that_are_drawn_in_parts_are_as_many(monkeypatch):
    monkeypatch.setattr("ntk_conditioning.kernels.sampled.MEMORY", 1)
    size = {"depth": 2, "width": 8, "networks": 3, "activation": activations.get("tanh")}
    found = sampled_ntks(np.eye(4), **size, generator=np.random.default_rng(0))
    assert found.shape == (3, 4, 4)
    assert len({k.tobytes() for k in found}) == 3
