"""Chebyshev interpolation, over angles between points that crowd at 0 and π."""

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.polynomial import chebyshev
from scipy import fft

from ntk_conditioning.networks.activations import Array

#: Interpolants, of quantities between 0 and 2, are refined until their last coefficients are below.
TOLERANCE = 1e-14
MAX_ANGLES = 200
# Angles that are interpolated together: their Chebyshev polynomials fit the second-level cache.
TOGETHER = 2**12


class Angles:
    """The angles between 0 and π as the points of [-1, 1], which crowd at the ends with ``grade``.

    Singularities at distances of δ from the ends want a grade of log(1 + 1/δ) / 2.
    """

    def __init__(self, grade: float) -> None:
        self._grade = grade

    def points(self, count: int) -> Array:
        """Return ``count`` angles between which to interpolate."""
        return math.pi / 2 * (1 + graded(chebyshev_points(count), self._grade))

    def position(self, theta: Array) -> Array:
        """Return the point of [-1, 1] that `points` moves to ``theta``."""
        x = (theta * (2 / math.pi) - 1) * math.tanh(self._grade)
        return np.asarray(np.arctanh(x) / self._grade)

    def interpolated(self, tables: Array, theta: Array) -> Array:
        """Return the values (k, ...) at angles of any shape of series with coefficients (k, m)."""
        x, values = self.position(theta).ravel(), np.empty((len(tables), theta.size))
        for start in range(0, theta.size, TOGETHER):
            part = slice(start, start + TOGETHER)
            values[:, part] = tables @ chebyshev.chebvander(x[part], tables.shape[1] - 1).T
        return values.reshape(len(tables), *theta.shape)


def graded(x: Array, grade: float) -> Array:
    """Return ``x`` in [-1, 1] moved towards the ends."""
    return np.asarray(np.tanh(grade * x) / math.tanh(grade))


def count_needed(
    count: int,
    most: int,
    last_coefficients: Callable[[int], Array],
    *,
    tolerance: float = TOLERANCE,
) -> int:
    """Return how many points make the last Chebyshev coefficients negligible, or ``most``."""
    while count < most and not (np.abs(last_coefficients(count)) <= tolerance).all():
        count = math.ceil(1.25 * count)
    return count


def chebyshev_points(count: int) -> Array:
    """Return the ``count`` zeros of the next Chebyshev polynomial."""
    return np.cos(math.pi * (np.arange(count) + 0.5) / count)


def coefficients(values: Array, axes: Iterable[int] | None = None) -> Array:
    """Return Chebyshev coefficients of values at Chebyshev points, along some axes or all."""
    for axis in range(values.ndim) if axes is None else axes:
        values = fft.dct(values, axis=axis) / values.shape[axis]
        np.moveaxis(values, axis, 0)[0] /= 2
    return values
