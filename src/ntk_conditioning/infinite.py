"""Kernels of fully connected networks of infinite width, by a recursion over layers.

The network is that of liu2023relu, Eqs. (1) and (3), with any activation:
α^(l) = gain / sqrt(m) · σ(W α^(l-1)), α^(0) = x, f = W α^(L), weights N(0, 1), no biases, all of
them trained. Depth L counts hidden layers; depth 0 is the linear model and its NTK the Gram matrix.

    Σ^(l) = gain² E σ(u)σ(v),   Θ^(l) = Σ^(l) + Θ^(l-1) · gain² E σ'(u)σ'(v),   Σ^(0) = Θ^(0) = x xᵀ

with (u, v) ~ N(0, Σ^(l-1)) (Jacot, Gabriel & Hongler 2018, Theorem 1). Both kernels are carried as
their diagonals and as deficits, Σ_ij = sqrt(Σ_ii Σ_jj) (1 - w_ij) and
Θ_ij = sqrt(Θ_ii Θ_jj) (1 - e_ij). With p_i = Σ_ii / Θ_ii, and w', h from `duals`,

    e' = ((√p_i - √p_j)² + (√(1-p_i) - √(1-p_j))²) / 2
         + √(p_i p_j) w' + √((1-p_i)(1-p_j)) (e + h - e h)

sums terms none of which is negative. So tiny angles come out right, and with them the smallest
eigenvalues for close samples, where a cosine would have been rounded to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ntk_conditioning import activations
from ntk_conditioning.activations import Activation
from ntk_conditioning.angles import MinAngle, find_duplicates, require_directions, upper_tiles
from ntk_conditioning.duals import Dual, angle_of, dual
from ntk_conditioning.errors import UserError

Array = NDArray[np.float64]

# Side of the tiles in which kernels are computed: a few arrays of it fit the second-level cache.
TILE = 256
# Pairs whose cosine is this near to ±1 get their angle from their difference. The cosines of all
# others give angles that are right to about 1e-14.
CLOSE = 1e-3
# Entries of the arrays in which rows of close pairs are gathered, to bound the memory.
GATHERED = 2**20


class SamplesError(UserError):
    """The samples are no finite matrix or too few, or the depth is negative."""


def nngp(
    x: ArrayLike, x2: ArrayLike | None = None, *, depth: int, activation: Activation | str
) -> Array:
    """Return the covariance Σ^(L) (n, n2) of the last hidden layer's embeddings.

    ``x`` (n, d) and ``x2`` (n2, d) hold samples in rows; without ``x2`` it is ``x``.

    Raises:
        SamplesError, ZeroRowError, UnknownActivationError: as `layer_at`.

    >>> nngp([[3.0, 4.0]], depth=2, activation="relu").round(12)
    array([[25.]])
    """
    return layer_at(x, x2, depth=depth, activation=activation).nngp


def ntk(
    x: ArrayLike, x2: ArrayLike | None = None, *, depth: int, activation: Activation | str
) -> Array:
    """Return the neural tangent kernel Θ^(L) (n, n2) of infinite width.

    ``x`` (n, d) and ``x2`` (n2, d) hold samples in rows; without ``x2`` it is ``x``. For ReLU,
    Θ_ij = (L+1) |x_i||x_j| cos φ_ij with φ of liu2023relu, Theorem 4.4.

    Raises:
        SamplesError, ZeroRowError, UnknownActivationError: as `layer_at`.

    >>> ntk([[1.0, 0.0], [0.0, 2.0]], depth=1, activation="relu").round(6)
    array([[2.     , 0.63662],
           [0.63662, 8.     ]])
    """
    return layer_at(x, x2, depth=depth, activation=activation).ntk


def gradient_angles(
    x: ArrayLike, x2: ArrayLike | None = None, *, depth: int, activation: Activation | str
) -> Array:
    """Return the angles φ (n, n2) in radians between model gradients, of infinite width.

    Small angles keep their digits: relative errors are about 1e-15 for the leaky ReLUs and erf.
    Angles near π, which only odd activations and depth 0 have, are right to 1e-8.

    Raises:
        SamplesError, ZeroRowError, UnknownActivationError: as `layer_at`.

    >>> x = [[1.0, 0.0], [1.0, 1e-9]]
    >>> float(gradient_angles(x, depth=0, activation="relu")[0, 1])
    1e-09
    """
    layer = layer_at(x, x2, depth=depth, activation=activation)
    return layer.matrix(lambda pairs: angle_of(pairs.e))


def layer_at(
    x: ArrayLike, x2: ArrayLike | None = None, *, depth: int, activation: Activation | str
) -> Layer:
    """Return the network after ``depth`` hidden layers, with both kernels and their error.

    Raises:
        SamplesError: if ``x`` or ``x2`` is no finite matrix, or ``depth`` is negative.
        ZeroRowError: if a sample is zero.
        UnknownActivationError: if ``activation`` names none.

    >>> layer_at([[3.0, 4.0]], depth=1, activation="relu").error
    0.0
    """
    rows = _samples(x)
    if depth < 0:
        raise SamplesError(f"depth {depth} is negative; it counts hidden layers")
    sigma = activations.get(activation) if isinstance(activation, str) else activation
    if x2 is None:
        return Layer(rows, None, depth=depth, activation=sigma)
    others = _samples(x2)
    if others.shape[1] != rows.shape[1]:
        raise SamplesError(
            f"x has {rows.shape[1]} features and x2 {others.shape[1]}; give them the same"
        )
    return Layer(np.concatenate([rows, others]), len(rows), depth=depth, activation=sigma)


def min_angle(
    x: ArrayLike,
    *,
    depth: int,
    activation: Activation | str,
    tile: int = TILE,
    exclude_duplicates: bool = False,
) -> MinAngle:
    """Return the smallest angle between the model gradients of two rows of ``x`` (n, d).

    All pairs are compared, in tiles of ``tile`` rows and columns: no n × n array is formed. Equal
    rows have angle 0 and are counted; ``exclude_duplicates`` keeps the first row of each value.
    Of equal angles, the lowest pair of rows is returned. ``candidates`` counts the pairs of inputs
    so close, or so nearly opposite, that their angle was computed from their difference.

    Raises:
        ZeroRowError: if a sample is zero.
        SamplesError: as `layer_at`, or if there are fewer than two (different) rows.
        UnknownActivationError: if ``activation`` names none.

    >>> found = min_angle([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]], depth=0, activation="relu")
    >>> found.i, found.j, round(found.degrees, 6)
    (1, 2, 36.869898)
    """
    rows = _samples(x)
    require_directions(rows)
    duplicates = find_duplicates(rows)
    if duplicates.example is not None and not exclude_duplicates:
        return MinAngle(0.0, *duplicates.example, duplicates=duplicates.pairs, candidates=0)
    kept = duplicates.first
    if len(kept) < 2:
        raise SamplesError(f"{len(kept)} different samples have no pair; give at least two")
    layer = layer_at(rows[kept], depth=depth, activation=activation)
    best, candidates = (math.inf, -1, -1), 0
    for pairs in layer.tiles(tile):
        i, j = np.arange(len(kept))[pairs.rows, None], np.arange(len(kept))[pairs.columns]
        e = np.where(i < j, pairs.e, math.inf)
        candidates += int(np.count_nonzero(pairs.close & (i < j)))
        row, column = np.unravel_index(np.argmin(e), e.shape)
        best = min(best, (float(e[row, column]), int(i[row, 0]), int(j[column])))
    deficit, i_best, j_best = best
    return MinAngle(
        float(angle_of(np.array(deficit))),
        int(kept[i_best]),
        int(kept[j_best]),
        duplicates=duplicates.pairs,
        candidates=candidates,
    )


@dataclass(frozen=True)
class Pairs:
    """A tile of pairs: deficits of embeddings (``w``) and of model gradients (``e``).

    ``close`` marks the pairs whose input angle was computed from the rows' difference.
    """

    rows: slice
    columns: slice
    w: Array
    e: Array
    close: NDArray[np.bool_]


class Layer:
    """The network of infinite width on given samples, after some hidden layers; see `layer_at`.

    ``x`` (N, d) are all samples; ``split`` tells where x2 begins, if there is one. ``error`` is
    what the duals' errors add up to, relative to the kernels' largest entries.
    """

    def __init__(self, x: Array, split: int | None, *, depth: int, activation: Activation) -> None:
        require_directions(x)
        self.x, self.split = x, split
        q = np.einsum("nd,nd->n", x, x)
        self._units = x / np.sqrt(q)[:, None]
        own = q  # the diagonal of Θ
        self._layers: list[tuple[Dual, Array, Array]] = []
        for _ in range(depth):
            layer = dual(activation, q)
            q, below = layer.variances, own * layer.slopes
            own = q + below
            self._layers.append((layer, np.sqrt(q / own), np.sqrt(below / own)))
        self._embedding_norms, self._gradient_norms = np.sqrt(q), np.sqrt(own)
        self.error = math.fsum(layer.error for layer, _, _ in self._layers)

    @cached_property
    def nngp(self) -> Array:
        """The covariance Σ^(L) (n, n2) of the embeddings."""
        norms = self._embedding_norms
        return self.matrix(lambda p: np.outer(norms[p.rows], norms[p.columns]) * (1 - p.w))

    @cached_property
    def ntk(self) -> Array:
        """The neural tangent kernel Θ^(L) (n, n2)."""
        norms = self._gradient_norms
        return self.matrix(lambda p: np.outer(norms[p.rows], norms[p.columns]) * (1 - p.e))

    def matrix(self, entry: Callable[[Pairs], Array]) -> Array:
        """Return what ``entry`` makes of all pairs (n, n2), exactly symmetric without x2."""
        n = len(self.x) if self.split is None else self.split
        result = np.empty((n, n if self.split is None else len(self.x) - n))
        for pairs in self.tiles(TILE):
            block = entry(pairs)
            if self.split is not None:
                result[pairs.rows, pairs.columns.start - n : pairs.columns.stop - n] = block
                continue
            if pairs.rows == pairs.columns:
                block = np.triu(block) + np.triu(block, 1).T
            result[pairs.rows, pairs.columns] = block
            result[pairs.columns, pairs.rows] = block.T
        return result

    def tiles(self, tile: int) -> Iterator[Pairs]:
        """Yield all pairs of x and x2, or those of the upper triangle without x2."""
        if self.split is None:
            for rows, columns in upper_tiles(len(self.x), tile):
                yield self._pairs(rows, columns)
            return
        for top in range(0, self.split, tile):
            for left in range(self.split, len(self.x), tile):
                rows = slice(top, min(top + tile, self.split))
                yield self._pairs(rows, slice(left, min(left + tile, len(self.x))))

    def _pairs(self, rows: slice, columns: slice) -> Pairs:
        w, theta, close = self._input_angles(rows, columns)
        e = w
        for number, (layer, near, far) in enumerate(self._layers):
            if number:
                theta = angle_of(w)
            w, h = layer.deficits(rows, columns, w, theta)
            spread = np.subtract.outer(near[rows], near[columns]) ** 2
            spread += np.subtract.outer(far[rows], far[columns]) ** 2
            e = (
                spread / 2
                + np.outer(near[rows], near[columns]) * w
                + np.outer(far[rows], far[columns]) * (e + h - e * h)
            )
        return Pairs(rows, columns, w, e, close)

    def _input_angles(self, rows: slice, columns: slice) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Return 1 - cos θ, θ, and where both came from differences."""
        cosine = np.clip(self._units[rows] @ self._units[columns].T, -1, 1)
        w, theta = 1 - cosine, np.arccos(cosine)
        close = np.abs(cosine) > 1 - CLOSE
        i, j = np.nonzero(close)
        step = max(1, GATHERED // self.x.shape[1])
        for part in (slice(start, start + step) for start in range(0, len(i), step)):
            at = i[part], j[part]
            opposite = cosine[at] < 0
            second = np.where(opposite[:, None], -1.0, 1.0) * self.x[columns][at[1]]
            angle = _nearly_parallel_angles(self.x[rows][at[0]], second)
            theta[at] = np.where(opposite, math.pi - angle, angle)
            half = np.where(opposite, np.cos(angle / 2), np.sin(angle / 2))
            w[at] = 2 * half**2
        return w, theta, close


def _samples(x: ArrayLike) -> Array:
    rows = np.asarray(x, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0:
        raise SamplesError(f"samples of shape {rows.shape}; give one sample per row")
    if not np.isfinite(rows).all():
        raise SamplesError("some features are infinite or not a number")
    return rows


def _nearly_parallel_angles(x: Array, y: Array) -> Array:
    """Return the angle (k,) between each row of ``x`` and of ``y``, with relative error eps.

    The part of x across y is what remains of x - s y. The product is formed exactly, as a rounded
    value and its error, so that no digit of a tiny remainder is lost, whatever the norms.
    """
    squares = np.einsum("kd,kd->k", y, y)
    scale = np.einsum("kd,kd->k", x, y) / squares
    product, error = _exact_product(scale[:, None], y)
    across = (x - product) - error
    across -= (np.einsum("kd,kd->k", across, y) / squares)[:, None] * y
    return np.asarray(np.arctan2(np.linalg.norm(across, axis=1), scale * np.sqrt(squares)))


def _exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return fl(a b) and a b - fl(a b) (Dekker 1971, "A floating-point technique", section 5)."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return product, a_low * b_low - (
        ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    )


def _halves(a: Array) -> tuple[Array, Array]:
    """Return numbers of 26 bits whose sum is ``a``."""
    shifted = a * 134217729.0  # 2^27 + 1
    high = shifted - (shifted - a)
    return high, a - high
