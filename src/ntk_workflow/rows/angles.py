"""Rows of smallest angles: the row of the table of one cell."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.angles.pairs import MinAngle
from ntk_workflow.cli import logger

log = logger(__file__)


def angle_rows(result: MinAngle, x: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return the row of the angles table of a search among the samples ``x`` (n, d)."""
    (n, d), pair = x.shape, {"i": result.i, "j": result.j, "duplicates": result.duplicates}
    line = "n %d: smallest angle %.6g degrees between samples %d and %d; %d pairs of equal samples"
    log.info(line, n, result.degrees, *pair.values())
    angle = {"min_angle": result.degrees, "min_angle_error": result.error_degrees}
    return [{"dtype": "float64", "n": n, "d": d, "candidates": result.candidates, **angle, **pair}]
