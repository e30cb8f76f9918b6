"""The NTK at initialisation of networks that are to be trained, on their own samples.

The largest eigenvalue says how large a learning rate may be, and the condition number how fast
gradient descent on the square loss can be at best. Of networks with more outputs it is that of the
network with one, whose gradients have the factors of its learning rates.
"""

import torch
from torch import Tensor

from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.networks.mlp import MLP, is_linear, linear_factor
from ntk_conditioning.networks.modules import Network
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import (
    Conditioning,
    conditioning,
    conditioning_from_factor,
)
from ntk_workflow.cli import logger
from ntk_workflow.trainings.networks import Rows, TrainingTask, initial_network

log = logger(__file__)

#: Samples of the kernel: enough for the largest eigenvalue, which grows like their number.
MOST_SAMPLES = 1024


def initial_kernel_rows(task: TrainingTask) -> Rows:
    """Return the rows of the table `training_kernels`, of every seed whose critical rate counts.

    They are in float64 and on the processor, whatever the training is in.
    """
    rows, width = Rows(), task.settings.width
    for seed in task.settings.critical_seeds or task.settings.seeds:
        x = task.samples.train[seed].x
        n = min(len(x), MOST_SAMPLES)
        block = x[generator(seed, "blocks").permutation(len(x))[:n]]
        network, seen = initial_network(task.model, block, seed=seed, own=task.own, **task.shape)
        spectrum = initial_conditioning(network, seen)
        critical = 2 * n / spectrum.lambda_max
        log.info("depth %d, seed %d: critical learning rate %.4g", task.depth, seed, critical)
        row = task.names | {"seed": seed, "width": width, "n": n, "n_train": len(x)}
        row |= {"lambda_max": spectrum.lambda_max, "kappa": spectrum.kappa}
        row |= {"lambda_min": spectrum.lambda_min if spectrum.kappa else None}
        rows.append(row | {"critical_learning_rate": critical})
    return rows


def initial_conditioning(network: MLP | Network, x: Tensor) -> Conditioning:
    """Return the conditioning of the kernel by which gradient descent changes the outputs."""
    if isinstance(network, MLP) and is_linear(network):
        return conditioning_from_factor(linear_factor(network, x).numpy())
    if isinstance(network, MLP):
        return conditioning(ntk(network, x).numpy())
    k = torch.zeros(len(x), len(x), dtype=x.dtype)
    for factor, parameters in network.rate_groups().items():
        group = {id(parameter) for parameter in parameters}
        k += factor * ntk(network, x, parameters=lambda _, p, group=group: id(p) in group)
    return conditioning(k.numpy())
