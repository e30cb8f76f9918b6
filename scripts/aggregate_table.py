"""Put rows, or other files of one table, together into the table of a run."""

from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.tables import TABLES, collect
from ntk_workflow.cli import Argv, Parser, run_main


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--table", choices=TABLES, required=True, help="what the files hold")
    parser.add_argument("--rows", type=Path, nargs="*", required=True, help="files (.parquet)")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    table = TABLES[args.table]
    tables.write(args.output, table, collect(args.rows, table))


if __name__ == "__main__":
    raise SystemExit(main())
