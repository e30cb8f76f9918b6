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
    parser.add_argument(
        "--data",
        type=Path,
        nargs="+",
        required=True,
        help="prepared dataset (.npz), one for all seeds or one for each",
    )
    parser.add_argument("--seeds", type=seed, nargs="+", required=True, help="seeds to compute")
    parser.add_argument(
        "--outputs", type=Path, nargs="+", required=True, help="tables to write, one for each seed"
    )


def each_seed(args: argparse.Namespace) -> Iterator[tuple[int, NDArray[np.float64], Path]]:
    """Yield the seeds, their samples (n, d) and the files to write.

    There is a progress bar where someone is looking.

    Raises:
        UsageError: if they are not equally many.
    """
    seeds, outputs = args.seeds, args.outputs
    if len(seeds) != len(outputs):
        raise UsageError(f"{len(seeds)} seeds for {len(outputs)} outputs; give as many")
    if len(args.data) not in (1, len(seeds)):
        raise UsageError(
            f"{len(args.data)} files of data for {len(seeds)} seeds; give one for all or as many"
        )
    files = args.data * len(seeds) if len(args.data) == 1 else args.data
    cells = tqdm(
        zip(seeds, files, outputs, strict=True),
        total=len(seeds),
        unit="seed",
        disable=not sys.stderr.isatty(),
    )
    loaded = None
    for number, file, output in cells:
        if file != loaded:
            x, loaded = load_prepared(file).x, file
        yield number, x, output


def load_activation(args: argparse.Namespace) -> Activation:
    """Return the activation of a cell, with the process limited to its threads."""
    limit_threads(args.threads)
    for path in args.activation_file:
        activations.load_plugin(path)
    return activations.get(args.activation)
