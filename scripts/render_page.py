"""Write a page of a run's report: one of its small tables, or its record."""

from pathlib import Path

import pyarrow as pa

from ntk_conditioning import tables
from ntk_conditioning.files import write_text
from ntk_workflow.cli import Argv, Parser, program
from ntk_workflow.listing import PAGES
from ntk_workflow.pages.rendering import render


@program
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    help_sources = "a table (.parquet), or the files of the record"
    parser.add_argument("--sources", type=Path, nargs="+", required=True, help=help_sources)
    parser.add_argument("--output", type=Path, required=True, help="page to write (.html)")
    args = parser.parse_args(argv)

    first = args.sources[0]
    if first.suffix == ".parquet":
        data, columns = tables.read(first, first.stem), []
        for field in data.schema:  # a column's description appears at its name
            number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
            meaning = (field.metadata or {}).get(b"description", b"").decode()
            kind = "number" if number else "text"
            columns.append({"name": field.name, "meaning": meaning, "kind": kind})
        rows = [row.values() for row in data.to_pylist()]
        values = {"note": tables.get(first.stem).description, "columns": columns, "rows": rows}
        page = render("table.html.j2", title=PAGES[first.stem], **values)
    else:
        record = {path.stem.capitalize(): path.read_text(encoding="utf-8") for path in args.sources}
        page = render("texts.html.j2", title=PAGES["run"], texts=record)
    write_text(args.output, page)
