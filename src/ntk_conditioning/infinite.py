"""Kernels of fully connected networks of infinite width, by recursion over layers.

A layer of width m computes gain / sqrt(m) · σ(W α), α⁰ = x, and f = W α^(L): the NTK
parameterisation without biases of liu2023relu, Eqs. (1) and (3). Depth L counts hidden layers.

The recursion carries 1 - cos θ and the angle θ itself. The usual way, the arccosine of a rounded
cosine, loses half of the digits of a small angle, and with them the smallest eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import activations
from ntk_conditioning.activations import Activation, gaussian_rule
from ntk_conditioning.angles import MinAngle, find_duplicates, require_directions, upper_tiles
from ntk_conditioning.duals import (
    angle_of,
    dual,
    gradient_deficit,
    variances_after,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Layer:
    """The state after a layer: angles between embeddings, their variances, and the gradient's.

    ``w`` is 1 - cos θ and ``theta`` θ, (n, n'); ``q`` and ``q2`` are squared norms of the
    embeddings (n,), (n',). ``deficit`` is l + 1 - P for homogeneous activations, where P (n, n')
    is the NTK over |x||x'|. ``error`` is what tabulated duals may have added to entries of ``ntk``
    and ``nngp``, relative to the largest; 0 for closed forms.
    """

    w: Array
    theta: Array
    q: Array
    q2: Array
    ntk: Array
    deficit: Array | None
    error: float

    @property
    def nngp(self) -> Array:
        """The covariance Σ^(l) (n, n') of the embeddings."""
        return np.asarray(np.sqrt(self.q[:, None] * self.q2) * (1 - self.w))


def _activation(activation: Activation | str) -> Activation:
    return activations.get(activation) if isinstance(activation, str) else activation


def input_angles(x: Array, x2: Array | None = None) -> tuple[Array, Array]:
    """Return 1 - cos θ and θ (n, n') between the rows of ``x`` and of ``x2`` (or of ``x``).

    Angles near 0 and π come from the component of the one row orthogonal to the other, with
    relative errors of eps for each; all others from the cosine.

    Raises:
        ZeroRowError: if a row is zero.
    """
    same = x2 is None
    x2 = x if x2 is None else x2
    require_directions(x)
    require_directions(x2)
    norms, norms2 = np.linalg.norm(x, axis=1), np.linalg.norm(x2, axis=1)
    cosine = np.clip((x @ x2.T) / norms[:, None] / norms2, -1, 1)
    w = 1 - cosine
    theta = angle_of(w)
    close = np.abs(cosine) > 1 - 1e-3
    if same:
        np.fill_diagonal(close, False)
        np.fill_diagonal(w, 0)
        np.fill_diagonal(theta, 0)
    rows, columns = np.nonzero(close)
    for start in range(0, len(rows), 4096):
        i, j = rows[start : start + 4096], columns[start : start + 4096]
        sign = np.sign(cosine[i, j])
        angle = _close_angles(x[i], sign[:, None] * x2[j])
        theta[i, j] = np.where(sign > 0, angle, math.pi - angle)
        w[i, j] = np.where(sign > 0, 2 * np.sin(angle / 2) ** 2, 2 * np.cos(angle / 2) ** 2)
    return w, theta


def _close_angles(a: Array, b: Array) -> Array:
    """Return the angles (k,) between nearly parallel rows, from their difference."""
    difference = b - a
    squared = np.einsum("kd,kd->k", a, a)
    along = np.einsum("kd,kd->k", a, difference) / squared
    across = np.linalg.norm(difference - along[:, None] * a, axis=1)
    return np.asarray(np.arctan2(across, np.sqrt(squared) * (1 + along)))


def layers(x: Array, x2: Array | None = None, *, activation: Activation | str) -> Iterator[Layer]:
    """Yield the state after 0, 1, 2, … hidden layers, without end.

    liu2023relu, Theorem 4.1 and Eq. (10), for ReLU; for any activation
    Θ^(l) = Σ^(l) + Θ^(l-1) Σ'^(l) (Jacot et al. 2018).
    """
    sigma = _activation(activation)
    w, theta = input_angles(x, x2)
    q = np.einsum("nd,nd->n", x, x)
    q2 = q if x2 is None else np.einsum("nd,nd->n", x2, x2)
    covariance = np.sqrt(q[:, None] * q2) * (1 - w)
    homogeneous = sigma.negative_slope is not None
    layer = Layer(w, theta, q, q2, covariance, w if homogeneous else None, 0.0)
    depth = 0
    while True:
        yield layer
        depth += 1
        step = dual(sigma, layer.w, layer.theta, layer.q, layer.q2)
        w = step.radial + layer.w * step.fall
        if x2 is None:
            np.fill_diagonal(w, 0)
        theta = angle_of(w)
        q = variances_after(sigma, layer.q)
        q2 = q if x2 is None else variances_after(sigma, layer.q2)
        norms = np.sqrt(q[:, None] * q2)
        ntk, deficit = norms * (1 - w) + layer.ntk * (1 - step.loss), None
        if layer.deficit is not None:
            deficit = gradient_deficit(layer.deficit, w, step.loss, depth)
            ntk = norms * (depth + 1 - deficit)
        layer = Layer(w, theta, q, q2, ntk, deficit, layer.error + step.error)


def layer_at(
    x: Array, x2: Array | None = None, *, depth: int, activation: Activation | str
) -> Layer:
    """Return the state after ``depth`` hidden layers: both kernels and their error."""
    if depth < 0:
        raise ValueError(f"depth {depth} is negative; it counts hidden layers")
    return next(islice(layers(x, x2, activation=activation), depth, None))


def nngp(x: Array, x2: Array | None = None, *, depth: int, activation: Activation | str) -> Array:
    """Return the covariance Σ^(L) (n, n') of the last embedding; depth 0 is the Gram matrix."""
    return layer_at(x, x2, depth=depth, activation=activation).nngp


def ntk(x: Array, x2: Array | None = None, *, depth: int, activation: Activation | str) -> Array:
    """Return the NTK Θ^(L) (n, n') of infinite width, all layers trained.

    For ReLU this is |x||x'| (L+1) cos φ with φ of liu2023relu, Theorem 4.4.

    >>> import numpy as np
    >>> x = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> np.round(ntk(x, depth=1, activation="relu"), 6).tolist()
    [[2.0, 0.63662], [0.63662, 8.0]]
    """
    return layer_at(x, x2, depth=depth, activation=activation).ntk


def gradient_angles(
    x: Array, x2: Array | None = None, *, depth: int, activation: Activation | str
) -> Array:
    """Return the angles φ (n, n') in radians between model gradients.

    For the leaky ReLUs and the identity, tiny angles have a relative error of about eps; for other
    activations the absolute error is about 1e-7, for φ comes from its cosine.
    """
    return angle_of(_gradient_w(x, x2, depth=depth, activation=activation))


def _gradient_w(x: Array, x2: Array | None, *, depth: int, activation: Activation | str) -> Array:
    layer = layer_at(x, x2, depth=depth, activation=activation)
    if layer.deficit is not None:
        return layer.deficit / (depth + 1)
    own, own2 = (_diagonal(rows, depth, activation) for rows in (x, x if x2 is None else x2))
    w = np.maximum(0, 1 - layer.ntk / np.sqrt(own[:, None] * own2))
    if x2 is None:
        np.fill_diagonal(w, 0)
    return w


def _diagonal(x: Array, depth: int, activation: Activation | str) -> Array:
    """Return the diagonal (n,) of the NTK."""
    sigma = _activation(activation)
    z, weights = gaussian_rule()
    q = np.einsum("nd,nd->n", x, x)
    total = q
    for _ in range(depth):
        slope = sigma.gain**2 * sigma.slopes(np.sqrt(q)[:, None] * z) ** 2 @ weights
        q = variances_after(sigma, q)
        total = q + total * slope
    return np.asarray(total)


def min_angle(
    x: Array,
    *,
    depth: int,
    activation: Activation | str,
    tile: int = 1024,
    exclude_duplicates: bool = False,
) -> MinAngle:
    """Return the smallest angle between model gradients of two rows of ``x`` (n, d).

    All pairs are gone through in tiles, so that memory is O(tile²). Pairs of equal rows have
    angle 0 and are counted; they are left out with ``exclude_duplicates``.

    Raises:
        ZeroRowError: if a row is zero.
        ValueError: if fewer than two rows remain.
    """
    duplicates = find_duplicates(x)
    if duplicates.example and not exclude_duplicates:
        i, j = duplicates.example
        return MinAngle(0.0, i, j, duplicates.pairs, 0)
    rows = duplicates.first
    if len(rows) < 2:
        raise ValueError(f"an angle needs two distinct samples, and there are {len(rows)}")
    best, pair = math.inf, (0, 1)
    for r, c in upper_tiles(len(rows), tile):
        same = None if r == c else x[rows[c]]
        w = _gradient_w(x[rows[r]], same, depth=depth, activation=activation)
        if r == c:
            w[np.tril_indices(len(w))] = math.inf
        i, j = divmod(int(np.argmin(w)), w.shape[1])
        if w[i, j] < best:
            best, pair = float(w[i, j]), (r.start + i, c.start + j)
    angle = float(angle_of(np.array(best)))
    return MinAngle(angle, int(rows[pair[0]]), int(rows[pair[1]]), duplicates.pairs, 0)
