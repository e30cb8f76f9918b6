"""Kernels of fully connected networks of infinite width, and the smallest angle between gradients.

`infinite_network` says which network it is and how they are computed.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning.angles.pairs import MinAngle, find_duplicates, require_directions
from ntk_conditioning.duals.closed_forms import angle_of
from ntk_conditioning.kernels.infinite_network import (
    EQUAL_NORMS,
    ROUNDING,
    InfiniteNetwork,
    SamplesError,
    UnresolvedKernelError,
    samples_of,
)
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation, Array

__all__ = [
    "InfiniteNetwork",
    "SamplesError",
    "UnresolvedKernelError",
    "gradient_angles",
    "min_angle",
    "nngp",
    "ntk",
]

# The error of a smallest angle may be this part of it, or the angle that float64 cosines resolve.
RESOLVED = 1e-3
COSINE_RESOLUTION = 1e-8


def nngp(
    x: ArrayLike,
    x2: ArrayLike | None = None,
    *,
    depth: int,
    activation: Activation | str,
    **scales: Any,
) -> Array:
    """Return the covariance Σ^(L) (n, n2) of the last hidden layer's embeddings, in float64.

    It is the NNGP kernel of infinite width. Arguments and errors are those of `ntk`.

    >>> nngp([[3.0, 4.0]], depth=2, activation="relu").round(12)
    array([[25.]])
    """
    return InfiniteNetwork(x, x2, depth=depth, activation=activation, **scales).nngp


def ntk(
    x: ArrayLike,
    x2: ArrayLike | None = None,
    *,
    depth: int,
    activation: Activation | str,
    **scales: Any,
) -> Array:
    """Return the neural tangent kernel Θ^(L) (n, n2) of infinite width, as a float64 array.

    By the recursion at the top of `infinite_network` (Jacot, Gabriel & Hongler 2018, Theorem 1).
    For ReLU, Θ_ij = (L+1) |x_i||x_j| cos φ_ij (liu2023relu, Theorem 4.4).

    ``x`` (n, d) and ``x2`` (n2, d) hold one sample per row, as arrays, lists or tensors on any
    device; no row may be zero. Without ``x2`` it is ``x``, and the result is exactly symmetric.
    ``depth`` is L, the number of hidden layers; depth 0 gives the Gram matrix. ``activation`` is an
    `Activation` or a name that `activations.get` knows. Inputs are not divided by √d: entries grow
    with |x_i||x_j|. ``scales`` are ``bias_scale`` β, by default 0, and ``branch_scale`` s of a
    residual network, for deep ones about 1 / √L: see `infinite_network`. For ReLU each block then
    multiplies Σ_ii by 1 + s², and Θ_ii = (2 + L s² / (1 + s²)) Σ_ii.

    Raises:
        SamplesError: if ``x`` or ``x2`` is no finite matrix, or ``depth`` is negative or not whole.
        ZeroRowError: if a sample is zero.
        UnknownActivationError: if ``activation`` names none.
        UnresolvedKernelError: if the kernel leaves the range of float64, or its cosines are not
            known to `TOLERATED`.
        NotEnoughMemoryError: if the kernel, 8 n n2 bytes, exceeds the available memory.

    >>> ntk([[1.0, 0.0], [0.0, 2.0]], depth=1, activation="relu").round(6)
    array([[2.     , 0.63662],
           [0.63662, 8.     ]])
    >>> ntk([[1.0, 0.0]], depth=2, activation="relu", branch_scale=1.0).round(12)
    array([[12.]])
    """
    return InfiniteNetwork(x, x2, depth=depth, activation=activation, **scales).ntk


def gradient_angles(
    x: ArrayLike, x2: ArrayLike | None = None, *, depth: int, activation: Activation | str
) -> Array:
    """Return the angles φ (n, n2) between model gradients, in radians and float64.

    cos φ_ij = Θ_ij / √(Θ_ii Θ_jj); arguments and errors are those of `ntk`. Small angles keep their
    digits: relative errors are about 1e-15 for the leaky ReLUs and erf. Angles near π, which only
    odd activations and depth 0 have, are right to 1e-8.

    >>> float(gradient_angles([[1.0, 0.0], [1.0, 1e-9]], depth=0, activation="relu")[0, 1])
    1e-09
    """
    network = InfiniteNetwork(x, x2, depth=depth, activation=activation)
    return network.matrix(lambda _rows, _columns, _w, e: angle_of(e))


def min_angle(
    x: ArrayLike, *, depth: int, activation: Activation | str, exclude_duplicates: bool = False
) -> MinAngle:
    """Return the smallest angle between the model gradients of two rows of ``x`` (n, d).

    All pairs are screened, in tiles: no n × n array is formed. The ``candidates`` are computed in
    full, all pairs where norms matter. The ``error``, in radians, is of the duals and rounding.
    Equal rows have angle 0 and are counted; ``exclude_duplicates`` keeps the first of each. Of
    equal angles the lowest pair is returned.

    Raises:
        ZeroRowError, SamplesError, UnknownActivationError: as `ntk`, or if there are fewer than two
            (different) rows.
        UnresolvedKernelError: as `ntk`, or if cosines are not known to `RESOLVED`, or if the error
            is above `RESOLVED` of the angle, and above `COSINE_RESOLUTION`.

    >>> closest = min_angle([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]], depth=0, activation="relu")
    >>> closest.i, closest.j, round(closest.degrees, 6)
    (1, 2, 36.869898)
    """
    rows = samples_of(x)
    require_directions(rows)
    duplicates = find_duplicates(rows)
    if duplicates.examples and not exclude_duplicates:
        return MinAngle(0.0, *duplicates.examples[0], duplicates.pairs, candidates=0, error=0.0)
    kept = duplicates.first
    if len(kept) < 2:
        raise SamplesError(f"{len(kept)} different samples have no pair; give at least two")
    network = InfiniteNetwork(rows[kept], depth=depth, activation=activation)
    network.require_cosines(RESOLVED)
    # norms enter, and their rounding, unless they are equal or σ is homogeneous
    equal = np.ptp(network.norms) <= EQUAL_NORMS * network.norms.min()
    inputs_decide = depth == 0 or network.activation.homogeneous or equal
    closest = _of_closest_inputs(network) if inputs_decide else None
    (e, i, j), candidates = closest or _of_all_pairs(network)
    off = min(network.error, network.relative_error * e) + (depth + 1) * ROUNDING * e
    angle, low = angle_of(np.array([e, max(e - off, 0.0)])).tolist()
    error = angle - low + (0.0 if inputs_decide else depth * ROUNDING)
    network.require(
        error <= max(RESOLVED * angle, COSINE_RESOLUTION),
        f"the smallest angle is known to {math.degrees(error):.2g} degrees only",
    )
    i, j = kept[[i, j]].tolist()
    return MinAngle(angle, i, j, duplicates.pairs, candidates, error)


Closest = tuple[tuple[float, int, int], int]


def _of_closest_inputs(network: InfiniteNetwork) -> Closest | None:
    """Return the smallest e, its rows, and how many pairs were computed, if inputs decide it.

    Norms do not enter here. Then e depends on the input angle only and increases with it up to 90
    degrees: 1 - e is a power series in cos θ without negative coefficients (Daniely, Frostig &
    Singer 2016, Lemma 11). So the closest samples have it, unless e is smaller at an angle beyond.
    Angles of inputs are those of gradients of the linear model.
    """
    import torch  # which takes seconds, and kernels do without

    from ntk_conditioning.angles import smallest_angle
    from ntk_conditioning.networks.mlp import MLP

    weight = torch.ones(1, network.x.shape[1], dtype=torch.float64)
    linear = MLP((weight,), activations.get("linear"))
    inputs = smallest_angle.min_angle(linear, torch.from_numpy(network.x))
    theta = np.array([inputs.angle, *np.linspace(math.pi / 2, math.pi, 257)])[:, None]
    one, w = slice(0, 1), 2 * np.sin(theta / 2) ** 2
    e, *beyond = network.propagate(one, one, w, theta)[1].ravel().tolist()
    return ((e, inputs.i, inputs.j), inputs.candidates) if e <= min(beyond) else None


def _of_all_pairs(network: InfiniteNetwork) -> Closest:
    """Return the smallest e, its rows, and the number of pairs."""
    best, n = (math.inf, -1, -1), len(network.x)
    for rows, columns, _, e in network.tiles():
        if rows == columns:
            e[np.tril_indices(len(e))] = math.inf
        i, j = divmod(int(np.argmin(e)), e.shape[1])
        best = min(best, (float(e[i, j]), rows.start + i, columns.start + j))
    return best, n * (n - 1) // 2
