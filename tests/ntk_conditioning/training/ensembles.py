"""Small ensembles of mlps or of modules, by default on Gaussian samples of three classes."""

import numpy as np
import torch

from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Ensemble
from ntk_conditioning.training.trainer import Split, Training

LOSSES = ("cross_entropy", "classes"), ("square", "classes"), ("square", "scalar")
CROSS_ENTROPY, SQUARE, SCALAR = LOSSES


def split(seed, n, *shape, dtype=torch.float64) -> Split:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.standard_normal((n, *shape))).to(dtype)
    return Split(x, torch.from_numpy(rng.permutation(n) % 3))


def ensemble(make, members, *, n=0, shape=(), test=0, data=None, loss=CROSS_ENTROPY, **options):
    """Return the networks that ``make`` makes, by hand-written passes if ``together`` is given."""
    seeds, classes = {member.seed for member in members}, options.pop("classes", 3)
    dtype = data.x.dtype if data else options.pop("dtype", torch.float64)
    more = {name: options.pop(name) for name in ("along", "together") if name in options}
    return (Ensemble if "together" in more else Training)(
        make,
        make_loss(loss[0], outputs=loss[1], classes=classes, dtype=dtype),
        members,
        {seed: data or split(seed, n, *shape, dtype=dtype) for seed in seeds},
        {seed: split(100 + seed, test, *shape, dtype=dtype) for seed in seeds} if test else None,
        descent=Descent(**options),
        **more,
    )


def networks(name, *, image, activation, outputs=3, dtype=torch.float64, **size):
    """Return what makes a network; ``frozen`` trains no first weight, ``tied`` shares one."""
    size |= {"d": int(np.prod(image)), "image": image, "outputs": outputs, "dtype": dtype}
    built_in = {"frozen": "mlp_bias", "tied": "fc_layer_norm"}.get(name, name)

    def make(rng):
        network = make_network(built_in, rng, activation=activation, **size)
        next(network.parameters()).requires_grad_(name != "frozen")
        if name == "tied":
            first, second = (m for m in network.modules() if isinstance(m, torch.nn.LayerNorm))
            second.weight = first.weight
        return network

    return make
