"""Condition a kernel of infinite width on random blocks of a dataset."""

from itertools import product
from pathlib import Path
from typing import get_args

from ntk_conditioning import tables
from ntk_conditioning.networks import activations
from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.infinite_kernel import InfiniteKernel, InfiniteName
from ntk_workflow import cli
from ntk_workflow.checkpoints import Checkpoints
from ntk_workflow.rows import available_memory, samples_by_seed
from ntk_workflow.rows.blocks import REMEDY, block_rows


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = (*cli.ROW, *cli.BLOCKS, "depths", "seeds")
    parser = cli.Parser(*options, description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, help="dataset (.npz), for all seeds or each")
    add("--kernel", choices=get_args(InfiniteName), required=True)
    args = parser.parse_args(argv)

    sigmas = activations.load(args.activation, args.activation_file)
    budget = MemoryBudget(available_memory(), args.full_spectrum_below, args.threads, REMEDY)
    cli.log.info("device cpu, float64, infinite width, depths %s", args.depths)
    checkpoints = Checkpoints(args.checkpoints, "spectra")
    blocks = {"size": args.kernel_size, "count": args.blocks, "eigenvalues": args.eigenvalues}
    given = blocks | {"full_spectrum_below": args.full_spectrum_below, "code": args.code}
    rows = []
    for seed, x, data in samples_by_seed(args.data, args.seeds):
        for (activation, sigma), depth in product(sigmas.items(), args.depths):
            names = {"kernel": args.kernel, "dataset": args.dataset, "activation": activation}
            names |= {"depth": depth, "seed": seed, "width": None}
            cell = names | given | {"data": data}
            if (done := checkpoints.read(cell)) is None:
                kernel = InfiniteKernel(sigma, depth, args.kernel, budget)
                done = [names | row for row in block_rows(kernel, x, seed=seed, **blocks)]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "spectra", rows)
