"""Put rows, or other files of one table, together into the table of a run."""

from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.spectra.unresolved import NEEDED, summarize
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser("output", description=__doc__)
    add = parser.add_argument
    add("--table", choices=tables.TABLES, required=True, help="what the files hold")
    add("--rows", type=Path, nargs="*", required=True, help="files (.parquet)")
    summary = "they are spectra: a row for each curve point, with kappa over blocks and seeds"
    add("--summarize", action="store_true", help=summary)
    args = parser.parse_args(argv)
    if args.summarize:
        spectra = tables.collect(args.rows, "spectra", columns=NEEDED)
        tables.write(args.output, "conditioning", summarize(spectra))
    else:
        tables.write(args.output, args.table, tables.collect(args.rows, args.table))
