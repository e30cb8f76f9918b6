"""Rows of smallest angles: the row of the table of one search."""

from typing import Any

from ntk_conditioning.angles.pairs import MinAngle
from ntk_workflow.cli import logger

log = logger(__file__)


def angle_row(result: MinAngle, n: int, d: int) -> dict[str, Any]:
    """Return the columns of a search among ``n`` samples of ``d`` features."""
    line = "n %d: smallest angle %.6g degrees between samples %d and %d; %d pairs of equal samples"
    log.info(line, n, result.degrees, result.i, result.j, result.duplicates)
    return {
        "dtype": "float64",
        "n": n,
        "d": d,
        "min_angle": result.degrees,
        "min_angle_error": result.error_degrees,
        "i": result.i,
        "j": result.j,
        "duplicates": result.duplicates,
        "candidates": result.candidates,
    }
