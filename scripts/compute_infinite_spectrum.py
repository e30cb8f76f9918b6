"""Condition a kernel of infinite width on random blocks of a dataset."""

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import tables
from ntk_conditioning.spectra.infinite_kernel import InfiniteKernel, InfiniteName
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Argv, run_main
from ntk_workflow.cli_activations import load_activations
from ntk_workflow.rows.blocks import block_arguments, block_rows, memory_budget
from ntk_workflow.rows.depths import depth_parser, write_depths


@run_main
def main(argv: Argv = None) -> None:
    parser = depth_parser(__doc__)
    block_arguments(parser)
    parser.add_argument("--kernel", choices=get_args(InfiniteName), required=True)
    args = parser.parse_args(argv)
    sigmas, budget = load_activations(args), memory_budget(args)

    def compute(cell: Cell, x: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
        kernel = InfiniteKernel(sigmas[cell.activation], cell.value, args.kernel, budget)
        return block_rows(args, kernel, x, cell.random_seed)

    write_depths(args, tables.get("spectra"), compute, program=__file__)


if __name__ == "__main__":
    raise SystemExit(main())
