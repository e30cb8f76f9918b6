"""Collect the datasheets of all datasets and draws of a run into one table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.tables.collection import collect
from ntk_conditioning.tables.datasets import DATASETS
from ntk_workflow.cli import Parser, run_main
from ntk_workflow.plan.cells import Grid, datasheet_cells


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--cells", type=Path, required=True, help="folder of the datasheets")
    parser.add_argument("--grids", nargs="+", required=True, help="grids of the run, as JSON")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    grids = [Grid.from_json(text) for text in args.grids]
    paths = [args.cells / cell for cell in datasheet_cells(grids)]
    tables.write(args.output, DATASETS, collect(paths, DATASETS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
