"""Fit power laws in depth over width: the variance of ln kappa, and the shift of its mean."""

from pathlib import Path

import pandas as pd

from ntk_conditioning import tables
from ntk_conditioning.theory.finite_width import fitted_laws
from ntk_workflow.cli import Argv, Parser, run_main


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="table finite_width (.parquet)")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    rows = fitted_laws(pd.DataFrame(tables.read(args.rows, "finite_width").to_pydict()))
    tables.write(args.output, "finite_width_laws", rows)


if __name__ == "__main__":
    raise SystemExit(main())
