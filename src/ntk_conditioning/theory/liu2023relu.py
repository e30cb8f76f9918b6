"""What liu2023relu proves of ReLU networks of infinite width, as functions to compare with.

Liu & Hui 2023, "ReLU soothes the NTK condition number and accelerates optimization for wide neural
networks". Angles are in radians, depth L counts hidden layers, and all functions work elementwise
on arrays. Where a printed formula and its proof differ, the proof is followed and the difference
is named.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ntk_conditioning.duals.closed_forms import angle_of, leaky_relu_step
from ntk_conditioning.theory import DomainError

Array = NDArray[np.float64]


def g(z: ArrayLike) -> Array:
    """Return the angle between the embeddings after one layer, from ``z`` before it.

    g(z) = arccos((π - z)/π · cos z + 1/π · sin z), Eq. (8), for z in [0, π]; right to rounding for
    tiny angles too.

    >>> round(float(g(np.pi) / np.pi), 12)
    0.5
    """
    return embedding_angle(z, 1)


def g_iterated(z: ArrayLike, times: int) -> Array:
    """Return g(g(…g(z))), the ``times``-fold composition of `g`; none is the identity.

    >>> bool(g_iterated(1.0, 2) == g(g(1.0)))
    True
    """
    return embedding_angle(z, times)


def embedding_angle(theta_in: ArrayLike, layer: int) -> Array:
    """Return θ^(l) = g^l(θ_in), the angle between the embeddings in a layer, Eq. (9).

    Raises:
        DomainError: for an angle outside [0, π] or a negative layer.
    """
    w, theta = _checked(theta_in, layer)
    for _ in range(layer):
        w, _ = leaky_relu_step(w, theta, bend=1.0)
        theta = angle_of(w)
    return theta.reshape(np.shape(theta_in))


def gradient_angle(theta_in: ArrayLike, depth: int) -> Array:
    """Return φ, the angle between the model gradients of two inputs at angle θ_in.

    Theorem 4.4, Eq. (10): cos φ = 1/(L+1) Σ_l cos θ^(l) Π_{l'=l}^{L-1} (1 - θ^(l')/π). Summed as
    1 - cos φ, so that tiny angles are right to rounding.

    Raises:
        DomainError: for an angle outside [0, π] or a negative depth.

    >>> float(gradient_angle(1e-12, 0))
    1e-12
    """
    w, theta = _checked(theta_in, depth)
    distance = w  # 1 - cos φ of the network that ends here
    for layer in range(1, depth + 1):
        w, h = leaky_relu_step(w, theta, bend=1.0)
        theta = angle_of(w)
        distance = (w + layer * (distance + h - distance * h)) / (layer + 1)
    return angle_of(distance).reshape(np.shape(theta_in))


def embedding_angle_small(theta_in: ArrayLike, layer: int) -> Array:
    """Return θ_in - l/(3π) θ_in², which is θ^(l) up to o(θ_in²), Corollary 4.3."""
    theta = np.asarray(theta_in, dtype=np.float64)
    return np.asarray(theta - layer / (3 * math.pi) * theta**2)


def gradient_cosine_small(theta_in: ArrayLike, depth: int) -> Array:
    """Return (1 - L/(2π) θ_in) cos θ_in, which is cos φ up to o(θ_in), Theorem 4.5, Eq. (11).

    The last line of the proof prints L/2; the line before it sums to the L/(2π) of the theorem.
    """
    theta = np.asarray(theta_in, dtype=np.float64)
    return np.asarray((1 - depth / (2 * math.pi) * theta) * np.cos(theta))


def gradient_norm(norm_x: ArrayLike, depth: int) -> Array:
    """Return |∇f(x)| = sqrt(L+1) |x|.

    Theorems 3.1 and 4.4 print L + 1; the proofs, Eqs. (21) and (39), give |∇f(x)|² = (L+1)|x|².

    >>> float(gradient_norm(2.0, 3))
    4.0
    """
    return np.asarray(math.sqrt(depth + 1) * np.asarray(norm_x, dtype=np.float64))


def loss_bound(kappa: ArrayLike, t: ArrayLike, initial_loss: float = 1.0) -> Array:
    """Return (1 - 1/κ)^t · loss at 0, the bound on the loss after ``t`` steps, Eq. (13).

    >>> float(loss_bound(2.0, 3, 8.0))
    1.0
    """
    kappa = np.asarray(kappa, dtype=np.float64)
    if not (kappa >= 1).all():
        raise DomainError("a condition number is at least 1")
    return np.asarray(initial_loss * (1 - 1 / kappa) ** np.asarray(t))


def lambda_min_bound(norm_i: ArrayLike, norm_j: ArrayLike, angle: ArrayLike) -> Array:
    """Return an upper bound on the smallest eigenvalue of B Bᵀ, from two rows of B.

    With rows of norms |b_i| and |b_j| at angle φ it is
    2 |b_i|² |b_j|² / (|b_i|² + |b_j|²) · (1 - cos φ), Proposition 2.2 (proof in appendix B).

    >>> float(lambda_min_bound(1.0, 1.0, np.pi))
    2.0
    """
    square_i = np.square(np.asarray(norm_i, dtype=np.float64))
    square_j = np.square(np.asarray(norm_j, dtype=np.float64))
    distance = 2 * np.sin(np.asarray(angle, dtype=np.float64) / 2) ** 2
    return np.asarray(2 * square_i * square_j / (square_i + square_j) * distance)


def kappa_lower_bound(norms: ArrayLike, i: int, j: int, angle: float) -> float:
    """Return a lower bound on the condition number of B Bᵀ, from rows i and j at an angle.

    ``norms`` (n,) are the norms of all rows of B. The largest eigenvalue is at least the mean of
    |b_k|² and the smallest at most `lambda_min_bound`, Proposition 2.2; infinite at angle 0.

    >>> round(kappa_lower_bound([1.0, 1.0, 1.0], 0, 2, 1e-3) / 1e6, 3)
    2.0
    """
    squares = np.square(np.asarray(norms, dtype=np.float64))
    bound = float(lambda_min_bound(math.sqrt(squares[i]), math.sqrt(squares[j]), angle))
    return float(squares.mean()) / bound if bound > 0 else math.inf


def _checked(theta_in: ArrayLike, layer: int) -> tuple[Array, Array]:
    """Return 1 - cos θ and θ as arrays of at least one dimension."""
    theta = np.atleast_1d(np.asarray(theta_in, dtype=np.float64))
    if layer < 0:
        raise DomainError(f"layer {layer} is negative; the input is layer 0")
    if not ((theta >= 0) & (theta <= math.pi)).all():
        raise DomainError("an angle between two vectors lies in [0, π] radians")
    return 2 * np.sin(theta / 2) ** 2, theta
