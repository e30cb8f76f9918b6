"""Run the numerical experiments that decide papers' theorems, lemmas and misprints."""

from ntk_conditioning import tables
from ntk_conditioning.claim_experiments import Setting, papers
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser("widths", "depths", "seeds", "threads", "output", description=__doc__)
    parser.add_argument("--papers", nargs="*", required=True, help="names of papers, if any")
    args = parser.parse_args(argv)

    cli.log.info("device cpu, float64, widths %s, %d seeds", args.widths, len(args.seeds))
    setting = Setting(sorted({*args.widths}), sorted({*args.depths}), args.seeds)
    rows = []
    for paper in args.papers:
        rows += [{"paper": paper, **row} for row in papers.measure(paper, setting)]
        cli.log.info("%s: %d measurements", paper, len(rows))
    tables.write(args.output, "claim_experiments", rows)
