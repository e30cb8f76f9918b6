"""Rows over depths and seeds: their options, their cells and the samples of these."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.tables import Table
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Parser, UsageError, count_from_zero, logger, seed
from ntk_workflow.rows.row import row_parser, write_row
from ntk_workflow.samples import load_samples

log = logger(__file__)


def depth_parser(
    description: str | None, *, seed_type: Callable[[str], int | None] = seed
) -> Parser:
    """Return a parser of a row over depths and seeds, at infinite width unless options say else."""
    parser = row_parser(description)
    add = parser.add_argument
    help = "prepared dataset (.npz), one for all seeds or one for each"
    add("--data", type=Path, nargs="+", required=True, help=help)
    add("--depths", type=count_from_zero, nargs="+", required=True, help="numbers of hidden layers")
    add("--seeds", type=seed_type, nargs="+", required=True, help="seeds to compute")
    parser.set_defaults(device="cpu", dtype="float64", width=None)
    return parser


def write_depths(
    args: argparse.Namespace,
    table: Table,
    compute: Callable[[Cell, NDArray[np.float64]], Iterable[Mapping[str, Any]]],
    *,
    program: str,
) -> None:
    """Write a row, seed by seed; ``compute`` returns the rows of a cell and its samples (n, d)."""
    width, depths = args.width or "infinite", " ".join(map(str, args.depths))
    log.info("device %s, %s, width %s, depths %s", args.device, args.dtype, width, depths)
    data, seeds = args.data, args.seeds
    if len(data) not in (1, len(seeds)):
        problem = f"{len(data)} files of data for {len(seeds)} seeds"
        raise UsageError(f"{problem}; give one for all or as many")
    files = data * len(seeds) if len(data) == 1 else data
    cells = [
        Cell(activation, "depth", depth, seed, file)
        for activation in args.activation
        for seed, file in zip(seeds, files, strict=True)
        for depth in args.depths
    ]
    labels = {name: vars(args)[name] for name in ("kernel", "dataset", "width")}
    samples = lru_cache(maxsize=1)(lambda path: load_samples(path).x)

    def labelled(cell: Cell) -> Iterator[Mapping[str, Any]]:
        for row in compute(cell, samples(cell.data)):
            yield {**labels, **cell.coordinates, **row}

    write_row(args, table, cells, labelled, program=program)
