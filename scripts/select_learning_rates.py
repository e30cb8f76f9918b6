"""Find the best learning rate of every trained network, and say where its grid was too short."""

from pathlib import Path
from typing import get_args

from ntk_conditioning import tables
from ntk_conditioning.training.learning_rates import Criterion, select_rates
from ntk_workflow import cli


@cli.program
def main(argv: cli.Argv = None) -> None:
    parser = cli.Parser("output", description=__doc__)
    add = parser.add_argument
    add("--training", type=Path, required=True, help="table of training curves")
    add("--kernels", type=Path, required=True, help="table of training kernels")
    add("--criterion", choices=get_args(Criterion), required=True, help="what makes a rate best")
    add("--loss-level", type=cli.positive_number, required=True, help="loss that measures speed")
    args = parser.parse_args(argv)

    training = tables.read(args.training, "training")
    kernels = tables.read(args.kernels, "training_kernels")
    names = training["experiment"].unique().to_pylist()
    rules = dict.fromkeys(names, (args.criterion, args.loss_level))
    best = select_rates(training, kernels, rules)
    for row in best.to_pylist():
        place = "{experiment}/{dataset}/{model}/{activation}/depth-{depth}".format(**row)
        if row["relative_rate"] is None:
            cli.log.info("%s: no rate is good; try lower ones or more epochs", place)
        elif row["edge"] in ("lowest", "highest"):
            rate = f"{row['relative_rate']:g} is the {row['edge']} of its grid"
            cli.log.info("%s: the best rate %s; widen it, or try learning_rates: auto", place, rate)
    tables.write(args.output, "learning_rates", best)
