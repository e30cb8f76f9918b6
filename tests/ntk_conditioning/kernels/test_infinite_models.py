"""The kernels of infinite width by name are the limits of the networks by the same name."""

import numpy as np
import pytest
import torch

from ntk_conditioning.kernels import infinite_models
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.networks.modules import make_network

IMAGE, NETWORKS = (4, 4, 2), 40


@pytest.mark.parametrize(
    ("model", "activation"),
    [
        *(("mlp", name) for name in ("erf", "tanh", "selu", "normrelu")),
        ("mlp_bias", "relu"),
        ("residual_mlp", "relu"),
        ("residual_mlp_scaled", "erf"),
        ("conv", "erf"),
        ("conv_pool", "relu"),
    ],
)
def test_networks_tend_to_their_limit(model, activation):
    """Every entry's mean within four standard errors, and a bias of order 1 / width."""
    x, width = np.random.default_rng(0).standard_normal((3, 32)) / 4, 256
    seen = torch.from_numpy(x)
    if model.startswith("conv"):
        seen, width = seen.reshape(-1, *IMAGE).movedim(-1, 1), 64
    size = {"depth": 2, "width": width, "activation": activations.get(activation)}
    found = []
    for seed in range(NETWORKS):
        rng = np.random.default_rng([1, seed])
        if model == "mlp":
            network = init_mlp(32, **size, generator=rng)
        else:
            options = {"d": 32, "image": IMAGE, "outputs": 1, "dtype": torch.float64}
            network = make_network(model, rng, **size, **options)
        found.append(ntk(network, seen).numpy())
    limit = infinite_models.ntks(model, x, image=IMAGE, depths=[2], activation=activation)[2]
    error = np.std(found, axis=0, ddof=1) / np.sqrt(NETWORKS)
    assert (error < 0.05 * limit.max()).all(), "an experiment that can tell"
    assert (np.abs(np.mean(found, axis=0) - limit) < 4 * error + 2 / width * limit.max()).all()
