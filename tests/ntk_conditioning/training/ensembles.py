"""Small ensembles of mlps or of torch's modules, on Gaussian samples of three classes."""

import numpy as np
import torch
from torch.func import functional_call, jacrev

from ntk_conditioning.training.descent import Descent
from ntk_conditioning.training.losses import make_loss
from ntk_conditioning.training.mlp_ensemble import Architecture, Ensemble
from ntk_conditioning.training.module_ensemble import ModuleEnsemble
from ntk_conditioning.training.trainer import Split

LOSSES = ("cross_entropy", "classes"), ("square", "classes"), ("square", "scalar")
CROSS_ENTROPY, SQUARE, SCALAR = LOSSES


def split(seed, n, *shape, dtype=torch.float64) -> Split:
    """Return ``n`` samples of a shape, images with their colours first."""
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.standard_normal((n, *shape))).to(dtype)
    return Split(x, torch.from_numpy(rng.permutation(n) % 3))


def ensemble(
    make, members, *, n, shape, test=0, loss=CROSS_ENTROPY, dtype=torch.float64, **options
):
    """Return the networks of an architecture, or those that ``make`` makes of a generator."""
    seeds, kind = {member.seed for member in members}, ModuleEnsemble
    more = {name: options.pop(name) for name in ("along", "together") if name in options}
    if isinstance(make, Architecture):
        kind = Ensemble
    return kind(
        make,
        make_loss(loss[0], outputs=loss[1], classes=3, dtype=dtype),
        members,
        {seed: split(seed, n, *shape, dtype=dtype) for seed in seeds},
        {seed: split(100 + seed, test, *shape, dtype=dtype) for seed in seeds} if test else None,
        descent=Descent(**options),
        **more,
    )


def jacobian(network, x):
    """Return the names of what trains, the Jacobian (n, c, p) by it, and factors of rates (p,)."""
    parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
    weights = {name: p.detach() for name, p in parameters.items()}
    rows = jacrev(lambda given: functional_call(network, given, x)[0])(weights)
    factor = {p: f for f, group in network.rate_groups().items() for p in group}
    factors = [torch.full((p.numel(),), factor[p], dtype=x.dtype) for p in parameters.values()]
    flat = [rows[name].reshape(len(x), -1, p.numel()) for name, p in parameters.items()]
    return [*parameters], torch.cat(flat, dim=2), torch.cat(factors)
