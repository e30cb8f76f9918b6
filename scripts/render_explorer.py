"""Write the explorer of a run: one page with charts that answer to controls, without a network."""

from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.files import write_text
from ntk_workflow.claims.papers import load
from ntk_workflow.cli import Argv, Parser, logger, run_main
from ntk_workflow.explorer.page import page

log = logger(__file__)


@run_main
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--run", required=True, help="name of the run, for the title")
    parser.add_argument("--papers", type=Path, nargs="*", default=[], help="papers/*.yaml")
    parser.add_argument("--tables", type=Path, nargs="*", default=[], help="tables (.parquet)")
    parser.add_argument("--output", type=Path, required=True, help="page to write (.html)")
    args = parser.parse_args(argv)

    papers = [load(path) for path in args.papers]
    frames = {path.stem: tables.read(path, path.stem).to_pandas() for path in args.tables}
    text = page(args.run, frames, papers)
    write_text(args.output, text)
    log.info("%s: %.1f MB", args.output.name, len(text.encode()) / 1e6)


if __name__ == "__main__":
    raise SystemExit(main())
