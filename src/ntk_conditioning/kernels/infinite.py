"""Kernels of fully connected networks of infinite width, by a recursion over layers.

The network is that of liu2023relu, Eqs. (1) and (3), with any activation:
α^(l) = gain / sqrt(m) · σ(W α^(l-1)), α^(0) = x, f = W α^(L), weights N(0, 1), no biases, all of
them trained. Depth L counts hidden layers; depth 0 is the linear model and its NTK the Gram matrix.

    Σ^(l) = gain² E σ(u)σ(v),   Θ^(l) = Σ^(l) + Θ^(l-1) · gain² E σ'(u)σ'(v),   Σ^(0) = Θ^(0) = x xᵀ

with (u, v) ~ N(0, Σ^(l-1)) (Jacot, Gabriel & Hongler 2018, Theorem 1). Both kernels are carried as
their diagonals and as cosine distances, Σ_ij = sqrt(Σ_ii Σ_jj) (1 - w_ij) and
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

from ntk_conditioning.angles.closest_pairs import ClosestPair, angles_between, closest_pair, scaled
from ntk_conditioning.angles.pairs import MinAngle, find_duplicates, require_directions, upper_tiles
from ntk_conditioning.duals.closed_forms import Dual, angle_of, dual
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Side of the tiles in which kernels are computed: a few arrays of it fit the second-level cache.
TILE = 256
# Pairs whose cosine is this near to ±1 get their angle from their difference. The cosines of all
# others give angles that are right to about 1e-14.
CLOSE = 1e-3
# Entries of the arrays in which rows of close pairs are gathered, to bound the memory.
GATHERED = 2**20
# Side of the tiles of which only the diagonal is wanted.
NARROW = 32
# Norms are equal if they differ by no more than rounding, relatively.
EQUAL_NORMS = 1e-13
# Relative rounding of a layer's cosine distances, and of those of the samples.
ROUNDING = 8 * float(np.finfo(np.float64).eps)
# A smallest angle must be known to this, relatively, or to what a cosine in float64 tells; and
# the cosines to this.
RESOLVED = 1e-3
TOLD_BY_COSINES = 1e-8


class UnresolvedKernelError(UserError):
    """Samples are so large or small that the kernel, or an angle from it, has no right digits."""


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
        UnresolvedKernelError: if squares of samples leave the range of float64; so do the kernels
            when they are computed.

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
    tile: int | None = None,
    exclude_duplicates: bool = False,
) -> MinAngle:
    """Return the smallest angle between the model gradients of two rows of ``x`` (n, d).

    All pairs are screened, in tiles of ``tile`` rows and columns: no n × n array is formed. The
    angle of those that may be the smallest, the ``candidates``, is computed from their difference.
    Its ``error`` is what follows from the errors of the duals, and from rounding.
    Equal rows have angle 0 and are counted; ``exclude_duplicates`` keeps the first row of each
    value. Of equal angles, the lowest pair of rows is returned.

    Where norms do not enter, because the activation is homogeneous, or all are equal, φ depends on
    the input angle only, and `closest_pair` finds it. This is exact: 1 - e is a power series in
    cos θ without negative coefficients, as sums, products and compositions of such are, and layers
    are such by their Hermite expansions (Daniely, Frostig & Singer 2016, "Toward Deeper
    Understanding of Neural Networks", Lemma 11). So it increases on [0, 1], and its absolute value
    at -cos θ is no larger than its value at cos θ. For leaky ReLUs without negative slope it is
    moreover nowhere on [-1, 0] above its value at 0: there Σ is not, as κ' = 1 - c θ/π >= 0, and
    Θ' = Σ' + Θ κ'(Σ) is not, if Θ is not.

    Raises:
        ZeroRowError: if a sample is zero.
        SamplesError: as `layer_at`, or if there are fewer than two (different) rows.
        UnknownActivationError: if ``activation`` names none.
        UnresolvedKernelError: as `layer_at`, or if cosines are not known to `RESOLVED`, or if the
            error is above `RESOLVED` of the angle, and above `TOLD_BY_COSINES`.

    >>> closest = min_angle([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]], depth=0, activation="relu")
    >>> closest.i, closest.j, round(closest.degrees, 6)
    (1, 2, 36.869898)
    """
    rows = _samples(x)
    require_directions(rows)
    duplicates = find_duplicates(rows)
    if duplicates.example is not None and not exclude_duplicates:
        return MinAngle(0.0, *duplicates.example, duplicates.pairs, candidates=0, error=0.0)
    kept = duplicates.first
    if len(kept) < 2:
        raise SamplesError(f"{len(kept)} different samples have no pair; give at least two")
    distinct = rows if len(kept) == len(rows) else rows[kept]
    sigma = activations.get(activation) if isinstance(activation, str) else activation
    norm = _norm_that_enters(distinct, depth=depth, activation=sigma)
    if norm is None:
        layer = layer_at(distinct, depth=depth, activation=sigma)
        layer.require_resolved()
        closest = _lowest_pair(layer, tile or TILE)
        at = closest.i, closest.j
    else:
        layer = layer_at([[norm]], depth=depth, activation=sigma)
        layer.require_resolved()
        monotone = depth == 0 or (sigma.negative_slope is not None and sigma.negative_slope >= 0)
        closest = closest_pair(
            distinct, layer.cosine_distances_at_norm, opposite=not monotone, tile=tile
        )
        at = 0, 0
    theta = angles_between(scaled(distinct[[closest.i]]), scaled(distinct[[closest.j]]))
    off = layer.cosine_distance_error(*at, 2 * math.sin(theta.item() / 2) ** 2)
    angle, *ends = angle_of(
        closest.distance + np.array([0, -min(off, closest.distance), off])
    ).tolist()
    error = max(abs(end - angle) for end in ends) + ROUNDING * angle
    if depth and not sigma.homogeneous:  # a layer turns by no more than about a norm's error
        error += depth * max(EQUAL_NORMS, rows.shape[1] * float(np.finfo(np.float64).eps))
    layer.require(
        error <= max(RESOLVED * angle, TOLD_BY_COSINES),
        f"the smallest angle is known to {math.degrees(error):.2g} degrees only",
    )
    return MinAngle(
        angle,
        int(kept[closest.i]),
        int(kept[closest.j]),
        duplicates=duplicates.pairs,
        candidates=closest.candidates,
        error=error,
    )


def _norm_that_enters(x: Array, *, depth: int, activation: Activation) -> float | None:
    """Return the one norm that matters for angles, or None if they depend on each row's."""
    if depth == 0 or activation.homogeneous:
        return 1.0
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(x, axis=1)
    low, high = float(norms.min()), float(norms.max())
    return low if 0 < high <= low * (1 + EQUAL_NORMS) < math.inf else None


