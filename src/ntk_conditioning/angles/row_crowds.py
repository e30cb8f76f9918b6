"""Crowds of rows that no cosine tells apart: their distances, from differences to one of them.

With unit vector c of one row, others are ∝ c + v_i, v_i across c, which is known to eps however
small: `directions.slopes_from`. Of rows at 90° and more nothing is said, as their computed distance
may be 0 without being it. Angles are bounded as in `crowds`, which has gradients.
"""

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.angles.directions import EPS, Array, slopes_from

Indices = NDArray[np.intp]
# Relative to their centre; the bounds say little of rows further away.
FURTHEST = 0.5


class RowCrowd:
    """The rows of a tile that ``mask`` pairs with the columns of the row that has most of them.

    ``mask`` is (rows, columns), of ``x`` and ``y``; ``block`` is where the crowd is in it.
    """

    def __init__(self, mask: NDArray[np.bool_], x: Array, y: Array) -> None:
        centre = mask.sum(axis=1).argmax()
        columns = np.flatnonzero(mask[centre])
        rows = np.flatnonzero(mask[:, columns].any(axis=1))
        self.block = np.ix_(rows, columns)
        #: Which of the block's pairs are in ``mask``.
        self.pairs = mask[self.block]
        v, v2 = (slopes_from(x[centre], each) for each in (x[rows], y[columns]))
        self._norms = tuple(np.linalg.norm(each, axis=1) for each in (v, v2))
        far = [~(norm < FURTHEST) for norm in self._norms]
        v[far[0]], v2[far[1]] = 0, 0
        for norm, beyond in zip(self._norms, far, strict=True):
            norm[beyond] = 0
        self._far = np.logical_or.outer(*far)
        self._furthest = max(float(norm.max()) for norm in self._norms)
        squares = np.add.outer(*(norm**2 for norm in self._norms)) - 2 * v @ v2.T
        # |v_i - v_j|² as computed, and how far off it is
        self._squares = np.maximum(squares, 0)
        sizes = np.add.outer(*self._norms)
        self._error = 16 * (v.shape[1] + 16) * EPS * sizes * (sizes + np.sqrt(self._squares))

    def nearest(self, distances: Array | None = None) -> tuple[Indices, Indices]:
        """Return the row and the column (1,) of the pair of smallest distance, by default of v."""
        order = np.where(self._far, np.finfo(np.float64).max, self._squares)
        order = np.where(self.pairs, order if distances is None else distances, np.inf)
        i, j = np.divmod([int(np.argmin(order))], order.shape[1])
        return self.block[0][i, 0], self.block[1][0, j]

    def is_thinned(self, possible: NDArray[np.bool_]) -> bool:
        """Return whether half of the pairs are excluded, so that other centres may exclude more."""
        return 2 * int((self.pairs & possible).sum()) <= int(self.pairs.sum())

    def cosine_distances(self) -> tuple[Array, float]:
        """Return w = 1 - cos θ (rows, columns), 0 where it is not known, and how far off it is.

        It is |v_i - v_j|²/2 but for terms of second order in the crowd's size.
        """
        w = np.where(self._far, 0, self._squares / 2)
        error = self._error / 2 + 12 * self._furthest**2 * w
        return w, float(np.max(error, initial=0, where=~self._far))

    def least_squared_sines(self) -> Array:
        """Return lower bounds of sin² θ (rows, columns), 0 where there is none."""
        lengths = np.multiply.outer(*((1 + norm**2) * (1 + 8 * EPS) for norm in self._norms))
        return np.where(self._far, 0, (self._squares - self._error) / lengths)
