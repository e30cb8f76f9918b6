"""The kernels of infinite width by name are the limits of the networks by the same name."""

import numpy as np
import pytest

from ntk_conditioning.kernels import infinite_models
from ntk_conditioning.kernels.modules import ntk
from tests.ntk_conditioning.gradients import deep_network, inputs, network

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
    x, width = inputs(3, 32) / 4, 256
    seen = x
    if model.startswith("conv"):
        seen, width = x.reshape(-1, *IMAGE).movedim(-1, 1), 64
    found = []
    for seed in range(NETWORKS):
        given = {"activation": activation, "seed": seed}
        if model == "mlp":
            drawn = network(32, width=width, **given)
        else:
            drawn = deep_network(model, 2, width, image=IMAGE, outputs=1, **given)
        found.append(ntk(drawn, seen).numpy())
    options = {"image": IMAGE, "depths": [2], "activation": activation}
    limit = infinite_models.ntks(model, x.numpy(), **options)[2]
    error = np.std(found, axis=0, ddof=1) / np.sqrt(NETWORKS)
    assert (error < 0.05 * limit.max()).all(), "an experiment that can tell"
    assert (np.abs(np.mean(found, axis=0) - limit) < 4 * error + 2 / width * limit.max()).all()
