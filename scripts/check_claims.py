"""Compare what papers claim with the tables of a run: a verdict on each, as table and as page."""

from dataclasses import asdict
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.files import write_text
from ntk_workflow.claims.checking import check
from ntk_workflow.claims.pages import counts, described, page
from ntk_workflow.claims.papers import load
from ntk_workflow.cli import Argv, Parser, log, program


@program
def main(argv: Argv = None) -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--papers", type=Path, nargs="+", required=True, help="papers/*.yaml")
    parser.add_argument("--tables", type=Path, nargs="*", required=True, help="tables (.parquet)")
    parser.add_argument("--run", required=True, help="name of the run, for the pages")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    parser.add_argument("--markdown", type=Path, required=True, help="page to write (.md)")
    parser.add_argument("--html", type=Path, required=True, help="page to write (.html)")
    findings = "summary for the report to write (.rst)"
    parser.add_argument("--findings", type=Path, required=True, help=findings)
    args = parser.parse_args(argv)

    papers = [load(path) for path in args.papers]
    needed = {table for paper in papers for table in paper.tables}
    paths = [path for path in args.tables if path.stem in needed]
    frames = {path.stem: tables.read(path, path.stem).to_pandas() for path in paths}
    results, rows = [], []
    for paper in papers:
        checked = [described(claim, check(claim, frames)) for claim in paper.claims]
        results.append((paper, checked))
        outcomes = ", ".join(f"{count} {words}" for count, words in counts(checked).values())
        log.info("%s: %s", paper.name, outcomes)
        for result in checked:
            row = asdict(result["claim"]) | asdict(result["finding"])
            name = result["claim"].name
            row |= {"claim": name, "main": name in paper.main, "slice": result["slice"] or None}
            rows.append({name: row[name] for name in tables.get("claims").schema.names})
    write_text(args.markdown, page("claims.md.j2", args.run, results))
    write_text(args.html, page("claims.html.j2", args.run, results))
    write_text(args.findings, page("findings.rst.j2", args.run, results))
    tables.write(args.output, "claims", tables.from_rows("claims", rows))
