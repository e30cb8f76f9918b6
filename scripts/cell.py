"""What the programs that compute one cell share: their arguments and input."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from cli import Parser, limit_threads, positive_integer
from numpy.typing import NDArray

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
    parser.add_argument("--output", type=Path, required=True, help="table to write (.parquet)")
    return parser


def load(args: argparse.Namespace) -> tuple[NDArray[np.float64], Activation]:
    """Return the samples (n, d) and the activation of a cell, with its threads limited."""
    limit_threads(args.threads)
    for path in args.activation_file:
        activations.load_plugin(path)
    return load_prepared(args.data).x, activations.get(args.activation)
