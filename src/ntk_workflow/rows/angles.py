"""Rows of smallest angles: the row of the table of one cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.angles.pairs import MinAngle
from ntk_workflow.cli import logger

log = logger(__file__)


def angle_row(found: MinAngle, x: NDArray[np.float64], labels: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of the angles table of a search among the samples ``x`` (n, d)."""
    n, d = x.shape
    log.info(
        "n %d: smallest angle %.6g degrees between samples %d and %d; %d pairs of equal samples",
        n,
        found.degrees,
        found.i,
        found.j,
        found.duplicates,
    )
    return {
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
