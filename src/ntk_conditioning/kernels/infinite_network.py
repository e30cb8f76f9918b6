"""A fully connected network of infinite width on given samples, and its kernels.

It is that of liu2023relu, Eqs. (1) and (3), with any activation, or with biases and branches. With
weights N(0, 1), all trained, m units per layer, gain g of the activation and biases of scale β,

    u^(0) = W_0 x + β b_0,   B_l(u) = g / sqrt(m) · V_l σ(u) + β b_l,

- plain: u^(l) = B_l(u^(l-1)), and the output is f = u^(L), the last V_L having a single row;
- residual, branches of scale s: u^(l) = u^(l-1) + s B_l(u^(l-1)), f = w · u^(L) / sqrt(m) + β b.

Depth L counts the nonlinear layers. With (u, v) ~ N(0, Σ) (Jacot, Gabriel & Hongler 2018,
Theorem 1), from Σ = Θ = x·x' + β²,

    Σ_B = g² E σ(u)σ(v) + β²,   Θ_B = Σ_B + g² Θ E σ'(u)σ'(v),
    plain:     Σ' = Σ_B,           Θ' = Θ_B,
    residual:  Σ' = Σ + s² Σ_B,    Θ' = Θ + s² Θ_B,   and Σ_f = Σ + β², Θ_f = Θ + Σ_f at the end.

All are sums of kernels, carried as diagonals and cosine distances w = 1 - K_ij / √(K_ii K_jj). If
K = Σ_k K_k and a_k² = (K_k)_ii / K_ii, then w = Σ_k (a_k(i) - a_k(j))² / 2 + a_k(i) a_k(j) w_k, and
no term is negative. So tiny angles come out right, and with them the smallest eigenvalues for close
samples, where a cosine would have been rounded to 1.
"""

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning import memory
from ntk_conditioning.angles import pairs
from ntk_conditioning.angles.directions import angles_between
from ntk_conditioning.angles.pairs import spans, upper_tiles
from ntk_conditioning.duals.closed_forms import Dual, angle_of, dual
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import TOLERATED, Activation, Array

EPS = float(np.finfo(np.float64).eps)
# Side of the tiles in which kernels are computed: a few arrays of it fit the second-level cache.
TILE = 256
# Pairs whose cosine is this near to ±1 get their angle from their difference. The cosines of all
# others give angles that are right to about 1e-14.
CLOSE = 1e-3
# Entries of the arrays in which rows of close pairs are gathered, to bound the memory.
GATHERED = 2**20
# Norms are equal if they differ by no more than rounding, relatively.
EQUAL_NORMS = 1e-13
# Relative rounding of a layer's cosine distances, and of those of the samples.
ROUNDING = 8 * EPS


class UnresolvedKernelError(UserError):
    """Samples are so large or small that the kernel, or an angle from it, has no right digits."""

    def __init__(self, problem: str, *, network: str, x: Array) -> None:
        super().__init__(
            f"{network}: {problem}, for samples with entries up to {np.abs(x).max():.3g}; "
            "scale the data to norms nearer 1, and all to one norm if σ has kinks away from 0"
        )


class SamplesError(UserError):
    """The samples are no finite matrix or too few, or the depth is negative."""


