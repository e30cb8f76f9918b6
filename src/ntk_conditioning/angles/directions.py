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

    Their relative error is about eps, and no row may be zero.
    The part of x across y is what remains of x - s y. The product is formed exactly, as a rounded
    value and its error, so that no digit of a tiny remainder is lost, whatever the norms. Angles
    near π are right to eps.

    >>> angles_between(np.array([[1.0, 0.0]]), np.array([[3.0, 3e-20]]))
    array([1.e-20])
    """
    x, y = scaled(x), scaled(y)
    squares = np.einsum("kd,kd->k", y, y)
    scale = np.einsum("kd,kd->k", x, y) / squares
    product, error = exact_product(scale[:, None], y)
    across = (x - product) - error
    across -= (np.einsum("kd,kd->k", across, y) / squares)[:, None] * y
    return np.asarray(np.arctan2(np.linalg.norm(across, axis=1), scale * np.sqrt(squares)))


def exact_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return fl(a b) and a b - fl(a b) (Dekker 1971, "A floating-point technique", section 5).

    For float64 arrays and tensors alike.
    """
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
