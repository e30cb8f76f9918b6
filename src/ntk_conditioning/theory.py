"""What liu2023relu proves about angles, norms, eigenvalues and convergence, as functions.

Angles are in radians. Everything is for ReLU networks of infinite width at initialisation unless
it says otherwise; depth L counts hidden layers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ntk_conditioning.duals import angle_of, gradient_deficit, leaky_relu_dual

Array = NDArray[np.float64]


def g(z: ArrayLike) -> Array:
    """Return the angle after one ReLU layer from the angle ``z`` before it (Eq. (8)).

    g(z) = arccos(((π - z) cos z + sin z) / π), by a form that keeps small angles to relative
    precision.

    >>> float(g(np.pi / 2) - np.arccos(1 / np.pi)) < 1e-15
    True
    """
    return embedding_angle(z, 1)


def embedding_angle(theta_in: ArrayLike, layer: int) -> Array:
    """Return θ^(l) = g^l(θ_in), the angle between embeddings after ``layer`` layers (Eq. (9)).

    Raises:
        ValueError: for a negative layer or an angle outside [0, π].
    """
    return _embeddings(theta_in, layer)[-1][1]


def gradient_angle(theta_in: ArrayLike, depth: int) -> Array:
    """Return the angle φ between model gradients of inputs at angle θ_in (Theorem 4.4, Eq. (10)).

    cos φ = Σ_l cos θ^(l) Π_(l'=l)^(L-1) (1 - θ^(l')/π) / (L + 1), summed as 1 - cos φ, of which
    every term is positive.

    >>> float(gradient_angle(0.3, 0))
    0.3
    """
    layers = _embeddings(theta_in, depth)
    deficit = layers[0][0]
    for number in range(1, depth + 1):
        loss = leaky_relu_dual(*layers[number - 1], negative_slope=0.0).loss
        deficit = gradient_deficit(deficit, layers[number][0], loss, number)
    if depth == 0:
        return layers[0][1]
    return angle_of(deficit / (depth + 1))


def _embeddings(theta_in: ArrayLike, layer: int) -> list[tuple[Array, Array]]:
    """Return 1 - cos θ^(l) and θ^(l) for l = 0, …, ``layer``."""
    theta = np.asarray(theta_in, dtype=np.float64)
    if layer < 0:
        raise ValueError(f"layer {layer} is negative; layers are counted from the input, 0")
    if np.any(theta < 0) or np.any(theta > math.pi):
        raise ValueError("an angle between vectors lies in [0, π] radians")
    states = [(2 * np.sin(theta / 2) ** 2, theta)]
    for _ in range(layer):
        w, theta = states[-1]
        w = w * leaky_relu_dual(w, theta, negative_slope=0.0).fall
        states.append((w, angle_of(w)))
    return states


def embedding_angle_small(theta_in: ArrayLike, layer: int) -> Array:
    """Return θ_in - l θ_in² / 3π, which is θ^(l) to second order (Corollary 4.3)."""
    theta = np.asarray(theta_in, dtype=np.float64)
    return theta - layer * theta**2 / (3 * math.pi)


def gradient_cosine_small(theta_in: ArrayLike, depth: int) -> Array:
    """Return (1 - L θ_in / 2π) cos θ_in, which is cos φ to first order (Theorem 4.5, Eq. (11)).

    The proof's last line has L/2 in place of L/(2π); the statement's coefficient is the right one.
    """
    theta = np.asarray(theta_in, dtype=np.float64)
    return (1 - depth * theta / (2 * math.pi)) * np.cos(theta)


def gradient_norm(norm: ArrayLike, depth: int) -> Array:
    """Return |∇f(x)| = sqrt(L + 1) |x|, for ReLU and linear networks.

    Theorems 3.1 and 4.4 print (L + 1) |x|; their proofs (Eqs. (21) and (39)) give the square of
    the norm as (L + 1) |x|².
    """
    return math.sqrt(depth + 1) * np.asarray(norm, dtype=np.float64)


def loss_bound(kappa: ArrayLike, step: ArrayLike, initial_loss: float = 1.0) -> Array:
    """Return (1 - 1/κ)^t L(w_0), the bound on the square loss after t steps (Eq. (13))."""
    return np.asarray(
        initial_loss * (1 - 1 / np.asarray(kappa, dtype=np.float64)) ** np.asarray(step)
    )


def lambda_min_bound(norm: ArrayLike, norm2: ArrayLike, phi: ArrayLike) -> Array:
    """Return an upper bound on λ_min of B Bᵀ from two rows of B (proof of Proposition 2.2).

    For rows of norms ``norm`` and ``norm2`` at the angle ``phi`` it is
    2 |b|² |b'|² (1 - cos φ) / (|b|² + |b'|²), about |b|² φ² / 2 for equal norms.

    >>> round(float(lambda_min_bound(1.0, 1.0, np.pi / 2)), 12)
    1.0
    """
    square, square2 = (np.asarray(value, dtype=np.float64) ** 2 for value in (norm, norm2))
    fall = 2 * np.sin(np.asarray(phi, dtype=np.float64) / 2) ** 2
    return np.asarray(2 * square * square2 * fall / (square + square2))


def kappa_lower_bound(norms: ArrayLike, i: int, j: int, phi: float) -> float:
    """Return a lower bound on κ of B Bᵀ from the row norms of B and one angle (Proposition 2.2).

    λ_max is at least the mean of the squared row norms, tr(B Bᵀ) / n; the paper's proof bounds it
    below by the smallest of them.
    """
    values = np.asarray(norms, dtype=np.float64)
    return float(np.mean(values**2) / lambda_min_bound(values[i], values[j], phi))
