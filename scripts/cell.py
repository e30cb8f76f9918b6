"""What the programs that compute cells share: their arguments and input.

A program computes one grid point for all its seeds, for starting a process costs more than a small
cell; each seed still has a file of its own, written as soon as it is done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from cli import Parser, UsageError, limit_threads, positive_integer, seed
from numpy.typing import NDArray
from tqdm import tqdm

from ntk_conditioning import activations
from ntk_conditioning.activations import Activation
from ntk_conditioning.prepared import load_prepared


def cell_parser(description: str | None) -> Parser:
    """Return a parser with the arguments of every cell."""
    parser = Parser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="prepared dataset (.npz)")
    parser.add_argument("--dataset", required=True, help="name written into the table")
    parser.add_argument("--activation", required=True, help="name of the activation")
    parser.add_argument(
        "--activation-file",
        type=Path,
        action="append",
        default=[],
        help="Python file that registers activations; may be repeated",
    )
    parser.add_argument("--depth", type=int, required=True, help="number of hidden layers")
    parser.add_argument("--threads", type=positive_integer, default=1, help="processor threads")
    return parser


def seed_arguments(parser: Parser) -> None:
    """Add the arguments of programs that make a file for each seed."""
    parser.add_argument("--seeds", type=seed, nargs="+", required=True, help="seeds to compute")
    parser.add_argument(
        "--outputs", type=Path, nargs="+", required=True, help="tables to write, one for each seed"
    )


def each_seed(args: argparse.Namespace) -> Iterator[tuple[int, Path]]:
    """Yield the seeds and the files to write, with a progress bar where someone is looking.

    Raises:
        UsageError: if they are not equally many.
    """
    if len(args.seeds) != len(args.outputs):
        raise UsageError(f"{len(args.seeds)} seeds for {len(args.outputs)} outputs; give as many")
    pairs = zip(args.seeds, args.outputs, strict=True)
    yield from tqdm(pairs, total=len(args.seeds), unit="seed", disable=not sys.stderr.isatty())


def load(args: argparse.Namespace) -> tuple[NDArray[np.float64], Activation]:
    """Return the samples (n, d) and the activation of a cell, with its threads limited."""
    limit_threads(args.threads)
    for path in args.activation_file:
        activations.load_plugin(path)
    return load_prepared(args.data).x, activations.get(args.activation)
