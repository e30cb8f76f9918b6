"""Write the tables' documentation into results/README.md, from the declarations of the tables."""

from pathlib import Path

from ntk_conditioning.files import write_text
from ntk_conditioning.tables import TABLES
from ntk_workflow import cli

README = Path(__file__).resolve().parents[1] / "results" / "README.md"
START, END = "<!-- tables: written by scripts/document_tables.py -->\n", "<!-- end of tables -->\n"


def documented(text: str) -> str:
    """Return a page with the part between the marks replaced by what the tables declare."""
    head, _, rest = text.partition(START)
    sections = "\n".join(table.markdown() for table in TABLES.values())
    return f"{head}{START}\n{sections}\n{END}{rest.partition(END)[2]}"


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser(description=__doc__)
    parser.add_argument("--page", type=Path, default=README, help="page to bring up to date")
    page = parser.parse_args(argv).page
    write_text(page, documented(page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    raise SystemExit(main())
