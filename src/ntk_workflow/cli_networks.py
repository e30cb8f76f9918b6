"""The user's own network, which a program is given as a function of a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ntk_conditioning.networks.architectures import MODELS
from ntk_workflow.cli import UsageError

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
        return None
    if args.model_file is None:
        known = ", ".join(MODELS)
        raise UsageError(f"--model {args.model}: give its --model-file; built in are {known}")
    from ntk_conditioning.networks import own

    return own.load(args.model_file, args.model_function)
