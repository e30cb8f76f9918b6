"""Collect the training curves, or the kernels where they begin, of a run into one table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.tables.collection import collect
from ntk_conditioning.tables.training import TRAINING, TRAINING_KERNELS
from ntk_workflow.cli import Parser, run_main
from ntk_workflow.plan.cells import TrainingGrid, training_cells, training_kernel_cells

TABLES = {
    TRAINING.name: (TRAINING, training_cells),
    TRAINING_KERNELS.name: (TRAINING_KERNELS, training_kernel_cells),
}


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--table", choices=TABLES, required=True, help="what the cells hold")
    parser.add_argument("--cells", type=Path, required=True, help="folder of the cells")
    parser.add_argument("--grids", nargs="+", required=True, help="grids of trainings, as JSON")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    table, cells = TABLES[args.table]
    grids = [TrainingGrid.from_json(text) for text in args.grids]
    paths = [args.cells / cell for cell in cells(grids)]
    rows = collect(paths, table) if paths else tables.from_rows(table, [])
    tables.write(args.output, table, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
