"""Exponents of power laws, from measurements on a logarithmic scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def exponent(x: ArrayLike, y: ArrayLike) -> float:
    """Return a of y ~ x^a, by least squares on the logarithms.

    >>> round(exponent([1.0, 10.0, 100.0], [5.0, 0.05, 0.0005]), 12)
    -2.0
    """
    slope, _ = np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)
    return float(slope)


def rms(values: ArrayLike) -> float:
    """Return the root of the mean square.

    >>> rms([3.0, -3.0])
    3.0
    """
    return float(np.sqrt(np.mean(np.square(np.asarray(values, float)))))
