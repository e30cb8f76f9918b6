"""What the programs share whose cells are a smallest angle: the row of the table."""

from __future__ import annotations

import argparse
from typing import Any

from cell import Cell
from cli import logger

from ntk_conditioning.angles import MinAngle

log = logger(__file__)


def angle_row(
    args: argparse.Namespace, cell: Cell, found: MinAngle, *, labels: dict[str, Any]
) -> dict[str, Any]:
    """Return the row of the angles table of a cell."""
    n, d = cell.x.shape
    log.info(
        "n %d: smallest angle %.6g degrees between samples %d and %d; %d pairs of equal samples",
        n,
        found.degrees,
        found.i,
        found.j,
        found.duplicates,
    )
    return {
        "dataset": args.dataset,
        "activation": args.activation,
        "depth": cell.depth,
        "seed": cell.seed,
        **labels,
        "dtype": "float64",
        "n": n,
        "d": d,
        "min_angle": found.degrees,
        "min_angle_error": found.error_degrees,
        "i": found.i,
        "j": found.j,
        "duplicates": found.duplicates,
        "candidates": found.candidates,
    }
