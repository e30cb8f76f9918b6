"""Condition the NTK at initialisation of networks that are to be trained, on their own samples.

The largest eigenvalue says how large a learning rate may be, and the condition number how fast
gradient descent on the square loss can be at best. Of networks with more outputs it is that of the
network with one, whose gradients have the factors of its learning rates.
"""

from dataclasses import asdict
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ntk_conditioning import tables
from ntk_conditioning.kernels.modules import ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, is_linear, linear_factor
from ntk_conditioning.networks.modules import Network
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import (
    Conditioning,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.tables.training_kernels import TRAINING_KERNELS
from ntk_workflow.cli import Argv, count_from_zero, logger, run_main
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.cli_networks import load_own_network
from ntk_workflow.settings import from_mapping
from ntk_workflow.trainings.data import labelled_samples
from ntk_workflow.trainings.networks import initial_network, takes_images
from ntk_workflow.trainings.settings import Family, KernelSettings, training_parser

log = logger(__file__)

#: Samples of the kernel: enough for the largest eigenvalue, which grows like their number.
MOST_SAMPLES = 1024


@run_main
def main(argv: Argv = None) -> None:
    parser = training_parser(__doc__, Family, KernelSettings)
    parser.add_argument(
        "--depths", type=count_from_zero, nargs="+", required=True, help="hidden layers"
    )
    args = parser.parse_args(argv)
    family, settings = from_mapping(Family, vars(args)), from_mapping(KernelSettings, vars(args))
    load_activations(args)
    log.info("device cpu, float64, width %d", settings.width)
    every = labelled_samples(args.data, None, family.dataset, settings).train
    own, activation = load_own_network(args), activations.get(args.activation)
    images = args.image if takes_images(family.model) else None
    rows = []
    for depth, (number, samples) in product(args.depths, every.items()):
        n_train = len(samples.x)
        n = min(n_train, MOST_SAMPLES)
        chosen = generator(number, "blocks").permutation(n_train)[:n]
        size: Any = {"seed": number, "depth": depth, "width": settings.width, "image": images}
        one = initial_network(
            family.model, samples.x[chosen], **size, activation=activation, own=own
        )
        spectrum = initial_conditioning(*one)
        critical = 2 * n / spectrum.lambda_max
        row = asdict(family) | {"depth": depth, "seed": number, "width": settings.width}
        row |= {"n": n, "n_train": n_train, "lambda_max": spectrum.lambda_max}
        row |= {"kappa": spectrum.kappa, "critical_learning_rate": critical}
        rows.append(row | {"lambda_min": spectrum.lambda_min if spectrum.kappa else None})
        log.info("depth %d, seed %d: critical learning rate %.4g", depth, number, critical)
    tables.write(args.output, TRAINING_KERNELS, tables.from_rows(TRAINING_KERNELS, rows))


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


if __name__ == "__main__":
    raise SystemExit(main())
