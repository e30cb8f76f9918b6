"""Condition kernels on more and more samples: exactly, and by products where they do not fit."""

import math
from itertools import product
from typing import Any

import torch

from ntk_conditioning import ntk_operator, tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.data.subsets import seed_stream
from ntk_conditioning.files import sha256
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import init_mlp, is_linear
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.empirical_kernel import EmpiricalKernel
from ntk_conditioning.spectra.operators import condition_operator
from ntk_workflow import cli
from ntk_workflow.checkpoints import Checkpoints
from ntk_workflow.rows import TOO_LARGE, available_memory

LARGEST = ("n", "lambda_max", "lambda_max_error")
EXACT = (*LARGEST, "lambda_min", "lambda_min_error", "kappa", "kappa_error")
RANK = ("effective_rank", "effective_rank_low", "effective_rank_high")


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = (*cli.ROW, "data", "depths", "seeds", "width")
    parser, positive = cli.Parser(*options, description=__doc__), cli.positive_integer
    add = parser.add_argument
    add("--samples", type=positive, nargs="+", required=True, help="sizes n of exact kernels")
    add("--bounded", type=positive, nargs="*", default=[], help="others, by products alone")
    add("--probes", type=positive, default=2, help="Lanczos runs of a kernel that is not formed")
    add("--steps", type=positive, default=4, help="products of each run")
    args = parser.parse_args(argv)

    sigmas = activations.load(args.activation, args.activation_file)
    data = load_prepared(args.data).x
    cli.log.info("device cpu, float64, sizes %s of %d", args.samples + args.bounded, len(data))
    checkpoints = Checkpoints(args.checkpoints, "whole_dataset")
    given = {"code": args.code, "data": sha256(args.data)}
    rows = []
    for seed, (activation, sigma), depth in product(args.seeds, sigmas.items(), args.depths):
        x = data[seed_stream(seed).permutation(len(data))]  # of which each size takes the first
        size: Any = {"depth": depth, "width": args.width, "activation": sigma}
        mlp = init_mlp(x.shape[1], **size, generator=generator(seed, "init"))
        names = {"dataset": args.dataset, "activation": activation, "depth": depth, "seed": seed}
        names |= {"width": args.width}
        least = math.inf  # eigenvalue so far: more samples have no larger one
        for n in sorted(args.samples):
            cell = names | given | {"n": n}
            if (done := checkpoints.read(cell)) is None:
                memory = available_memory("cpu")
                budget = MemoryBudget(memory, threads=args.threads, remedy=TOO_LARGE)
                result = EmpiricalKernel(mlp, "empirical_ntk", budget).conditioning(x[:n])
                row = {column: getattr(result, column) for column in EXACT}
                row |= names | dict.fromkeys(RANK) | {"d": x.shape[1], "method": "exact"}
                row["kappa_bound"] = result.kappa
                checkpoints.write(cell, done := [row])
            rows += done
            if done[0]["kappa"] is not None:
                least = min(least, done[0]["lambda_min"] + done[0]["lambda_min_error"])
        for n in [] if is_linear(mlp) else sorted({*args.bounded} - {*args.samples}):
            cell = names | given | {"n": n, "probes": args.probes, "steps": args.steps}
            if (done := checkpoints.read(cell)) is None:
                kernel = ntk_operator(mlp, torch.from_numpy(x[:n]))
                found = condition_operator(kernel, probes=args.probes, steps=args.steps, seed=seed)
                row = names | dict.fromkeys(EXACT) | {"d": x.shape[1], "method": "products"}
                row |= {column: getattr(found, column) for column in (*LARGEST, "kappa_bound")}
                row |= dict(zip(RANK, found.effective_rank, strict=True))
                checkpoints.write(cell, done := [row])
            better = done[0]["lambda_max"] / least
            rows.append(done[0] | {"kappa_bound": max(done[0]["kappa_bound"], better)})
    tables.write(args.output, "whole_dataset", rows)
