"""Put rows, or other files of one table, together into the table of a run."""

from pathlib import Path

from ntk_conditioning import tables
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser("output", description=__doc__)
    choices = tables.TABLES
    parser.add_argument("--table", choices=choices, required=True, help="what the files hold")
    parser.add_argument("--rows", type=Path, nargs="*", required=True, help="files (.parquet)")
    args = parser.parse_args(argv)
    tables.write(args.output, args.table, tables.collect(args.rows, args.table))
