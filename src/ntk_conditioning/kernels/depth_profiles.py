"""Kernels of infinite width along depth, of samples of norm 1, in one pass over the layers.

The gain keeps norms of 1, so that a kernel is its diagonal times correlations that depend on the
input angle only, and one dual serves every layer. Correlations are carried as cosine distances, see
`infinite_network`, of each pair once, with their errors.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.spatial.distance import squareform

from ntk_conditioning.duals.closed_forms import pair_cosine_distances
from ntk_conditioning.kernels.infinite_network import (
    EPS,
    ROUNDING,
    InfiniteNetwork,
    SamplesError,
    resolved_dual,
)
from ntk_conditioning.networks.activations import Activation, Array

#: How far norms may be from 1.
UNIT = 1e-9


@dataclass(frozen=True)
class Correlations:
    """Correlations K_ij / K_11 of pairs, as ``distances`` from 1, and bounds on their ``errors``.

    They are arrays of one shape; for eigenvalues (n (n-1) / 2,), of the pairs i < j, row by row.
    """

    distances: Array
    errors: Array

    @property
    def error(self) -> float:
        """A bound on the error of all entries, by quadrature and rounding."""
        return float(np.max(self.errors)) + ROUNDING

    @property
    def pairs(self) -> Array:
        """The correlations, in the shape of the distances."""
        return 1 - self.distances

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


def layer_by_layer(activation: Activation, w: Array, theta: Array | None) -> Iterator[Kernels]:
    """Yield the kernels after 0, 1, 2, … layers for samples of norm 1 at angles θ, w = 1 - cos θ.

    w' and h are concave in w up to 1 and vanish with it, as the dual has no negative coefficient:
    so relative errors do not grow there. Beyond, h is no steeper at 2 - g than at g, and an error δ
    of w changes it by no more than h(δ).
    """
    layer = resolved_dual(
        activation, np.ones(1), network=f"{activation.name} along depth", x=np.ones((1, 1))
    )
    slope = float(layer.slopes[0] / layer.variances[0])
    share = 1.0  # of the last layer in the diagonal of the NTK
    e, w_error, e_error = w, np.zeros_like(w), np.zeros_like(w)

    def added(distance: Array) -> Array:
        known = np.minimum(layer.error, layer.relative_error * distance)
        return np.asarray(known + ROUNDING * distance)

    for depth in count():
        yield Kernels(depth, Correlations(w, w_error), Correlations(e, e_error))
        share = share / (share + slope)
        after, h = pair_cosine_distances(layer, w, theta)
        with np.errstate(divide="ignore", invalid="ignore"):
            at_error = pair_cosine_distances(layer, np.minimum(w_error, 1.0))[1]
            beyond = np.minimum(at_error, w_error / np.maximum(2 - w, EPS))
            moved = np.select([w > 1, w > 0], [beyond, h * w_error / w])
        w_error = slope * np.abs(1 - h) * w_error + added(after)
        e_error = np.abs(1 - h) * e_error + np.abs(1 - e) * (moved + added(h))
        e = share * after + (1 - share) * (e + h - e * h)
        e_error = share * w_error + (1 - share) * e_error + ROUNDING * e
        w, theta = after, None  # the angles are those of w, but of the first near 2


def along_depth(
    x: ArrayLike, *, depths: Iterable[int], activation: Activation | str
) -> Iterator[Kernels]:
    """Yield the kernels of infinite width of ``x`` (n, d) at ``depths``, ascending, in float64.

    Raises:
        SamplesError: if the norms of rows of ``x`` are not 1, or there are fewer than two, or a
            depth is negative.
        ZeroRowError, UnknownActivationError, UnresolvedKernelError: as
            `infinite_network.InfiniteNetwork`.

    >>> [layer] = along_depth([[1.0, 0.0], [0.0, 1.0]], depths=[1], activation="relu")
    >>> (layer.nngp.pairs * np.pi).round(12)
    array([1.])
    """
    wanted = set(depths)
    start = InfiniteNetwork(x, depth=min({0, *wanted}), activation=activation)
    norms = start.norms
    if len(norms) < 2:
        raise SamplesError("a single sample has no pair; give at least two")
    if np.abs(norms - 1).max() > UNIT:
        raise SamplesError(
            f"norms from {norms.min():g} to {norms.max():g}; scale the samples to norm 1 "
            "(scaling: unit_norm)"
        )
    pairs, every = np.triu_indices(len(norms), 1), slice(0, len(norms))
    w, theta = (distances[pairs] for distances in start.input_distances(every, every))
    layers = layer_by_layer(start.activation, w, theta)
    yield from (now for now in islice(layers, max(wanted, default=-1) + 1) if now.depth in wanted)
