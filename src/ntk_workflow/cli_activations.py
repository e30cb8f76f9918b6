"""The user's own activations, which programs are given as files."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation


def activation_files_argument(parser: argparse.ArgumentParser) -> None:
    """Add the files that register activations."""
    help = "Python file that registers activations; may be repeated"
    parser.add_argument("--activation-file", type=Path, action="append", default=[], help=help)


def activations_argument(parser: argparse.ArgumentParser) -> None:
    """Add activations by name, and the files that register activations."""
    parser.add_argument("--activation", nargs="+", required=True, help="names of activations")
    activation_files_argument(parser)


def load_activation_files(files: Sequence[Path]) -> None:
    """Register the activations of the files that a program was given."""
    for path in files:
        activations.load_plugin(path)


def load_activations(names: Iterable[str], files: Sequence[Path]) -> dict[str, Activation]:
    """Return activations by name, among them those that files register."""
    load_activation_files(files)
    return {name: activations.get(name) for name in names}