def _lowest_pair(layer: Layer, tile: int) -> ClosestPair:
    """Return the pair of rows of smallest e, where that depends on their norms too.

    Every pair goes through all layers, with a rounded cosine. Only those whose e then exceeds the
    smallest by no more than `Layer.roughness` are computed from their difference.
    """
    best, candidates = (math.inf, -1, -1), 0

    def compute(i: Indices, j: Indices) -> None:
        nonlocal best, candidates
        e = layer.cosine_distances(i, j)
        candidates += len(e)
        least = e.min()
        ties = np.flatnonzero(e == least)
        best = min(best, *((float(least), int(i[at]), int(j[at])) for at in ties))

    for rows, columns in upper_tiles(len(layer.x), tile):
        rough = layer.rough_cosine_distances(rows, columns)
        if rows == columns:
            rough[np.tril_indices(len(rough))] = math.inf
        k = int(np.argmin(rough))  # first, so that it excludes most of the others
        if rough.flat[k] < math.inf and rough.flat[k] <= best[0] + layer.roughness:
            first = np.divmod([k], rough.shape[1])
            compute(first[0] + rows.start, first[1] + columns.start)
            rough.flat[k] = math.inf
            i, j = np.nonzero(rough <= best[0] + layer.roughness)
            if len(i):
                compute(i + rows.start, j + columns.start)
    return ClosestPair(*best, candidates)


@dataclass(frozen=True)
class Pairs:
    """A tile of pairs: cosine distances of embeddings (``w``) and of model gradients (``e``)."""

    rows: slice
    columns: slice
    w: Array
    e: Array


