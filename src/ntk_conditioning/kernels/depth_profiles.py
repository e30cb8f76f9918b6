"""Kernels of infinite width along depth, of samples of one norm, in one pass over the layers.

Samples of one norm stay of one norm, so that a kernel is its diagonal times correlations that
depend on the input angle only. Where a layer keeps the norm, as all do on the unit sphere by
gain² E σ(z)² = 1, one dual serves every layer.

Correlations are carried as cosine distances, see `infinite`, of each pair once. Their error is
followed from layer to layer. A distance after a layer is a concave function of the one before that
vanishes with it up to 1, as the dual has no negative coefficient in ρ: so relative errors do not
grow there, and absolute ones neither; see `error_near_2`. Where the dual's slope is below 1 they
shrink by it.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.spatial.distance import squareform

from ntk_conditioning.angles.pairs import spans
from ntk_conditioning.duals.closed_forms import Dual, angle_of, pair_cosine_distances
from ntk_conditioning.kernels.infinite_network import (
    EPS,
    EQUAL_NORMS,
    ROUNDING,
    InfiniteNetwork,
    SamplesError,
    resolved_dual,
)
from ntk_conditioning.networks.activations import Activation, Array

# Pairs that go through a layer together: a few arrays of them fit the second-level cache.
PART = 2**14


@dataclass(frozen=True)
class Correlations:
    """Correlations K_ij / K_11 of the pairs i < j, row by row, as ``distances`` from 1.

    ``distances`` are (n (n-1) / 2,); ``error`` bounds that of an entry, by quadrature and rounding.
    """

    distances: Array
    error: float

    @property
    def pairs(self) -> Array:
        """The correlations (n (n-1) / 2,)."""
        return 1 - self.distances

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
        n = (1 + math.sqrt(1 + 8 * len(self.distances))) / 2
        return n * (self.error + EPS * max(1.0, *map(abs, self.eigenvalues)))

    @property
    def excess(self) -> tuple[float, float] | None:
        """κ - 1 and its error, or None where the error exceeds κ."""
        (low, high), error = self.eigenvalues, self.eigenvalue_error
        if 1 + low <= error:
            return None
        excess = (high - low) / (1 + low)
        known = float((high - low + 2 * error) / (1 + low - error) - excess)
        return (excess, known) if known <= 1 + excess else None


@dataclass(frozen=True)
class Kernels:
    """Both kernels after ``depth`` hidden layers, over their diagonals, which are constant."""

    depth: int
    nngp: Correlations
    ntk: Correlations


def along_depth(
    x: ArrayLike, *, depths: Iterable[int], activation: Activation | str
) -> Iterator[Kernels]:
    """Yield the kernels of infinite width of ``x`` (n, d) at ``depths``, ascending, in float64.

    Raises:
        SamplesError: if the rows of ``x`` differ in norm, are fewer than two, or a depth is
            negative.
        ZeroRowError, UnknownActivationError, UnresolvedKernelError: as
            `infinite_network.InfiniteNetwork`.

    >>> [layer] = along_depth([[1.0, 0.0], [0.0, 1.0]], depths=[1], activation="relu")
    >>> (layer.nngp.pairs * np.pi).round(12)
    array([1.])
    """
    wanted = set(depths)
    start = InfiniteNetwork(x, depth=min({0, *wanted}), activation=activation)
    norm, w, theta = _pairs_of_one_norm(start)
    e = w.copy()
    error = ntk_error = ROUNDING
    q = q_of_layer = norm**2
    sigma, network = start.activation, f"{start.activation.name} along depth"
    layer = resolved_dual(sigma, np.array([q]), network=network, x=start.x)
    share = 1.0  # of the last layer in the diagonal of the NTK
    deepest = max(wanted, default=-1)
    for depth in range(deepest + 1):
        if depth in wanted:
            nngp = Correlations(w[:-1].copy(), error)
            ntk = Correlations(e[:-1].copy(), ntk_error)
            yield Kernels(depth, nngp, ntk)
        if depth == deepest:
            return
        if abs(q - q_of_layer) > EQUAL_NORMS * q:
            layer = resolved_dual(sigma, np.array([q]), network=network, x=start.x)
            q_of_layer = q
        below = float(layer.slopes[0]) * q / float(layer.variances[0])
        q = float(layer.variances[0])
        share = share / (share + below)
        closest, added = w[-1], ROUNDING + layer.error
        bent = error_near_2(layer, w, error) if depth else 0.0  # the first has θ itself
        for part in spans(len(w), PART):
            angles = angle_of(w[part]) if depth else theta[part]
            w[part], h = pair_cosine_distances(layer, w[part], angles)
            e[part] = share * w[part] + (1 - share) * (e[part] + h - e[part] * h)
        near, far = float(h[-1]), float(e[-1])
        next_error = min(1.0, below * (1 - near)) * error + added
        shrunk = (1 - near) * ntk_error + (1 - far) * error / max(closest, EPS)
        mixed = share * next_error + (1 - share) * shrunk
        ntk_error = min(max(ntk_error, next_error) + bent, mixed) + added
        error = next_error


def _pairs_of_one_norm(start: InfiniteNetwork) -> tuple[float, Array, Array]:
    """Return the samples' norm, and the cosine distances and angles of the pairs i < j.

    The last is of a pair that is no pair of samples: its correlation is the largest absolute one of
    all, and stays no smaller than theirs.
    """
    norms = np.linalg.norm(start.x, axis=1)
    if len(norms) < 2:
        raise SamplesError("a single sample has no pair; give at least two")
    if norms.max() > norms.min() * (1 + EQUAL_NORMS):
        raise SamplesError(
            f"norms from {norms.min():g} to {norms.max():g}; scale the samples to one norm "
            "(scaling: unit_norm)"
        )
    pairs = np.triu_indices(len(norms), 1)
    w = start.matrix_of_inputs(lambda _rows, _columns, w, _theta: w)[pairs]
    theta = start.matrix_of_inputs(lambda _rows, _columns, _w, theta: theta)[pairs]
    w = np.append(w, np.minimum(w, 2 - w).min())
    return float(norms.mean()), w, np.append(theta, angle_of(w[-1]))


def error_near_2(layer: Dual, w: Array, error: float) -> float:
    """Return by how much h is off for distances above 1 that are off by ``error``.

    There h is not concave. As its dual has no negative coefficient, it is no steeper at 2 - g than
    at g, and changes by no more than h(error).
    """
    gap = 2 - float(w.max())
    if gap > 1:
        return 0.0
    (at_gap, at_error) = pair_cosine_distances(layer, np.array([max(gap, EPS), error]))[1]
    return float(min(at_error, error * at_gap / max(gap, EPS)))
