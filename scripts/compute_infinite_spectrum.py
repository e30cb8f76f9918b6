"""Condition a kernel of infinite width on random blocks of a dataset."""

from itertools import product
from pathlib import Path
from typing import get_args

from ntk_conditioning import tables
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.block_kernels import MemoryBudget, draw_blocks
from ntk_conditioning.spectra.condition_numbers import spectra_rows
from ntk_conditioning.spectra.infinite_kernel import InfiniteKernel, InfiniteName
from ntk_workflow import cli
from ntk_workflow.checkpoints import Checkpoints
from ntk_workflow.rows import TOO_LARGE, available_memory, samples_by_seed


@cli.program
def main(argv: cli.Argv = None) -> None:
    options = (*cli.ROW, *cli.BLOCKS, "depths", "seeds")
    parser = cli.Parser(*options, description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, help="dataset (.npz), for all seeds or each")
    add("--kernel", choices=get_args(InfiniteName), required=True)
    args = parser.parse_args(argv)

    sigmas = activations.load(args.activation, args.activation_file)
    budget = MemoryBudget(available_memory(), args.full_spectrum_below, args.threads, TOO_LARGE)
    cli.log.info("device cpu, float64, infinite width, depths %s", args.depths)
    checkpoints = Checkpoints(args.checkpoints, "spectra")
    given = {"size": args.kernel_size, "count": args.blocks, "eigenvalues": args.eigenvalues}
    given |= {"full_spectrum_below": args.full_spectrum_below, "code": args.code}
    rows = []
    for seed, x, data in samples_by_seed(args.data, args.seeds):
        rng = generator(seed, "blocks")
        blocks = draw_blocks(len(x), size=args.kernel_size, count=args.blocks, generator=rng)
        for (activation, sigma), depth in product(sigmas.items(), args.depths):
            names = {"kernel": args.kernel, "dataset": args.dataset, "activation": activation}
            names |= {"depth": depth, "seed": seed, "width": None}
            cell = names | given | {"data": data}
            if (done := checkpoints.read(cell)) is None:
                kernel = InfiniteKernel(sigma, depth, args.kernel, budget)
                results = spectra_rows(kernel.on_blocks(x, blocks), eigenvalues=args.eigenvalues)
                done = [names | {"d": x.shape[1]} | row for row in results]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "spectra", rows)
