"""The closest pair of directions among many samples, at the cost of one float32 product.

All pairs are screened by a lower bound of w = 1 - cos θ, a tile of pairs at a time. Only those
whose bound does not exceed the smallest w so far are computed from their difference.

Let v be the unit rows less their mean m, rounded with unit roundoff u, and b = |v|²/2: then
w = b + b' - v·v', up to rounding. A computed product of the augmented rows (v, 1, -s) and
(v', -s', 1) is off by at most γ (|v||v'| + s + s') <= 2γ (b + b') with γ = k u / (1 - k u),
k = d + 16 (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1). So with
s = (1 - 2γ) b the product is at least -w, with an error relative to how far apart directions are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.angles.directions import EPS, Array, angles_between, scaled
from ntk_conditioning.angles.pairs import spans, upper_tiles

Single = NDArray[np.float32]
Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]
Distance = Callable[[Array, Array], Array]

TILE = 1024  # side of the tiles
GATHERED = 2**18  # entries of the arrays in which rows of pairs are gathered
NEARLY_EQUAL = 1e-9  # pairs within this of the smallest w, relatively, are computed, too
RIGHT_ANGLE = 1 + 1e-14  # w of orthogonal rows, with its rounding
MEAN_OF = 2048  # samples whose mean direction is m: any m will do


@dataclass(frozen=True)
class ClosestPair:
    """The rows ``i < j`` with the smallest ``distance``, and how many pairs were computed."""

    distance: float
    i: int
    j: int
    candidates: int


def closest_pair(
    x: Array, distance: Distance, *, opposite: bool, tile: int | None = None
) -> ClosestPair:
    """Return the pair of rows of ``x`` (n, d), n >= 2, in float64, whose distance is smallest.

    ``distance`` maps w = 1 - cos θ and θ (k,) to what is minimised. It must increase on [0, 1], and
    be nowhere smaller on [1, 2] than at 1; with ``opposite``, than at 2 - w. Of pairs with equal
    distances the lowest is returned. Rows must not be zero; their norms do not enter. The memory
    needed is that of ``x`` in float32, and a few tiles of side ``tile``.

    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [1e9, 1.0]])
    >>> closest_pair(x, lambda w, theta: w, opposite=False)
    ClosestPair(distance=5e-19, i=0, j=2, candidates=1)
    """
    search = _Search(x, distance, opposite=opposite)
    for rows, columns in upper_tiles(len(x), tile or TILE):
        search.see(rows, columns)
    return ClosestPair(*search.best, search.candidates)


class _Search:
    """The smallest distance so far, with its rows: ``best``.

    ``_reach`` is the smallest w <= 1 that was computed: no pair of larger w has a smaller distance.

    Let w̃ be that of unit rows in float64. A product of augmented rows is at least -w̃, and at most
    -w̃ + ``_loss``. Unit rows are off by (d/2 + 2.5) eps/2, hence their chord √(2 w̃), and that to
    the opposite row, by at most ``_chord_error`` (twice what is proven).
    """

    def __init__(self, x: Array, distance: Distance, *, opposite: bool) -> None:
        self._x, self._distance, self._opposite = x, distance, opposite
        self.best, self.candidates, self._reach = (math.inf, -1, -1), 0, math.inf
        n, d = x.shape
        unit = float(np.finfo(np.float32).eps) / 2
        gamma = (d + 16) * unit / (1 - (d + 16) * unit)
        margin = 2 * gamma + (d + 2) * EPS  # b is itself summed in float64
        mean = _unit_rows(x[:: math.ceil(n / MEAN_OF)]).mean(axis=0)
        self._rows: Single = np.ones((n, d + 2), np.float32)
        largest = 0.0
        for part in spans(n, max(1, GATHERED // d)):
            self._rows[part, :d] = _unit_rows(x[part]) - mean
            v = self._rows[part, :d].astype(np.float64)
            b = np.einsum("nd,nd->n", v, v) / 2
            self._rows[part, d + 1] = -(1 - margin) * b
            largest = max(largest, float(b.max()))
        self._chord_error = (d + 8) * EPS
        self._loss = 4 * margin * largest

    def see(self, rows: slice, columns: slice) -> None:
        """Compute those pairs of a tile that may have the smallest distance."""
        left = self._rows[rows].copy()
        left[:, [-2, -1]] = left[:, [-1, -2]]
        product = np.asarray(left @ self._rows[columns].T)
        if rows == columns:
            product[np.tril_indices(len(product))] = -np.inf
            if len(product) == 1:
                return
        elif not self._within(np.array([product.max(), product.min()])).any():
            return
        i, j = np.divmod([int(np.argmax(product))], product.shape[1])
        self._compute(i + rows.start, j + columns.start)  # the nearest first: it excludes others
        mask = self._within(product)
        mask[i, j] = False
        i, j = np.nonzero(np.triu(mask, 1) if rows == columns else mask)
        nearness = product[i, j]
        order = np.argsort(-nearness, kind="stable")
        step = max(1, GATHERED // self._x.shape[1])
        for part in np.split(order, range(1, len(order), step)):
            kept = part[self._within(nearness[part])]
            above, below = i[kept] + rows.start, j[kept] + columns.start
            if self._reach == 0:  # nothing is closer: only a lower pair may take its place
                _, first, second = self.best
                lower = (above < first) | ((above == first) & (below < second))
                above, below = above[lower], below[lower]
            self._compute(above, below)

    def _within(self, product: Single) -> Mask:
        """Return which pairs may have 1 - cos θ, or if ``opposite`` 1 + cos θ, within reach."""
        chord = math.sqrt(2 * self._reach * (1 + NEARLY_EQUAL)) + self._chord_error
        limit = chord * chord / 2
        # rounded outwards in float32
        mask: Mask = product >= np.nextafter(product.dtype.type(-limit), -np.inf)
        if self._opposite:  # |ũ + ũ'|²/2 = 2 - w̃, up to the error of the norms
            beyond = limit + self._loss + 4 * self._chord_error - 2
            mask |= product <= np.nextafter(product.dtype.type(beyond), np.inf)
        return mask

    def _compute(self, i: Indices, j: Indices) -> None:
        if not len(i):
            return
        theta = angles_between(self._x[i], self._x[j])
        w = 2 * np.sin(theta / 2) ** 2
        self.candidates += len(w)
        self._reach = min(self._reach, float(w.min(initial=math.inf, where=w <= RIGHT_ANGLE)))
        self.best = min(self.best, lowest(self._distance(w, theta), i, j))


def lowest(values: Array, i: Indices, j: Indices) -> tuple[float, int, int]:
    """Return the smallest value (k,) and the lowest of the pairs ``i``, ``j`` that have it."""
    ties = np.flatnonzero(values == values.min())
    pairs = zip(values[ties].tolist(), i[ties].tolist(), j[ties].tolist(), strict=True)
    return min(pairs)


def _unit_rows(x: Array) -> Array:
    x = scaled(x)
    return np.asarray(x / np.sqrt(np.einsum("nd,nd->n", x, x))[:, None])
