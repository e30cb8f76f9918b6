"""Run the numerical experiments that decide papers' theorems, lemmas and misprints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.claim_experiments import Setting, papers
from ntk_conditioning.tables.claim_experiments import CLAIM_EXPERIMENTS
from ntk_workflow.cli import (
    Parser,
    UsageError,
    limit_threads,
    logger,
    positive_integer,
    run_main,
    seed,
    threads_argument,
)

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--papers", nargs="+", required=True, help="names of papers")
    parser.add_argument(
        "--widths", type=positive_integer, nargs="+", required=True, help="ascending widths"
    )
    parser.add_argument(
        "--depths", type=positive_integer, nargs="+", required=True, help="numbers of hidden layers"
    )
    parser.add_argument("--seeds", type=seed, nargs="+", required=True, help="seeds")
    threads_argument(parser)
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    if len(args.widths) < 2 or args.widths != sorted(set(args.widths)):
        raise UsageError(f"--widths {args.widths}: give two or more, ascending")
    limit_threads(args.threads)
    log.info("device cpu, float64, widths %s, %d seeds", args.widths, len(args.seeds))
    setting = Setting(args.widths, sorted(set(args.depths)), args.seeds)
    rows = []
    for paper in args.papers:
        for measurement in papers.measure(paper, setting):
            rows.append({"paper": paper, **asdict(measurement)})
        log.info("%s: %d measurements", paper, len(rows))
    tables.write(args.output, CLAIM_EXPERIMENTS, tables.from_rows(CLAIM_EXPERIMENTS, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
