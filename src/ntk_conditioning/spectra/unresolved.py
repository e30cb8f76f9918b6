"""Missing kappas in statistics: larger than any number, since float64 does not resolve them.

A mean, a maximum or a last value that one enters is missing, too; a median or a minimum may exist.
"""

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray


def as_infinite(kappa: ArrayLike) -> NDArray[np.float64]:
    """Return kappas with infinity where they are missing, NaN or None.

    >>> kappa = as_infinite([3.0, None, 5.0])
    >>> or_missing(np.median(kappa)), or_missing(np.mean(kappa))
    (5.0, None)
    """
    values = np.asarray(kappa, dtype=np.float64)
    return np.where(np.isnan(values), np.inf, values)


def or_missing(statistic: float) -> float | None:
    """Return a statistic of such kappas, None where it is not finite."""
    return float(statistic) if math.isfinite(statistic) else None


def reach(kappa: ArrayLike, error: ArrayLike, *, tolerance: float) -> float:
    """Return the largest kappa up to which no error exceeds ``tolerance``, or NaN if there is none.

    ``kappa`` and ``error``, relative to it, have shape (m,), in any order.

    >>> reach([1e2, 1e8, 1e4], [0.0, 0.5, 0.001], tolerance=0.01)
    10000.0
    """
    pairs = pd.DataFrame({"kappa": kappa, "error": error}).sort_values("kappa")
    return float(pairs["kappa"][(pairs["error"] <= tolerance).cummin()].max())
