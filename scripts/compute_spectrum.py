"""Condition a kernel of networks of finite width on random blocks of a dataset."""

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import tables
from ntk_conditioning.spectra.empirical_kernel import EmpiricalKernel, EmpiricalName
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Argv, run_main
from ntk_workflow.rows.blocks import block_arguments, block_rows, memory_budget
from ntk_workflow.rows.depths import write_depths
from ntk_workflow.rows.finite import finite_parser, networks


@run_main
def main(argv: Argv = None) -> None:
    parser, kernels = finite_parser(__doc__), get_args(EmpiricalName)
    block_arguments(parser)
    parser.add_argument("--kernel", choices=kernels, default=kernels[0])
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    args = parser.parse_args(argv)
    network = networks(args)

    def compute(cell: Cell, x: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
        kernel = EmpiricalKernel(network(cell, x.shape[1]), args.kernel, memory_budget(args))
        return block_rows(args, kernel, x, cell.random_seed)

    write_depths(args, tables.get("spectra"), compute, program=__file__)


if __name__ == "__main__":
    raise SystemExit(main())
