"""Fit power laws in depth over width: the variance of ln kappa, and the shift of its mean."""

from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.theory.finite_width import fitted_laws
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser("output", description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="table finite_width (.parquet)")
    args = parser.parse_args(argv)
    rows = tables.read(args.rows, "finite_width").to_pandas()
    tables.write(args.output, "finite_width_laws", fitted_laws(rows))
