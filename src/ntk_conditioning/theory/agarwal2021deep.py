"""What agarwal2021deep proves of normalised activations, as functions to compare with.

Agarwal, Awasthi & Kale 2021, "A deep conditioning treatment of neural networks". A normalised
activation has E σ(z) = 0 and E σ(z)² = 1 for z ~ N(0, 1) (Eq. (2)); μ = 1 - (E z σ(z))² in (0, 1]
is its coefficient of non-linearity (Definition 2). Samples have norm 1, and separation δ means

    |x_i · x_j| <= 1 - δ for i != j (Assumption A), or lambda_min(X Xᵀ) >= δ (Assumption B).

Depth L counts hidden layers. The kernel of the top layer, K̄, has a diagonal of ones; bounds on the
NTK are relative to its diagonal. All bounds hold at infinite width.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ntk_conditioning.theory import DomainError

Array = NDArray[np.float64]


def separating_depth(delta: float, mu: float) -> int:
    """Return L_0(δ), the layers after which correlations are at most 1/2 (before Theorem 3).

    >>> separating_depth(0.5, 1.0), separating_depth(0.01, 1.0)
    (0, 10)
    """
    _check(delta, mu)
    return max(0, math.ceil(math.log(1 / (2 * delta)) / math.log1p(mu / 2)))


def correlation_bound(depth: ArrayLike, delta: float, mu: float) -> Array:
    """Return B_μ(L, δ), which bounds |K̄_ij| for i != j: Theorem 3.

    ``depth`` may be half a number of layers, as in Theorem 5.

    >>> correlation_bound([0, 1, 2], 0.5, 1.0)
    array([0.5  , 0.25 , 0.125])
    """
    first = separating_depth(delta, mu)
    layers = np.asarray(depth, dtype=np.float64)
    if (layers < 0).any():
        raise DomainError("a depth is negative; it counts hidden layers")
    near = 1 - delta * np.exp(np.minimum(layers, first) * math.log1p(mu / 2))
    far = np.exp(np.maximum(layers - first, 0) * math.log1p(-mu / 2)) / 2
    return np.where(layers <= first, near, far)


def top_layer_depth(n: int, delta: float, mu: float) -> int:
    """Return L_1(δ), from which on Corollary 4 bounds kappa of K̄ of ``n`` samples."""
    return math.ceil(-math.log(n) / math.log1p(-mu / 2)) + separating_depth(delta, mu)


def ntk_depth(n: int, delta: float, mu: float) -> int:
    """Return L_2(δ), from which on Corollary 6 bounds kappa of the NTK of ``n`` samples."""
    return math.ceil(-2 * math.log(2 * n) / math.log1p(-mu / 2)) + 2 * separating_depth(delta, mu)


def top_layer_kappa_bound(depth: ArrayLike, n: int, delta: float, mu: float) -> Array:
    """Return the bound on kappa of K̄ under Assumption A; NaN at depths below L_1. Corollary 4."""
    layers = np.asarray(depth, dtype=np.float64)
    first = top_layer_depth(n, delta, mu)
    bound = 1 + 2 * n * np.exp((layers - first) * math.log1p(-mu / 2))
    return np.where(layers >= first, bound, math.nan)


def ntk_kappa_bound(depth: ArrayLike, n: int, delta: float, mu: float) -> Array:
    """Return the bound on kappa of the NTK under Assumption A; NaN below L_2. Corollary 6.

    The exponent is printed, L/2 - L_2.
    """
    layers = np.asarray(depth, dtype=np.float64)
    first = ntk_depth(n, delta, mu)
    bound = 1 + 4 * n * np.exp((layers / 2 - first) * math.log1p(-mu / 2))
    return np.where(layers >= first, bound, math.nan)


def top_layer_kappa_bound_b(depth: ArrayLike, n: int, delta: float, mu: float) -> Array:
    """Return the bound on kappa of K̄ under Assumption B: Corollary 8."""
    _check(delta, mu)
    layers = np.asarray(depth, dtype=np.float64)
    return np.asarray(1 + n / delta * np.exp(-layers * math.log1p(mu / 2)))


def ntk_kappa_bound_b(depth: ArrayLike, n: int, delta: float, mu: float) -> Array:
    """Return the bound on kappa of the NTK under Assumption B; NaN below 4 L_0. Corollary 10."""
    layers = np.asarray(depth, dtype=np.float64)
    bound = 1 + 2 * n / delta * np.exp(-layers / 2 * math.log1p(mu / 2))
    return np.where(layers >= 4 * separating_depth(delta, mu), bound, math.nan)


def _check(delta: float, mu: float) -> None:
    if not 0 < mu <= 1:
        raise DomainError(f"μ = {mu:g} is not in (0, 1]; linear activations have 0")
    if not 0 < delta <= 1:
        raise DomainError(f"δ = {delta:g} is not in (0, 1]; samples must differ in direction")
