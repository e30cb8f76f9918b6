"""How labels lie in the spectrum of a kernel: which of its directions are to be learned."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Share of the labels' energy that the effective condition number leaves out.
REST = 0.01


@dataclass(frozen=True, eq=False)
class LabelSpectrum:
    """Eigenvalues (n,) of a kernel, descending, and the labels' energy in their eigenvectors.

    ``energy`` (n,) is |u_i^T R|² / |R|² for targets or residuals R (n, c), and sums to 1.
    """

    eigenvalues: NDArray[np.float64]
    energy: NDArray[np.float64]

    @property
    def effective_kappa(self) -> float:
        """λ_1 / λ_q, with q the first so that all but `REST` of the energy is in u_1, …, u_q.

        Infinite where λ_q is not above 0.
        """
        q = int(np.searchsorted(np.cumsum(self.energy), 1 - REST))
        value = self.eigenvalues[min(q, len(self.energy) - 1)]
        return float(self.eigenvalues[0] / value) if value > 0 else math.inf


def label_spectrum(k: NDArray[np.float64], residual: NDArray[np.float64]) -> LabelSpectrum:
    """Return the energy of a residual (n, c) in the eigenvectors of a kernel ``k`` (n, n).

    ``k`` is symmetric; both are float64 arrays, of the same samples in the same order.

    >>> label_spectrum(np.diag([4.0, 1.0]), np.array([[3.0], [1.0]])).energy.round(3).tolist()
    [0.9, 0.1]
    """
    values, vectors = np.linalg.eigh(k)
    squares = np.square(vectors.T @ residual).sum(1)
    return LabelSpectrum(values[::-1], squares[::-1] / squares.sum())


def kernel_target_alignment(k: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
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