class InfiniteNetwork:
    """The network of infinite width on given samples, after ``depth`` hidden layers.

    Arguments and errors are those of `infinite.ntk`; results are in float64. ``error`` sums the
    duals' errors relative to the largest entries, ``relative_error`` those to cosine distances.
    """

    def __init__(
        self,
        x: ArrayLike,
        x2: ArrayLike | None = None,
        *,
        depth: int,
        activation: Activation | str,
        branch_scale: float | None = None,
        bias_scale: float = 0.0,
    ) -> None:
        branch = 1.0 if branch_scale is None else branch_scale
        if not hasattr(depth, "__index__") or depth < 0:
            raise SamplesError(f"depth {depth!r} is negative or not whole; it counts hidden layers")
        self.x = samples_of(x)
        self.activation = activations.get(activation)
        self._name = f"{self.activation.name} at depth {depth}"
        self._split = None if x2 is None else len(self.x)  # where x2 begins
        if x2 is not None:
            others = samples_of(x2)
            if others.shape[1] != self.x.shape[1]:
                raise SamplesError(
                    f"x has {self.x.shape[1]} features and x2 {others.shape[1]}; give them the same"
                )
            self.x = np.concatenate([self.x, others])
        pairs.require_directions(self.x)
        with np.errstate(over="ignore"):
            q = np.einsum("nd,nd->n", self.x, self.x)
        in_range = np.isfinite(q) & (q >= np.finfo(np.float64).tiny)
        self.require(in_range.all(), "squared norms leave float64's range")
        self.norms, self._biased = np.sqrt(q), bias_scale != 0
        self._build(q, depth, float(branch_scale is not None), branch * branch, bias_scale**2)
        self.error = math.fsum(layer.error for layer, _, _ in self._layers)
        self.relative_error = math.fsum(layer.relative_error for layer, _, _ in self._layers)
        self.require_cosines(TOLERATED)

    def _build(self, q: Array, depth: int, kept: float, branch: float, bias: float) -> None:
        """Set layers and sums; ``kept`` is 1 in residual networks, ``branch`` s², ``bias`` β²."""
        biases = np.full_like(q, bias)
        self._input = Sum(q, biases)
        q = diagonal = self._input.total  # the diagonals of Σ and Θ
        self._layers: list[tuple[Dual, Sum, Sum]] = []
        for _ in range(depth):
            layer = resolved_dual(self.activation, q, network=self._name, x=self.x)
            with np.errstate(all="ignore"):
                added, below = branch * layer.variances, branch * layer.slopes * diagonal
                covariance = Sum(added, branch * biases, kept * q)
                tangent = Sum(added, below, branch * biases, kept * diagonal)
            self._layers.append((layer, covariance, tangent))
            q, diagonal = covariance.total, tangent.total
        self._output = Sum(q, kept * biases), Sum(diagonal, kept * q, kept * biases)

    @cached_property
    def nngp(self) -> Array:
        """The covariance Σ_f (n, n2): of a plain network, that of the last layer's embeddings."""
        norms = np.sqrt(self._output[0].total)
        return self.matrix(lambda r, c, w, _: np.outer(norms[r], norms[c]) * (1 - w))

    @cached_property
    def ntk(self) -> Array:
        """The neural tangent kernel Θ_f (n, n2)."""
        norms = np.sqrt(self._output[1].total)
        return self.matrix(lambda r, c, _, e: np.outer(norms[r], norms[c]) * (1 - e))

    def matrix(self, entry: Callable[[slice, slice, Array, Array], Array]) -> Array:
        """Return the matrix (n, n2) of ``entry(rows, columns, w, e)``, computed tile by tile.

        Without x2 it is exactly symmetric.
        """
        n, n2 = (self._split, len(self.x) - self._split) if self._split else [len(self.x)] * 2
        memory.require(8 * n * n2, f"a kernel of {n:,} × {n2:,} samples")
        result = np.empty((n, n2))
        for rows, columns, w, e in self.tiles():
            block = entry(rows, columns, w, e)
            if self._split:
                result[rows, columns.start - n : columns.stop - n] = block
            else:
                set_symmetric(result, rows, columns, block)
        return result

    def tiles(self) -> Iterator[tuple[slice, slice, Array, Array]]:
        """Yield rows, columns, and cosine distances w of embeddings and e of gradients of tiles.

        Without x2 they cover the upper triangle.
        """
        tiles = upper_tiles(len(self.x), TILE)
        if self._split:
            tiles = product(spans(self._split, TILE), spans(len(self.x), TILE, start=self._split))
        for rows, columns in tiles:
            inputs = self.input_distances(rows, columns)
            yield rows, columns, *self.propagate(rows, columns, *inputs)

    def require_cosines(self, tolerated: float) -> None:
        """Raise `UnresolvedKernelError` if the cosines of the kernels have larger errors."""
        require_cosines(self.error, network=self._name, x=self.x, tolerated=tolerated)

    def require(self, condition: bool | np.bool_, problem: str) -> None:
        """Raise `UnresolvedKernelError` with this problem unless a condition holds."""
        if not condition:
            raise UnresolvedKernelError(problem, network=self._name, x=self.x)

    def input_distances(self, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Return 1 - cos θ and θ of a tile of samples, from differences if close to 0 or π."""
        left, right = (self.x[part] / self.norms[part, None] for part in (rows, columns))
        cosine = np.clip(left @ right.T, -1, 1)
        w, theta = 1 - cosine, np.arccos(cosine)
        close = np.nonzero(np.abs(cosine) > 1 - CLOSE)
        for part in spans(len(close[0]), max(1, GATHERED // self.x.shape[1])):
            i, j = (index[part] for index in close)
            theta[i, j] = angles_between(self.x[rows][i], self.x[columns][j])
            w[i, j] = 2 * np.sin(theta[i, j] / 2) ** 2
        return w, theta

    def propagate(self, rows: slice, columns: slice, w: Array, theta: Array) -> tuple[Array, Array]:
        """Return w and e of the outputs, for pairs of a tile at angles θ, w = 1 - cos θ."""
        at = rows, columns
        with np.errstate(all="ignore"):
            w = e = self._input.distance(*at, w, 0)
            for number, (layer, covariance, tangent) in enumerate(self._layers):
                if number or self._biased:  # else θ says more than w near 2
                    theta = angle_of(w)
                after, h = layer.cosine_distances(rows, columns, w, theta)
                e = tangent.distance(*at, after, e + h - e * h, 0, e)
                w = covariance.distance(*at, after, 0, w)
            covariance, tangent = self._output
            w, e = covariance.distance(*at, w, 0), tangent.distance(*at, e, w, 0)
        self.require(np.isfinite(e).all(), "the kernel is not finite in float64")
        return w, e


class Sum:
    """A sum of kernels whose diagonals (n,) are given, some of them 0; ``total`` is its own."""

    def __init__(self, *diagonals: Array) -> None:
        self.total = np.asarray(sum(diagonals))
        with np.errstate(invalid="ignore"):  # what is not finite is refused with the kernel
            self.roots = [np.sqrt(diagonal / self.total) for diagonal in diagonals]
        self._terms = [k for k, diagonal in enumerate(diagonals) if diagonal.any()]

    def distance(self, rows: slice, columns: slice, *distances: Array | float) -> Array:
        """Return the sum's cosine distances of a tile from those of its terms."""
        if len(self._terms) == 1:
            return np.asarray(distances[self._terms[0]])
        terms = []
        for k in self._terms:
            left, right = self.roots[k][rows, None], self.roots[k][columns]
            terms.append(left * right * distances[k] + (left - right) ** 2 / 2)
        return np.asarray(sum(terms))


def set_symmetric(k: Array, rows: slice, columns: slice, block: Array) -> None:
    """Set a block of a matrix and its mirror; on the diagonal the upper triangle counts."""
    if rows == columns:
        block = np.triu(block) + np.triu(block, 1).T
    k[rows, columns], k[columns, rows] = block, block.T


def samples_of(x: ArrayLike, *, ndim: int = 2, form: str = "one sample per row") -> Array:
    """Return an array or tensor in float64; `SamplesError` unless it has finite numbers in a form.

    ``form`` says what its ``ndim`` axes are.
    """
    given = np.asarray(x.numpy(force=True) if hasattr(x, "numpy") else x)
    if given.dtype.kind not in "biuf":
        raise SamplesError(f"the samples are of type {given.dtype}; give real numbers")
    if given.ndim != ndim or given.size == 0:
        raise SamplesError(f"samples of shape {given.shape}; give {form}")
    if not np.isfinite(given).all():
        raise SamplesError("some features are infinite or not a number")
    return given.astype(np.float64, copy=False)


def resolved_dual(activation: Activation, q: Array, *, network: str, x: Array) -> Dual:
    """Return the next layer of a network of samples ``x``, for embeddings of squared norms ``q``.

    Raises `UnresolvedKernelError` as `require_cosines`, so that no further layer is tabulated.
    """
    with np.errstate(all="ignore"):  # of what is not finite, the errors are infinite
        layer = dual(activation, q)
    require_cosines(layer.error, network=network, x=x)
    return layer


def require_cosines(error: float, *, network: str, x: Array, tolerated: float = TOLERATED) -> None:
    """Raise `UnresolvedKernelError` if a network's cosines are wrong by more than is tolerated."""
    if not error <= tolerated:
        problem = f"cosines of the kernel have errors up to {error:.2g}"
        raise UnresolvedKernelError(problem, network=network, x=x)
