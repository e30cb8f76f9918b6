"""Find the best learning rate of every trained network, and where its grid was too short."""

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
    tables.write(args.output, "learning_rates", select_rates(training, kernels, rules))
