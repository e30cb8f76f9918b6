"""The user's own activations, which programs are given as files."""

import argparse
from pathlib import Path

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_workflow.cli import limit_threads


def activation_files_argument(parser: argparse.ArgumentParser) -> None:
    """Add the files that register activations."""
    help = "Python file that registers activations; may be repeated"
    parser.add_argument("--activation-file", type=Path, action="append", default=[], help=help)


def activations_argument(parser: argparse.ArgumentParser) -> None:
    """Add activations by name, and the files that register activations."""
    parser.add_argument("--activation", nargs="+", required=True, help="names of activations")
    activation_files_argument(parser)


def load_activation_files(args: argparse.Namespace) -> None:
    """Register the activations of the files that a program was given."""
    for path in args.activation_file:
        activations.load_plugin(path)


def load_activations(args: argparse.Namespace) -> dict[str, Activation]:
    """Return the activations that a program was given, with the process limited to its threads."""
    limit_threads(args.threads)
    load_activation_files(args)
    names = [args.activation] if isinstance(args.activation, str) else args.activation
    return {name: activations.get(name) for name in names}
