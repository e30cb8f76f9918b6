"""The user's own network, which a program is given as a function of a file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ntk_conditioning.networks.architectures import MODELS
from ntk_workflow.cli import UsageError, count_from_zero, positive_integer

if TYPE_CHECKING:
    from ntk_conditioning.networks.own import OwnModel


def own_network_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file and the function of a network of the user's own."""
    add = parser.add_argument
    add("--model-file", type=Path, help="Python file of a --model that is not built in")
    add("--model-function", default="build", help="its function that builds networks")


def load_own_network(args: argparse.Namespace) -> OwnModel | None:
    """Return the network of the user's own that a program was given; None for a built-in one."""
    if args.model in MODELS:
        if args.model_file is not None:
            raise UsageError(f"--model {args.model}: built in; give --model-file another name")
        return None
    if args.model_file is None:
        known = ", ".join(MODELS)
        raise UsageError(f"--model {args.model}: give its --model-file; built in are {known}")
    from ntk_conditioning.networks import own

    return own.load(args.model_file, args.model_function)


@dataclass(frozen=True)
class Architecture:
    """Networks of a kind and a width, at some depths; ``own`` if the kind is the user's own."""

    name: str
    width: int
    depths: tuple[int, ...]
    own: OwnModel | None


def architectures_arguments(parser: argparse.ArgumentParser) -> None:
    """Add networks of several kinds, and the files of those that are the user's own."""
    add = parser.add_argument
    many: dict[str, Any] = {"action": "append", "nargs": "+", "default": []}
    add("--network", metavar="NAME WIDTH DEPTH", **many, help="networks of a kind; repeated")
    own: dict[str, Any] = {"action": "append", "nargs": 3, "default": []}
    help = "a network that is not built in, and the function that builds it; repeated"
    add("--own-network", metavar=("NAME", "FILE", "FUNCTION"), **own, help=help)


def load_architectures(
    networks: Sequence[Sequence[str]], own_networks: Sequence[Sequence[str]]
) -> list[Architecture]:
    """Return the networks that a program was given, as its options say them."""
    files = {name: (file, function) for name, file, function in own_networks}
    found = []
    for name, *numbers in networks:
        try:
            width, *depths = positive_integer(numbers[0]), *map(count_from_zero, numbers[1:])
        except (argparse.ArgumentTypeError, IndexError):
            raise UsageError(f"--network {name}: give its width and its depths") from None
        own = None
        if name in files:
            from ntk_conditioning.networks.own import load

            own = load(*files[name])
        elif name not in MODELS:
            known = ", ".join(MODELS)
            raise UsageError(f"--network {name}: give its --own-network; built in are {known}")
        found.append(Architecture(name, width, tuple(depths), own))
    return found
