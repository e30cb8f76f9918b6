"""Condition a kernel of infinite width on random blocks of a dataset."""

from itertools import product
from typing import get_args

from ntk_conditioning import tables
from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.infinite_kernel import InfiniteKernel, InfiniteName
from ntk_workflow import cli
from ntk_workflow.checkpoints.cells import Checkpoints
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.rows import available_memory, grid_arguments, row_parser, samples_by_seed
from ntk_workflow.rows.blocks import REMEDY, block_arguments, block_rows

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = row_parser(__doc__)
    grid_arguments(parser)
    block_arguments(parser)
    parser.add_argument("--kernel", choices=get_args(InfiniteName), required=True)
    args = parser.parse_args(argv)

    cli.limit_threads(args.threads)
    sigmas = load_activations(args.activation, args.activation_file)
    available = available_memory(args.memory_gb)
    budget = MemoryBudget(available, args.full_spectrum_below, args.threads, REMEDY)
    log.info("device cpu, float64, infinite width, depths %s", args.depths)
    checkpoints = Checkpoints(args.checkpoints, "spectra")
    rows = []
    for seed, x, data in samples_by_seed(args.data, args.seeds):
        for (activation, sigma), depth in product(sigmas.items(), args.depths):
            names = {
                "kernel": args.kernel,
                "dataset": args.dataset,
                "activation": activation,
                "depth": depth,
                "seed": seed,
                "width": None,
            }
            cell = names | {
                "code": args.code,
                "data": data,
                "kernel_size": args.kernel_size,
                "blocks": args.blocks,
                "eigenvalues": args.eigenvalues,
                "full_spectrum_below": args.full_spectrum_below,
            }
            if (done := checkpoints.read(cell)) is None:
                blocks = block_rows(
                    InfiniteKernel(sigma, depth, args.kernel, budget),
                    x,
                    seed=seed,
                    size=args.kernel_size,
                    count=args.blocks,
                    eigenvalues=args.eigenvalues,
                )
                done = [names | block for block in blocks]
                checkpoints.write(cell, done)
            rows += done
    tables.write(args.output, "spectra", rows)


if __name__ == "__main__":
    raise SystemExit(main())
