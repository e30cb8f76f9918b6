"""Collect the comparisons with the bounds of agarwal2021deep into one table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.tables.bounds import BOUNDS
from ntk_conditioning.tables.collection import collect
from ntk_workflow.cli import Parser, run_main


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--cells", type=Path, required=True, help="folder of the cells")
    parser.add_argument("--datasets", nargs="+", required=True, help="datasets of the study")
    parser.add_argument("--activations", nargs="+", required=True, help="activations of the study")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    points = product(args.datasets, args.activations)
    paths = [args.cells / dataset / f"{activation}.parquet" for dataset, activation in points]
    tables.write(args.output, BOUNDS, collect(paths, BOUNDS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
