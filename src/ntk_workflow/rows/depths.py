"""Rows over depths and seeds: their options, their cells and the samples of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.prepared import load_prepared
from ntk_workflow.checkpoints.cells import Cell
from ntk_workflow.cli import Parser, UsageError, seed
from ntk_workflow.rows.row import row_parser


def depth_parser(
    description: str | None, *, seed_type: Callable[[str], int | None] = seed
) -> Parser:
    """Return a parser with the options of a row over depths and seeds."""
    parser = row_parser(description)
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        nargs="+",
        required=True,
        help="prepared dataset (.npz), one for all seeds or one for each",
    )
    add("--depths", type=seed, nargs="+", required=True, help="numbers of hidden layers")
    add("--seeds", type=seed_type, nargs="+", required=True, help="seeds to compute")
    return parser


def depth_cells(
    data: Sequence[Path], depths: Sequence[int], seeds: Sequence[int | None]
) -> list[Cell]:
    """Return the cells of a row, seed by seed.

    Raises:
        UsageError: if there are neither one nor as many files of data as seeds.
    """
    if len(data) not in (1, len(seeds)):
        raise UsageError(
            f"{len(data)} files of data for {len(seeds)} seeds; give one for all or as many"
        )
    files = [*data] * (len(seeds) if len(data) == 1 else 1)
    return [
        Cell("depth", depth, seed, file)
        for seed, file in zip(seeds, files, strict=True)
        for depth in depths
    ]


def samples_reader() -> Callable[[Path], NDArray[np.float64]]:
    """Return a function that reads the samples (n, d) of a file, and once for cells in sequence."""
    return lru_cache(maxsize=1)(lambda path: load_prepared(path).x)


def depth_list(depths: Sequence[int]) -> str:
    """Return depths as a text for a log line.

    >>> depth_list([0, 1]), depth_list([2])
    ('depths 0, 1', 'depth 2')
    """
    return f"depth{'s' if len(depths) > 1 else ''} {', '.join(map(str, depths))}"
