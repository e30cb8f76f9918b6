"""Write a page of a run's report: one of its small tables, or its record."""

from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.files import require_file, write_text
from ntk_workflow.cli import Argv, Parser, UsageError, logger, run_main
from ntk_workflow.figures.listing import PAGES
from ntk_workflow.pages.rendering import render, table_page

SHOWN = {
    table.name: table
    for table in (tables.get("datasets"), tables.get("conditioning"), tables.get("learning_rates"))
}

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    help_sources = f"a table ({', '.join(SHOWN)}.parquet), or the files of the record"
    parser.add_argument("--sources", type=Path, nargs="+", required=True, help=help_sources)
    parser.add_argument("--output", type=Path, required=True, help="page to write (.html)")
    args = parser.parse_args(argv)

    first = args.sources[0]
    if first.suffix == ".parquet":
        if first.stem not in SHOWN:
            raise UsageError(f"{first}: there are pages of {', '.join(SHOWN)} only")
        table = SHOWN[first.stem]
        data = tables.read(first, table)
        page = table_page(data, title=PAGES[table.name], note=table.description)
    else:
        for path in args.sources:
            require_file(path)
        record = {path.stem.capitalize(): path.read_text(encoding="utf-8") for path in args.sources}
        page = render("texts.html.j2", title=PAGES["run"], texts=record)
    write_text(args.output, page)
    log.info("%s: %d bytes", args.output.name, len(page.encode()))


if __name__ == "__main__":
    raise SystemExit(main())
