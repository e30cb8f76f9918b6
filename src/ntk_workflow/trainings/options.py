"""The options that programs of trainings share."""

from dataclasses import fields
from pathlib import Path

from ntk_workflow import cli
from ntk_workflow.cli_networks import own_network_arguments
from ntk_workflow.trainings.settings import TrainingSettings


def training_parser(description: str | None) -> cli.Parser:
    """Return a parser with a job's network, its samples and settings, and threads."""
    parser = cli.Parser("activation-file", "threads", description=description)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="prepared training samples, whole (.npz)")
    add("--experiment", required=True, help="name written into the table")
    add("--dataset", required=True, help="name written into the table")
    add("--model", default="mlp", help="kind of network (default: mlp)")
    add("--activation", required=True, help="name of the activation")
    own_network_arguments(parser)
    names = ", ".join(sorted(field.name for field in fields(TrainingSettings)))
    help = f"of {names}; see experiment in schemas/config.schema.yaml"
    add("--settings", nargs="+", required=True, metavar="KEY=VALUE", help=help)
    return parser
