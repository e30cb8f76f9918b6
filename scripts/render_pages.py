"""Write the pages of a run's report: its small tables, and its record.

A page is called like its table; that of the record is run.html.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import require_file, write_text
from ntk_conditioning.tables.conditioning import CONDITIONING
from ntk_conditioning.tables.datasets import DATASETS
from ntk_conditioning.tables.training import LEARNING_RATES
from ntk_workflow.cli import Parser, logger, run_main
from ntk_workflow.pages.html import table_page, text_page

TITLES = {
    DATASETS: "Datasheets",
    CONDITIONING: "Condition numbers",
    LEARNING_RATES: "Best learning rates",
}
SHOWN = {table.name: table for table in TITLES}

log = logger(__file__)


class PageError(UserError):
    """A table has no page."""


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument(
        "--tables", type=Path, nargs="+", required=True, help=f"of {', '.join(SHOWN)} (.parquet)"
    )
    parser.add_argument("--config", type=Path, required=True, help="the run's config (.yaml)")
    parser.add_argument("--versions", type=Path, required=True, help="the versions (.json)")
    parser.add_argument("--folder", type=Path, required=True, help="where the pages go")
    args = parser.parse_args(argv)

    for path in args.tables:
        if path.stem not in SHOWN:
            raise PageError(f"{path}: there are pages of {', '.join(SHOWN)} only")
        table = SHOWN[path.stem]
        page = table_page(tables.read(path, table), title=TITLES[table], note=table.description)
        write(args.folder / f"{table.name}.html", page)
    for path in (args.config, args.versions):
        require_file(path)
    record = {
        "Config": args.config.read_text(encoding="utf-8"),
        "Versions": args.versions.read_text(encoding="utf-8"),
    }
    write(args.folder / "run.html", text_page(record, title="Config and versions"))
    return 0


def write(path: Path, page: str) -> None:
    """Write a page, whole or not at all."""
    write_text(path, page)
    log.info("%s: %d bytes", path.name, len(page.encode()))


if __name__ == "__main__":
    sys.exit(main())
