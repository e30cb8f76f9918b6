"""Directions of rows, from products that are formed exactly: no digit of a small angle is lost."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)


def scaled(x: Array) -> Array:
    """Return rows times powers of 2 that bring their largest entries to [1, 2)."""
    exponent = np.frexp(np.abs(x).max(axis=1))[1]
    return np.asarray(x / np.ldexp(1.0, exponent - 1)[:, None])


def angles_between(x: Array, y: Array) -> Array:
    """Return the angles (k,) between the rows of ``x`` and ``y`` (k, d), in radians and float64.

    Their relative error is about eps, whatever the norms; that of angles near π is eps. No row
    may be zero.

    >>> angles_between(np.array([[1.0, 0.0]]), np.array([[3.0, 3e-20]]))
    array([1.e-20])
    """
    x, y = scaled(x), scaled(y)
    scale, across = split_along(x, y)
    along = scale[:, 0] * np.linalg.norm(y, axis=1)
    return np.asarray(np.arctan2(np.linalg.norm(across, axis=1), along))


def split_along(x: Any, y: Any) -> tuple[Any, Any]:
    """Return s (k, 1) and x - s y (k, d), which is across y, of rows of float64 arrays or tensors.

    The product is formed exactly, as a rounded value and its error, so that no digit of a tiny
    remainder is lost.
    """
    squares = (y * y).sum(axis=1, keepdims=True)
    scale = (x * y).sum(axis=1, keepdims=True) / squares
    product, error = exact_product(scale, y)
    across = (x - product) - error
    return scale, across - (across * y).sum(axis=1, keepdims=True) / squares * y


def exact_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return fl(a b) and a b - fl(a b) (Dekker 1971, "A floating-point technique", section 5)."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    rest = ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    return product, a_low * b_low - rest


def _halves(a: Any) -> tuple[Any, Any]:
    """Return numbers of 26 bits whose sum is ``a``."""
    shifted = a * 134217729.0  # 2^27 + 1
    high = shifted - (shifted - a)
    return high, a - high
