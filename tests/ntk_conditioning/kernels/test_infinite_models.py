"""The kernels of infinite width by name are the limits of the networks by the same name."""

import numpy as np
import pytest
import torch

from ntk_conditioning.kernels import infinite_models
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.networks.modules import make_network

IMAGE, SAMPLES, NETWORKS = (4, 4, 2), 3, 40
WIDTHS = {"conv": 64, "conv_pool": 64}


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
    sigma, width = activations.get(activation), WIDTHS.get(model, 256)
    x = np.random.default_rng(0).standard_normal((SAMPLES, 32)) / 4
    size = {"depth": 2, "width": width, "activation": sigma}
    seen = torch.from_numpy(x)
    if model.startswith("conv"):
        seen = seen.reshape(SAMPLES, *IMAGE).movedim(-1, 1)
    found = []
    for seed in range(NETWORKS):
        rng = np.random.default_rng([1, seed])
        if model == "mlp":
            network = init_mlp(32, **size, generator=rng)
        else:
            options = {"d": 32, "image": IMAGE, "outputs": 1, "dtype": torch.float64}
            network = make_network(model, rng, **size, **options)
        found.append(ntk(network, seen).numpy())
    limits = infinite_models.ntks(model, x, image=IMAGE, depths=[2], activation=activation)
    (limit,) = limits.values()
    error = np.std(found, axis=0, ddof=1) / np.sqrt(NETWORKS)
    assert (error < 0.05 * limit.max()).all(), "an experiment that can tell"
    assert (np.abs(np.mean(found, axis=0) - limit) < 4 * error + 2 / width * limit.max()).all()
