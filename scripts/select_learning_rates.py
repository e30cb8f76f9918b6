"""Find the best learning rate of every trained network, and say where its grid was too short."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pyarrow.compute as pc

from ntk_conditioning import tables
from ntk_conditioning.tables.learning_rates import LEARNING_RATES, Criterion, select_rates
from ntk_conditioning.tables.training import TRAINING
from ntk_conditioning.tables.training_kernels import TRAINING_KERNELS
from ntk_workflow.cli import Parser, logger, positive_number, run_main

log = logger(__file__)


@run_main
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--training", type=Path, required=True, help="table of training curves")
    parser.add_argument("--kernels", type=Path, required=True, help="table of training kernels")
    parser.add_argument(
        "--criterion", choices=get_args(Criterion), required=True, help="what makes a rate the best"
    )
    parser.add_argument(
        "--loss-level", type=positive_number, required=True, help="loss by which speed is measured"
    )
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    args = parser.parse_args(argv)

    training = tables.read(args.training, TRAINING)
    kernels = tables.read(args.kernels, TRAINING_KERNELS)
    rule = (args.criterion, args.loss_level)
    names = pc.unique(training["experiment"]).to_pylist()
    chosen = select_rates(training, kernels, dict.fromkeys(names, rule))
    for row in chosen.to_pylist():
        place = "{experiment}/{dataset}/{model}/{activation}/depth-{depth}".format(**row)
        if row["learning_rate"] is None:
            log.info("%s: no rate is good; try lower ones or more epochs", place)
        elif row["edge"] in ("lowest", "highest"):
            log.info(
                "%s: the best rate %g is the %s of its grid; widen it, or try learning_rates: auto",
                place,
                row["learning_rate"],
                row["edge"],
            )
    tables.write(args.output, LEARNING_RATES, chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
