"""Fit power laws of orthogonality and linearity in the width."""

from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.transition.slopes import width_slopes
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser("output", description=__doc__)
    parser.add_argument("--orthogonality", type=Path, required=True, help="its table (.parquet)")
    parser.add_argument("--linearity", type=Path, required=True, help="its table (.parquet)")
    args = parser.parse_args(argv)
    orthogonality = tables.read(args.orthogonality, "orthogonality").to_pandas()
    linearity = tables.read(args.linearity, "linearity").to_pandas()
    rows = [*width_slopes("orthogonality", orthogonality), *width_slopes("linearity", linearity)]
    tables.write(args.output, "width_slopes", rows)
