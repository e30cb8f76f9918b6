"""Condition the NTK at initialisation of networks that are to be trained, on their own samples.

The largest eigenvalue says how large a learning rate may be, and the condition number how fast
gradient descent on the square loss can be at best.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from ntk_conditioning import tables
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp, is_linear
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import conditioning, conditioning_from_factor
from ntk_conditioning.tables.training import TRAINING_KERNELS
from ntk_workflow.cli import limit_threads, logger, run_main
from ntk_workflow.cli_activations import load_activation_files
from ntk_workflow.trainings.data import point, point_parser, training_samples

log = logger(__file__)

#: Samples of the kernel: enough for the largest eigenvalue, which grows like their number.
MOST_SAMPLES = 1024


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = point_parser(__doc__).parse_args(argv)
    limit_threads(args.threads)
    load_activation_files(args)
    activation = activations.get(args.activation)
    rows = []
    log.info("device cpu, float64, depth %d, width %d", args.depth, args.width)
    for seed, samples in training_samples(args)[0].items():
        n_train, d = samples.x.shape
        n = min(n_train, MOST_SAMPLES)
        chosen = generator(seed, "blocks").permutation(n_train)[:n]
        x = torch.from_numpy(samples.x[chosen])
        mlp = init_mlp(
            d,
            depth=args.depth,
            width=args.width,
            activation=activation,
            generator=generator(seed, "init"),
        )
        if is_linear(mlp):
            found = conditioning_from_factor(empirical.linear_factor(mlp, x).numpy())
        else:
            found = conditioning(empirical.ntk(mlp, x).numpy())
        rows.append(
            {
                **point(args),
                "seed": seed,
                "width": args.width,
                "n": n,
                "n_train": n_train,
                "lambda_max": found.lambda_max,
                "lambda_min": found.lambda_min if found.kappa else None,
                "kappa": found.kappa,
                "critical_learning_rate": 2 * n / found.lambda_max,
            }
        )
        log.info("seed %d: critical learning rate %.4g", seed, rows[-1]["critical_learning_rate"])
    tables.write(args.output, TRAINING_KERNELS, tables.from_rows(TRAINING_KERNELS, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
