"""What the programs that compute cells share: their arguments, and the cells one by one.

Starting a process costs more than a small cell, so a program computes several depths and seeds;
each has a file of its own, written as soon as it is done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import activations
from ntk_conditioning.tables import Table
from ntk_workflow.checkpoints.cells import Checkpoints, forget_others, is_kept, place
from ntk_workflow.cli import (
    HOW_TO_PREPARE,
    Parser,
    UsageError,
    limit_threads,
    logger,
    seed,
    threads_argument,
)
from ntk_workflow.cli_activations import activation_files_argument, load_activation_files

log = logger(__file__)


@dataclass(frozen=True)
class Cell:
    """A cell to compute from the samples ``x`` (n, d); ``seed`` is None where nothing is random."""

    depth: int
    seed: int | None
    x: NDArray[np.float64]
    table: Table
    output: Path
    checkpoint: Path | None

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write the cell's rows of the table."""
        data = tables.from_rows(self.table, rows)
        if self.checkpoint is None:
            tables.write(self.output, self.table, data)
        else:
            tables.write(self.checkpoint, self.table, data)
            forget_others(self.checkpoint)
            place(self.checkpoint, self.output)
        log.info("%s: computed", _name(self.depth, self.seed))


def cell_parser(description: str | None) -> Parser:
    """Return a parser with the arguments of every cell."""
    parser = Parser(description=description)
    parser.add_argument(
        "--data",
        type=Path,
        nargs="+",
        required=True,
        help="prepared dataset (.npz), one for all seeds or one for each",
    )
    parser.add_argument("--dataset", required=True, help="name written into the table")
    parser.add_argument("--activation", required=True, help="name of the activation")
    activation_files_argument(parser)
    parser.add_argument(
        "--depths", type=seed, nargs="+", required=True, help="numbers of hidden layers"
    )
    parser.add_argument(
        "--outputs",
        type=Path,
        nargs="+",
        required=True,
        help="tables to write (.parquet): seed by seed, each in the order of the depths",
    )
    parser.add_argument(
        "--checkpoints",
        type=Path,
        help="folder of cells that are done: those that would come out the same are kept",
    )
    threads_argument(parser)
    return parser


def seed_argument(parser: Parser) -> None:
    """Add the seeds of programs whose cells are all random."""
    parser.add_argument("--seeds", type=seed, nargs="+", required=True, help="seeds to compute")


def each_cell(args: argparse.Namespace, table: Table, *, program: str) -> Iterator[Cell]:
    """Yield the cells to compute, seed by seed; those that are kept are put in their place.

    ``program`` is the file of the program that computes them. The samples are read once for all
    depths of a seed, and only if one of them is to be computed. There is a progress bar where
    someone is looking.

    Raises:
        UsageError: if there is not an output for each depth and seed, or data for each seed.
    """
    seeds, depths = args.seeds, args.depths
    if len(args.outputs) != len(depths) * len(seeds):
        raise UsageError(
            f"{len(args.outputs)} outputs for {len(depths)} depths and {len(seeds)} seeds; "
            f"give {len(depths) * len(seeds)}, seed by seed"
        )
    if len(args.data) not in (1, len(seeds)):
        raise UsageError(
            f"{len(args.data)} files of data for {len(seeds)} seeds; give one for all or as many"
        )
    files = args.data * len(seeds) if len(args.data) == 1 else args.data
    cells = tqdm(
        zip(product(zip(seeds, files, strict=True), depths), args.outputs, strict=True),
        total=len(args.outputs),
        unit="cell",
        disable=not sys.stderr.isatty(),
    )
    kept = Checkpoints(args, program=program) if args.checkpoints else None
    loaded = None
    for ((number, file), depth), output in cells:
        checkpoint = kept and kept.path(file, place=_place(depth, number), depth=depth, seed=number)
        if checkpoint and is_kept(checkpoint, table):
            place(checkpoint, output)
            log.info("%s: kept", _name(depth, number))
            continue
        if file != loaded:
            x, loaded = load_prepared(file, hint=HOW_TO_PREPARE).x, file
        yield Cell(depth, number, x, table, output, checkpoint)


def load_activation(args: argparse.Namespace) -> Activation:
    """Return the activation of a cell, with the process limited to its threads."""
    limit_threads(args.threads)
    load_activation_files(args)
    return activations.get(args.activation)


def depth_list(depths: Iterable[int]) -> str:
    """Return depths as a text for a log line.

    >>> depth_list([0, 1]), depth_list([2])
    ('depths 0, 1', 'depth 2')
    """
    names = [str(depth) for depth in depths]
    return f"depth{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _place(depth: int, number: int | None) -> str:
    return f"depth-{depth}/seed-{'none' if number is None else number}"


def _name(depth: int, number: int | None) -> str:
    return f"depth {depth}" if number is None else f"depth {depth}, seed {number}"
