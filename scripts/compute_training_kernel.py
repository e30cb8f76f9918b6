"""Condition the NTK at initialisation of networks that are to be trained, on their own samples.

The largest eigenvalue says how large a learning rate may be, and the condition number how fast
gradient descent on the square loss can be at best.
"""

from dataclasses import asdict
from itertools import product
from typing import Any

import torch

from ntk_conditioning import tables
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.mlp import init_mlp, is_linear
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import conditioning, conditioning_from_factor
from ntk_conditioning.tables.training_kernels import TRAINING_KERNELS
from ntk_workflow.cli import Argv, logger, run_main, seed
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.settings import from_mapping
from ntk_workflow.trainings.data import training_samples
from ntk_workflow.trainings.settings import Family, KernelSettings, training_parser

log = logger(__file__)

#: Samples of the kernel: enough for the largest eigenvalue, which grows like their number.
MOST_SAMPLES = 1024


@run_main
def main(argv: Argv = None) -> None:
    parser = training_parser(__doc__, Family, KernelSettings)
    parser.add_argument("--depths", type=seed, nargs="+", required=True, help="hidden layers")
    args = parser.parse_args(argv)
    family, settings = from_mapping(Family, vars(args)), from_mapping(KernelSettings, vars(args))
    size: dict[str, Any] = {"width": settings.width, "activation": args.activation}
    load_activations(args)
    log.info("device cpu, float64, width %d", settings.width)
    every = training_samples(args.data, family.dataset, settings)[0]
    rows = []
    for depth, (number, samples) in product(args.depths, every.items()):
        n_train, d = samples.x.shape
        n = min(n_train, MOST_SAMPLES)
        chosen = generator(number, "blocks").permutation(n_train)[:n]
        x = torch.from_numpy(samples.x[chosen])
        mlp = init_mlp(d, depth=depth, **size, generator=generator(number, "init"))
        if is_linear(mlp):
            spectrum = conditioning_from_factor(empirical.linear_factor(mlp, x).numpy())
        else:
            spectrum = conditioning(empirical.ntk(mlp, x).numpy())
        critical = 2 * n / spectrum.lambda_max
        row = asdict(family) | {"depth": depth, "seed": number, "width": settings.width}
        row |= {"n": n, "n_train": n_train, "lambda_max": spectrum.lambda_max}
        row |= {"kappa": spectrum.kappa, "critical_learning_rate": critical}
        rows.append(row | {"lambda_min": spectrum.lambda_min if spectrum.kappa else None})
        log.info("depth %d, seed %d: critical learning rate %.4g", depth, number, critical)
    tables.write(args.output, TRAINING_KERNELS, tables.from_rows(TRAINING_KERNELS, rows))


if __name__ == "__main__":
    raise SystemExit(main())