class Layer:
    """The network of infinite width on given samples, after some hidden layers; see `layer_at`.

    ``x`` (N, d) are all samples; ``split`` tells where x2 begins, if there is one. ``error`` is
    what the duals' errors add up to, relative to the kernels' largest entries.
    """

    def __init__(self, x: Array, split: int | None, *, depth: int, activation: Activation) -> None:
        require_directions(x)
        self.x, self.split = x, split
        self._name = f"{activation.name} at depth {depth}"
        with np.errstate(over="ignore"):
            q = np.einsum("nd,nd->n", x, x)
        in_range = np.isfinite(q) & (q >= np.finfo(np.float64).tiny)
        self.require(in_range.all(), "squared norms leave float64's range")
        self._units = x / np.sqrt(q)[:, None]
        diagonal = q  # the diagonal of Θ
        self._layers: list[tuple[Dual, Array, Array]] = []
        for _ in range(depth):
            with np.errstate(all="ignore"):  # of what is not finite, the errors are infinite
                layer = dual(activation, q)
            q, below = layer.variances, diagonal * layer.slopes
            diagonal = q + below
            self._layers.append((layer, np.sqrt(q / diagonal), np.sqrt(below / diagonal)))
        self._embedding_norms, self._gradient_norms = np.sqrt(q), np.sqrt(diagonal)
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

    def cosine_distances_at_norm(self, w: Array, theta: Array) -> Array:
        """Return e (k,) of pairs at angles θ, w = 1 - cos θ, both of the first sample's norm."""
        one = slice(0, 1)
        return np.asarray(self._propagate(one, one, w[:, None], theta[:, None])[1][:, 0])

    def rough_cosine_distances(self, rows: slice, columns: slice) -> Array:
        """Return e of a tile from rounded cosines, off by up to `roughness`."""
        cosine = self._cosines(rows, columns)
        return self._propagate(rows, columns, 1 - cosine, np.arccos(cosine))[1]

    def cosine_distances(self, i: Indices, j: Indices) -> Array:
        """Return e (k,) of rows ``i`` and ``j``, k >= 1, from their differences.

        All pairs of rows from the first to the last of each go through the layers.
        """
        rows, columns = slice(i.min(), i.max() + 1), slice(j.min(), j.max() + 1)
        w = np.ones((rows.stop - rows.start, columns.stop - columns.start))
        theta = np.full_like(w, math.pi / 2)
        at = i - rows.start, j - columns.start
        w[at], theta[at] = self._accurate_angles(i, j)
        return np.asarray(self._propagate(rows, columns, w, theta)[1][at])

    def cosine_distance_error(self, i: int, j: int, w: float) -> float:
        """Return how far e may be off for rows ``i`` and ``j`` at 1 - cos θ = ``w``.

        Where w may be off, so may the next layer's cosine distances: by as much as they differ at
        its ends.
        """
        rows, columns = slice(i, i + 1), slice(j, j + 1)
        e, off = np.array([[w]]), ROUNDING * w
        e_off = off
        for layer, near, far in self._layers:
            ends = np.clip([[w], [w - off], [w + off]], 0, 2)
            w_ends, h_ends = layer.cosine_distances(rows, columns, ends, angle_of(ends))
            w, off = _with_error(layer, w_ends)
            h, h_off = _with_error(layer, h_ends)
            e_off = float(near[i] * near[j] * off + far[i] * far[j] * (e_off + h_off))
            e = _gradient_cosine_distances(
                near[rows], near[columns], far[rows], far[columns], w, e, h
            )
            e_off += _error(layer, e.item())  # of the weights
        return e_off

    @cached_property
    def roughness(self) -> float:
        """How far e may be off for pairs of samples whose cosine is rounded.

        By its Hermite expansion 1 - e_ij = Σ b_k(i, j) cos^k θ, and |b_k(i, j)| is at most the
        root of b_k(i, i) b_k(j, j), by Cauchy and Schwarz and induction over layers. A change of
        cos θ by δ moves cos^k θ by at most 1 - (1 - δ)^k, so that e_ij moves by no more than the
        larger of e_ii and e_jj rise between the angles whose cosines are 1 and 1 - δ.
        """
        eps = float(np.finfo(np.float64).eps)
        change = (self.x.shape[1] + 8) * eps
        largest = 0.0
        for start in range(0, len(self.x), NARROW):
            part = slice(start, min(start + NARROW, len(self.x)))
            w = np.full((part.stop - start, part.stop - start), change)
            largest = max(
                largest, np.diagonal(self._propagate(part, part, w, angle_of(w))[1]).max()
            )
        return largest + 2 * self.error + 20 * (len(self._layers) + 1) * eps

    def _pairs(self, rows: slice, columns: slice) -> Pairs:
        w, theta = self._input_angles(rows, columns)
        return Pairs(rows, columns, *self._propagate(rows, columns, w, theta))

    def _propagate(
        self, rows: slice, columns: slice, w: Array, theta: Array
    ) -> tuple[Array, Array]:
        """Return w and e after all layers."""
        e = w
        for number, (layer, near, far) in enumerate(self._layers):
            if number:
                theta = angle_of(w)
            with np.errstate(all="ignore"):
                w, h = layer.cosine_distances(rows, columns, w, theta)
                e = _gradient_cosine_distances(
                    near[rows], near[columns], far[rows], far[columns], w, e, h
                )
        self.require(np.isfinite(e).all(), "the kernel is not finite in float64")
        return w, e

    def require_resolved(self) -> None:
        """Raise `UnresolvedKernelError` if no cosine of the kernels is known to `RESOLVED`."""
        self.require(
            self.error <= RESOLVED, f"cosines of the kernel have errors up to {self.error:.2g}"
        )

    def require(self, condition: bool | np.bool_, problem: str) -> None:
        """Raise `UnresolvedKernelError` that tells a problem unless a condition holds."""
        if not condition:
            raise UnresolvedKernelError(
                f"{self._name}: {problem}, for samples as large as {np.abs(self.x).max():.3g}; "
                "scale the data to norms nearer 1"
            )

    def _cosines(self, rows: slice, columns: slice) -> Array:
        return np.asarray(np.clip(self._units[rows] @ self._units[columns].T, -1, 1))

    def _input_angles(self, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Return 1 - cos θ and θ, from differences where they are close or nearly opposite."""
        cosine = self._cosines(rows, columns)
        w, theta = 1 - cosine, np.arccos(cosine)
        i, j = np.nonzero(np.abs(cosine) > 1 - CLOSE)
        w[i, j], theta[i, j] = self._accurate_angles(i + rows.start, j + columns.start)
        return w, theta

    def _accurate_angles(self, i: Indices, j: Indices) -> tuple[Array, Array]:
        """Return 1 - cos θ and θ (k,) of rows ``i`` and ``j``, from their differences."""
        theta = np.empty(len(i))
        step = max(1, GATHERED // self.x.shape[1])
        for part in (slice(start, start + step) for start in range(0, len(i), step)):
            theta[part] = angles_between(self.x[i[part]], self.x[j[part]])
        return 2 * np.sin(theta / 2) ** 2, theta


def _gradient_cosine_distances(
    near: Array, near2: Array, far: Array, far2: Array, w: Array | float, e: Array, h: Array | float
) -> Array:
    """Return e', see the top of this module; near² = p and far² = 1 - p."""
    spread = np.subtract.outer(near, near2) ** 2
    spread += np.subtract.outer(far, far2) ** 2
    return np.asarray(
        spread / 2 + np.outer(near, near2) * w + np.outer(far, far2) * (e + h - e * h)
    )


def _with_error(layer: Dual, ends: Array) -> tuple[float, float]:
    """Return a cosine distance and its error, from a dual of an argument and of its ends."""
    value = float(ends[0, 0])
    return value, float(np.abs(ends - value).max()) + _error(layer, value)


def _error(layer: Dual, distance: float) -> float:
    """Return how far a layer's cosine distance may be off."""
    known = min(layer.error, layer.relative_error * distance) if distance else layer.error
    return known + ROUNDING * distance


def _samples(x: ArrayLike) -> Array:
    rows = np.asarray(x, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0:
        raise SamplesError(f"samples of shape {rows.shape}; give one sample per row")
    if not np.isfinite(rows).all():
        raise SamplesError("some features are infinite or not a number")
    return rows
