"""Kernels of infinite width along depth, of samples of one norm, in one pass over the layers.

Samples of one norm stay of one norm, so that a kernel is its diagonal times correlations that
depend on the input angle only. Where a layer keeps the norm, as all do on the unit sphere by
gain² E σ(z)² = 1, one dual serves every layer.

Correlations are carried as cosine distances, see `infinite`, of each pair once. Their error is
followed from layer to layer. A distance after a layer is a concave function of the one before that
vanishes with it, as the dual has no negative coefficient in ρ: so relative errors do not grow, and
absolute ones, of distances up to 1, neither. Where the dual's slope is below 1 they shrink by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import squareform

from ntk_conditioning.duals.closed_forms import dual, pair_cosine_distances
from ntk_conditioning.kernels.infinite import EQUAL_NORMS, SamplesError, layer_at
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
# Rounding errors of a layer.
ROUNDING = 8 * EPS
# Pairs that go through a layer together: a few arrays of them fit the second-level cache.
PART = 2**14


@dataclass(frozen=True)
class Correlations:
    """Correlations K_ij / K_11 (n (n-1) / 2,) of the pairs i < j, row by row.

    ``error`` bounds that of an entry, by quadrature and rounding.
    """

    pairs: Array
    error: float

    @property
    def largest(self) -> float:
        """The largest absolute correlation."""
        return float(np.abs(self.pairs).max())

    @cached_property
    def eigenvalues(self) -> tuple[float, float]:
        """The smallest and the largest eigenvalue of K / K_11, both less 1.

        So they keep their digits where the kernel approaches the identity.
        """
        eigenvalues = scipy.linalg.eigvalsh(squareform(self.pairs), check_finite=False)
        return float(eigenvalues[0]), float(eigenvalues[-1])

    @property
    def eigenvalue_error(self) -> float:
        """A bound on the error of the eigenvalues: of the entries, by Weyl, and of the solver."""
        n = (1 + math.sqrt(1 + 8 * len(self.pairs))) / 2
        return n * (self.error + EPS * max(1.0, *map(abs, self.eigenvalues)))

    @property
    def excess(self) -> tuple[float, float] | None:
        """The condition number less 1 and its error, or None if λ_min is not above its own."""
        (low, high), error = self.eigenvalues, self.eigenvalue_error
        if 1 + low <= error:
            return None
        excess = (high - low) / (1 + low)
        return excess, float((high - low + 2 * error) / (1 + low - error) - excess)


@dataclass(frozen=True)
class Kernels:
    """Both kernels after ``depth`` hidden layers, over their diagonals, which are constant."""

    depth: int
    nngp: Correlations
    ntk: Correlations


def along_depth(
    x: ArrayLike, *, depths: Iterable[int], activation: Activation | str
) -> Iterator[Kernels]:
    """Yield the kernels of infinite width of ``x`` (n, d) at some depths, ascending.

    Raises:
        SamplesError: if the rows of ``x`` differ in norm, are fewer than two, or a depth is
            negative.
        ZeroRowError, UnknownActivationError: as `infinite.layer_at`.

    >>> [layer] = along_depth([[1.0, 0.0], [0.0, 1.0]], depths=[1], activation="relu")
    >>> (layer.nngp.pairs * np.pi).round(12)
    array([1.])
    """
    sigma = activations.get(activation) if isinstance(activation, str) else activation
    wanted = sorted(set(depths))
    start = layer_at(x, depth=min([0, *wanted]), activation=sigma)
    walk = _Walk(sigma, _one_square(start.x), start.matrix(lambda pairs: pairs.w))
    for before, depth in zip([0, *wanted], wanted, strict=False):
        for _ in range(depth - before):
            walk.step()
        yield Kernels(depth, *walk.correlations())


class _Walk:
    """Cosine distances ``w`` and ``e`` of both kernels (k + 1,); `step` adds a layer.

    The last is of a pair that is no pair of samples: its correlation in the input is the largest
    absolute one of all, and stays no smaller than theirs.
    """

    def __init__(self, activation: Activation, q: float, distances: Array) -> None:
        self._activation, self._q = activation, q
        w = distances[np.triu_indices(len(distances), 1)]
        self.w = np.append(w, np.minimum(w, 2 - w).min())
        self.e = self.w.copy()
        self._share = 1.0  # of the last layer in the diagonal of the NTK
        self._error = self._ntk_error = ROUNDING
        self._layer, self._made_for = dual(activation, np.array([q])), q

    def step(self) -> None:
        """Go through a layer."""
        q = self._q
        if abs(q - self._made_for) > EQUAL_NORMS * q:
            self._layer, self._made_for = dual(self._activation, np.array([q])), q
        self._q = float(self._layer.variances[0])
        below = float(self._layer.slopes[0]) * q / self._q
        share = self._share = self._share / (self._share + below)
        closest, added = self.w[-1], ROUNDING + self._layer.error
        for part in (slice(top, top + PART) for top in range(0, len(self.w), PART)):
            w, e = self.w[part], self.e[part]
            self.w[part], h = pair_cosine_distances(self._layer, w)
            self.e[part] = share * self.w[part] + (1 - share) * (e + h - e * h)
        near, far = float(h[-1]), float(self.e[-1])
        error = min(1.0, below * (1 - near)) * self._error + added
        shrunk = (1 - near) * self._ntk_error + (1 - far) * self._error / max(closest, EPS)
        self._ntk_error = (
            min(max(self._ntk_error, error), share * error + (1 - share) * shrunk) + added
        )
        self._error = error

    def correlations(self) -> tuple[Correlations, Correlations]:
        """Return those of both kernels."""
        return (
            Correlations(1 - self.w[:-1], self._error),
            Correlations(1 - self.e[:-1], self._ntk_error),
        )


def _one_square(x: Array) -> float:
    """Return the squared norm of all rows of ``x`` (n, d), at least two."""
    if len(x) < 2:
        raise SamplesError("a single sample has no pair; give at least two")
    norms = np.linalg.norm(x, axis=1)
    if norms.max() > norms.min() * (1 + EQUAL_NORMS):
        raise SamplesError(
            f"norms from {norms.min():g} to {norms.max():g}; scale the samples to one norm "
            "(scaling: unit_norm)"
        )
    return float(norms.mean() ** 2)
