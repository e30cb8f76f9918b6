"""Compare kernels of infinite width along depth with the bounds of agarwal2021deep."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ntk_conditioning import tables
from ntk_conditioning.data.blocks import draw_blocks
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.seeds import generator
from ntk_conditioning.tables.bounds import BOUNDS
from ntk_conditioning.theory.bounds_vs_exact import compare
from ntk_workflow.cli import (
    HOW_TO_PREPARE,
    Parser,
    limit_threads,
    logger,
    positive_integer,
    positive_integer_or_all,
    run_main,
    seed,
    threads_argument,
)
from ntk_workflow.cli_activations import activation_files_argument, load_activation_files

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    limit_threads(args.threads)
    load_activation_files(args)
    x = load_prepared(args.data, hint=HOW_TO_PREPARE).x
    (block,) = draw_blocks(
        len(x), size=args.samples, count=1, generator=generator(args.seed, "blocks")
    )
    log.info("device cpu, float64, infinite width, %d samples", len(block))
    rows = []
    for name in args.activations:
        labels = {"dataset": args.dataset, "activation": name}
        comparisons = compare(x[block], depths=args.depths, activation=name)
        rows += [labels | asdict(comparison) for comparison in comparisons]
        log.info("%s: %d depths", name, len(args.depths))
    tables.write(args.output, BOUNDS, tables.from_rows(BOUNDS, rows))
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="prepared dataset (.npz)")
    parser.add_argument("--dataset", required=True, help="name written into the tables")
    parser.add_argument("--activations", nargs="+", required=True, help="names of activations")
    activation_files_argument(parser)
    parser.add_argument(
        "--depths", type=positive_integer, nargs="+", required=True, help="numbers of hidden layers"
    )
    parser.add_argument(
        "--samples", type=positive_integer_or_all, required=True, help="samples drawn, or all"
    )
    parser.add_argument("--seed", type=seed, default=1, help="seed of the draw")
    threads_argument(parser)
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
