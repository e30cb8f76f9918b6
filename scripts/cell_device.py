"""Where the networks of a cell live: the argument, and the device that it names."""

from __future__ import annotations

import argparse

import torch
from cli import UsageError


def device_argument(parser: argparse.ArgumentParser) -> None:
    """Add the device of programs that compute with torch."""
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where to compute")


def torch_device(args: argparse.Namespace) -> torch.device:
    """Return the device that was asked for.

    Raises:
        UsageError: if it is a GPU and there is none.
    """
    if args.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch sees no GPU here; ask for one, or give --device cpu")
    return torch.device(args.device)
