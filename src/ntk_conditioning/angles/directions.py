"""Directions of rows, from products that are formed exactly: no digit of a small angle is lost."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def angles_between(x: Array, y: Array) -> Array:
    """Return the angles (k,) between the rows of ``x`` and ``y`` (k, d), in radians and float64.

    Their relative error is about eps, whatever the norms, also near π. No row may be zero.

    >>> angles_between(np.array([[1.0, 0.0]]), np.array([[3.0, 3e-20]]))
    array([1.e-20])
    """
    # by powers of 2, so that squares are in range
    x, y = (np.ldexp(r, -np.frexp(np.abs(r).max(axis=1, keepdims=True))[1]) for r in (x, y))
    scale, across = split_along(x, y)
    along = scale[:, 0] * np.linalg.norm(y, axis=1)
    return np.asarray(np.arctan2(np.linalg.norm(across, axis=1), along))


def split_along(x: Any, y: Any) -> tuple[Any, Any]:
    """Return s (k, 1) and x - s y (k, d), which is across y, of rows of float64 arrays or tensors.

    The product is formed exactly, as a rounded value and its error: no digit is lost.
    """
    squares = (y * y).sum(axis=1, keepdims=True)
    scale = (x * y).sum(axis=1, keepdims=True) / squares
    product, error = exact_product(scale, y)
    across = (x - product) - error
    return scale, across - (across * y).sum(axis=1, keepdims=True) / squares * y


def exact_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return fl(a b) and a b - fl(a b) (Dekker 1971, "A floating-point technique", section 5)."""
    product = a * b
    a_high, b_high = _high(a), _high(b)
    a_low, b_low = a - a_high, b - b_high
    rest = ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    return product, a_low * b_low - rest


def _high(a: Any) -> Any:
    """Return ``a`` rounded to 26 bits, as are its remainders."""
    shifted = a * 134217729.0  # 2^27 + 1
    return shifted - (shifted - a)
