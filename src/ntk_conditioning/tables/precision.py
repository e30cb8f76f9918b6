"""The table of the precision study: one row per problem and recipe for its condition number."""

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning.tables import declared

PRECISION = declared(__file__)


def reach(kappa: ArrayLike, error: ArrayLike, *, tolerance: float) -> float:
    """Return the largest ``kappa`` up to which no ``error`` exceeds ``tolerance``, or NaN.

    >>> reach([1e2, 1e8, 1e4], [0.0, 0.5, 0.001], tolerance=0.01)
    10000.0
    """
    kappa, error = np.asarray(kappa, dtype=np.float64), np.asarray(error, dtype=np.float64)
    order = np.argsort(kappa)
    good = np.logical_and.accumulate(error[order] <= tolerance)
    return float(kappa[order][good].max(initial=-np.inf)) if good.any() else float("nan")
