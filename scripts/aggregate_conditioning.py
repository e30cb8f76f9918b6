"""Summarise the condition numbers of rows over blocks and seeds, one row per curve point."""

from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.spectra.summary import NEEDED, summarize
from ntk_conditioning.tables import collect
from ntk_workflow.cli import Argv, Parser, run_main


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--rows", type=Path, nargs="*", required=True, help="spectra (.parquet)")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    spectra = collect(args.rows, "spectra", columns=NEEDED)
    tables.write(args.output, "conditioning", summarize(spectra))


if __name__ == "__main__":
    raise SystemExit(main())
