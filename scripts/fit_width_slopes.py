"""Fit power laws of orthogonality and linearity in the width."""

from pathlib import Path

import pandas as pd

from ntk_conditioning import tables
from ntk_conditioning.transition.slopes import width_slopes
from ntk_workflow.cli import Argv, Parser, run_main


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--orthogonality", type=Path, required=True, help="its table (.parquet)")
    parser.add_argument("--linearity", type=Path, required=True, help="its table (.parquet)")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)
    rows = [
        row
        for table, path in (
            (tables.get("orthogonality"), args.orthogonality),
            (tables.get("linearity"), args.linearity),
        )
        for row in width_slopes(table.name, pd.DataFrame(tables.read(path, table).to_pydict()))
    ]
    tables.write(args.output, "width_slopes", rows)


if __name__ == "__main__":
    raise SystemExit(main())
