"""Run the numerical experiments that decide papers' theorems, lemmas and misprints."""

from dataclasses import asdict
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.claim_experiments import Setting, papers
from ntk_workflow import cli

log = cli.logger(__file__)


@cli.run_main
def main(argv: cli.Argv = None) -> None:
    parser, positive = cli.Parser("threads", description=__doc__), cli.positive_integer
    parser.add_argument("--papers", nargs="*", required=True, help="names of papers, if any")
    parser.add_argument("--widths", type=positive, nargs="+", required=True, help="ascending")
    parser.add_argument("--depths", type=positive, nargs="+", required=True, help="hidden layers")
    parser.add_argument("--seeds", type=cli.seed, nargs="+", required=True, help="seeds")
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    if len(args.widths) < 2 or args.widths != sorted(set(args.widths)):
        raise cli.UsageError(f"--widths {args.widths}: give two or more, ascending")
    cli.limit_threads(args.threads)
    log.info("device cpu, float64, widths %s, %d seeds", args.widths, len(args.seeds))
    setting = Setting(args.widths, sorted(set(args.depths)), args.seeds)
    rows = []
    for paper in args.papers:
        rows += [{"paper": paper, **asdict(row)} for row in papers.measure(paper, setting)]
        log.info("%s: %d measurements", paper, len(rows))
    tables.write(args.output, "claim_experiments", rows)


if __name__ == "__main__":
    raise SystemExit(main())
