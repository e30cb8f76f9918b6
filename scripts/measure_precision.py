"""Compare condition numbers from float arithmetic with references in many digits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.spectra import precision
from ntk_conditioning.spectra.precision import Measurement, Problem
from ntk_conditioning.tables.precision import PRECISION
from ntk_workflow.cli import (
    Parser,
    limit_threads,
    logger,
    positive_integer,
    run_main,
    seed,
    threads_argument,
)
from ntk_workflow.progress import progress

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    limit_threads(args.threads)
    problems = list(
        precision.problems(
            samples=args.samples,
            dim=args.dim,
            width=args.width,
            depths=args.depths,
            seeds=args.seeds,
            points=args.points,
        )
    )
    log.info(
        "device cpu, float32 and float64 beside %d digits, %d problems of %d samples",
        precision.DIGITS,
        len(problems),
        args.samples,
    )
    rows = [
        row(problem, measurement, width=args.width)
        for problem in progress(problems, unit="problem", log=log)
        for measurement in precision.measure(problem)
    ]
    tables.write(args.output, PRECISION, tables.from_rows(PRECISION, rows))
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("--samples", type=positive_integer, default=16, help="samples per kernel")
    parser.add_argument("--dim", type=positive_integer, default=32, help="input dimension")
    parser.add_argument("--width", type=positive_integer, default=32, help="hidden units per layer")
    parser.add_argument(
        "--depths", type=int, nargs="+", default=[0, 1, 3], help="numbers of hidden layers"
    )
    parser.add_argument("--seeds", type=seed, nargs="+", default=[1, 32, 111], help="seeds")
    parser.add_argument(
        "--points", type=positive_integer, default=25, help="distances of the close pair"
    )
    threads_argument(parser)
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    return parser.parse_args(argv)


def row(problem: Problem, measurement: Measurement, *, width: int) -> dict[str, Any]:
    """Return a row of the table."""
    n, d = problem.x.shape
    estimate = measurement.estimate
    return {
        "kernel": problem.kernel,
        "activation": problem.activation,
        "depth": problem.depth,
        "seed": problem.seed,
        "delta": problem.delta,
        "method": measurement.method,
        "width": width if problem.mlp else None,
        "n": n,
        "d": d,
        "kappa_reference": measurement.kappa_reference,
        "ratio": estimate.ratio,
        "kappa": estimate.ratio if estimate.resolved else None,
        "resolved": estimate.resolved,
        "relative_error": measurement.error,
        "floor_kappa": estimate.floor_kappa,
    }


if __name__ == "__main__":
    sys.exit(main())
