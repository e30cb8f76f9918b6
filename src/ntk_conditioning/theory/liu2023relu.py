"""What liu2023relu proves of ReLU networks of infinite width, as functions to compare with.

Liu & Hui 2023, "ReLU soothes the NTK condition number and accelerates optimization for wide neural
networks". Angles are in radians, depth L counts hidden layers, and all functions work elementwise
on arrays. Where a printed formula and its proof differ, the proof is followed.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning.duals.closed_forms import LeakyReLUDual, angle_of, pair_cosine_distances
from ntk_conditioning.networks.calculus import Array
from ntk_conditioning.theory import DomainError


def embedding_angle(theta_in: ArrayLike, layer: int) -> Array:
    """Return θ^(l) = g^l(θ_in), the angle between the embeddings in a layer, Eq. (9).

    g(z) = arccos((π - z)/π · cos z + 1/π · sin z), Eq. (8), z in [0, π]; tiny angles keep digits.

    >>> round(float(embedding_angle(np.pi, 1) / np.pi), 12)
    0.5

    Raises `DomainError` for an angle outside [0, π].
    """
    return _angles(theta_in, layer)[0]


def gradient_angle(theta_in: ArrayLike, depth: int) -> Array:
    """Return φ, the angle between the model gradients of two inputs at angle θ_in.

    Theorem 4.4, Eq. (10): cos φ = 1/(L+1) Σ_l cos θ^(l) Π_{l'=l}^{L-1} (1 - θ^(l')/π). Summed as
    1 - cos φ, so that tiny angles are right to rounding.

    >>> float(gradient_angle(1e-12, 0))
    1e-12
    """
    return _angles(theta_in, depth)[1]


def gradient_cosine_small(theta_in: ArrayLike, depth: int) -> Array:
    """Return (1 - L/(2π) θ_in) cos θ_in, which is cos φ up to o(θ_in), Theorem 4.5, Eq. (11).

    The last line of the proof prints L/2; the line before it sums to the L/(2π) of the theorem.
    """
    theta = np.asarray(theta_in, dtype=np.float64)
    return np.asarray((1 - depth / (2 * math.pi) * theta) * np.cos(theta))


def loss_bound(kappa: ArrayLike, t: ArrayLike, initial_loss: float = 1.0) -> Array:
    """Return (1 - 1/κ)^t · loss at 0, the bound on the loss after ``t`` steps, Eq. (13)."""
    kappa = np.asarray(kappa, dtype=np.float64)
    return np.asarray(initial_loss * (1 - 1 / kappa) ** np.asarray(t))


def lambda_min_bound(norm_i: ArrayLike, norm_j: ArrayLike, angle: ArrayLike) -> Array:
    """Return 2 |b_i|² |b_j|² / (|b_i|² + |b_j|²) · (1 - cos φ), Proposition 2.2.

    It bounds the smallest eigenvalue of B Bᵀ from above, for two rows of B at an angle φ; the mean
    of all |b_k|² over it bounds the condition number from below.
    """
    square_i, square_j, half = np.square(norm_i), np.square(norm_j), np.divide(angle, 2)
    return np.asarray(4 * square_i * square_j / (square_i + square_j) * np.sin(half) ** 2)


def _angles(theta_in: ArrayLike, depth: int) -> tuple[Array, Array]:
    """Return θ^(L) and φ, from 1 - cos θ^(l) and 1 - cos φ of the network that ends in layer l."""
    theta = np.atleast_1d(np.asarray(theta_in, dtype=np.float64))
    if not ((theta >= 0) & (theta <= math.pi)).all():
        raise DomainError("an angle between two vectors lies in [0, π] radians")
    w = distance = 2 * np.sin(theta / 2) ** 2
    relu = LeakyReLUDual(np.ones(1), negative_slope=0)
    for layer in range(1, depth + 1):
        w, h = pair_cosine_distances(relu, w, theta)
        theta = angle_of(w)
        distance = (w + layer * (distance + h - distance * h)) / (layer + 1)
    shape = np.shape(theta_in)
    return theta.reshape(shape), angle_of(distance).reshape(shape)
