"""Summarise the condition numbers of rows over blocks and seeds, one row per curve point."""

from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.spectra.summary import NEEDED, summarize
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser("output", description=__doc__)
    parser.add_argument("--rows", type=Path, nargs="*", required=True, help="spectra (.parquet)")
    args = parser.parse_args(argv)
    spectra = tables.collect(args.rows, "spectra", columns=NEEDED)
    tables.write(args.output, "conditioning", summarize(spectra))
