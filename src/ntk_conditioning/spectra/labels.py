"""How labels lie in the spectrum of a kernel: which of its directions are to be learned."""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Share of the labels' energy that the effective condition number leaves out.
REST = 0.01


def label_spectrum(k: Array, residual: Array) -> tuple[Array, Array]:
    """Return the eigenvalues (n,) of a kernel ``k`` (n, n), descending, and the labels' energies.

    These are |u_i^T R|² / |R|² (n,) for targets or residuals R (n, c), and sum to 1. ``k`` is
    symmetric; both are float64 arrays, of the same samples in the same order.

    >>> eigenvalues, energy = label_spectrum(np.diag([4.0, 1.0]), np.array([[3.0], [1.0]]))
    >>> energy.round(3).tolist()
    [0.9, 0.1]
    """
    values, vectors = np.linalg.eigh(k)
    squares = np.square(vectors.T @ residual).sum(1)
    return values[::-1], squares[::-1] / squares.sum()


def effective_kappa(eigenvalues: Array, energy: Array) -> float:
    """Return λ_1 / λ_q, with q the first so that all but `REST` of the energy is in u_1, …, u_q.

    Both (n,) are those of `label_spectrum`. It is infinite where λ_q is not above 0.
    """
    q = int(np.searchsorted(np.cumsum(energy), 1 - REST))
    value = eigenvalues[min(q, len(energy) - 1)]
    return float(eigenvalues[0] / value) if value > 0 else math.inf


def kernel_target_alignment(k: Array, targets: Array) -> float:
    """Return the alignment of a kernel K (n, n) with ``targets`` Y (n, c), both centred.

    It is <K, Y Y^T> / (|K| |Y Y^T|), from 0 to 1 (Cristianini et al. 2001; Cortes et al. 2012).

    >>> y = np.array([[1.0], [-1.0]])
    >>> round(kernel_target_alignment(y @ y.T, y), 12)
    1.0
    """
    y = targets - targets.mean(0)
    centred = k - k.mean(0) - k.mean(1)[:, None] + k.mean()
    norm = np.linalg.norm(centred) * np.linalg.norm(y.T @ y)
    return float(np.sum(y * (centred @ y)) / norm)
