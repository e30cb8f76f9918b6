"""Condition a kernel of infinite width on random blocks of a dataset."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from ntk_conditioning.spectra.infinite_kernel import InfiniteKernel, InfiniteName
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import logger, run_main
from ntk_workflow.cli_activations import load_activation
from ntk_workflow.rows.blocks import block_arguments, block_rows, blocks_of, memory_budget
from ntk_workflow.rows.depths import depth_cells, depth_list, depth_parser, samples_reader
from ntk_workflow.rows.row import checkpoints_of, write_row

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    activation = load_activation(args)
    log.info("device cpu, float64, infinite width, %s", depth_list(args.depths))
    labels = {name: getattr(args, name) for name in ("kernel", "dataset", "activation")}
    samples = samples_reader()

    def compute(cell: Cell) -> Iterator[dict[str, Any]]:
        kernel = InfiniteKernel(activation, cell.value, args.kernel, memory_budget(args))
        named = labels | {"width": None} | cell.coordinates
        x, seed = samples(cell.data), cell.random_seed
        return block_rows(kernel, x, blocks_of(args), seed=seed, labels=named)

    cells = depth_cells(args.data, args.depths, args.seeds)
    kept = checkpoints_of(args, program=__file__)
    write_row(args.output, SPECTRA, cells, compute, checkpoints=kept)
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = depth_parser(__doc__)
    block_arguments(parser)
    parser.add_argument("--kernel", choices=get_args(InfiniteName), required=True)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
