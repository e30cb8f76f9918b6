"""What the programs share whose cells are a smallest angle: the row of the table."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from cli import logger
from numpy.typing import NDArray

from ntk_conditioning.angles import MinAngle

log = logger(__file__)


def angle_row(
    args: argparse.Namespace, x: NDArray[np.float64], found: MinAngle, *, labels: dict[str, Any]
) -> dict[str, Any]:
    """Return the row of the angles table of a cell."""
    log.info(
        "n %d: smallest angle %.6g degrees between samples %d and %d; %d pairs of equal samples",
        len(x),
        found.degrees,
        found.i,
        found.j,
        found.duplicates,
    )
    return {
        "dataset": args.dataset,
        "activation": args.activation,
        "depth": args.depth,
        **labels,
        "dtype": "float64",
        "n": x.shape[0],
        "d": x.shape[1],
        "min_angle": found.degrees,
        "i": found.i,
        "j": found.j,
        "duplicates": found.duplicates,
        "candidates": found.candidates,
    }
