"""The spectrum of a correlation matrix in two parts: the mean direction, and what is beside it.

On vectors that sum to zero a kernel K = 1 1ᵀ - E is -E: the centred kernel, or bulk. The mean
direction has most of the spike, the eigenvalue that grows with the number of samples.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial.distance import squareform

from ntk_conditioning.spectra.condition_numbers import EPS, growth, resolved_ratio

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SpikeAndBulk:
    """Eigenvalues of a kernel (n, n) with ones on its diagonal, and of the centred kernel.

    ``lambda_max``, ``lambda_2`` and ``lambda_min`` are the kernel's; ``bulk_max`` and ``bulk_min``
    the extreme ones of the centred kernel on the n - 1 directions that sum to zero.
    ``lambda_max_error`` bounds the error of the first two, ``lambda_min_error`` that of the others.
    ``kappa``, with the bound ``kappa_error`` relative to it, is the kernel's condition number and
    ``bulk_kappa`` the centred kernel's, None where their error may exceed 1.
    """

    n: int
    lambda_max: float
    lambda_2: float
    lambda_min: float
    bulk_max: float
    bulk_min: float
    lambda_max_error: float
    lambda_min_error: float
    kappa: float | None
    kappa_error: float | None
    bulk_kappa: float | None


def spike_and_bulk(distances: Array, *, error: float = 0.0) -> SpikeAndBulk:
    """Return the eigenvalues of a kernel from its ``distances`` 1 - K_ij (n (n-1) / 2,), i < j.

    Distances are in float64, row by row; ``error`` bounds that of each. In a basis that begins with
    the mean direction, K is [[a, bᵀ], [b, C]], and b and C need only the distances. So the error of
    the smallest eigenvalue, the first root of a - λ = bᵀ (C - λ)⁻¹ b, is relative to the bulk.

    >>> far = spike_and_bulk(np.ones(3))
    >>> round(far.lambda_max, 12), round(far.bulk_min, 12), far.kappa is None
    (1.0, 1.0, False)
    """
    far = squareform(distances)
    n = len(far)
    # by the reflection I - u uᵀ / u_1, u = e_1 + 1 / √n, whose first column is that direction
    root, sums = math.sqrt(n), far.sum(axis=1)
    uneven = sums - sums.mean()
    a = float((1 - far).sum()) / n
    b = (uneven[1:] - uneven[0] / (root + 1)) / root
    beside = (far[0] + sums / root) / (root + 1)
    shift = (2 * root * sums[0] + sums.sum()) / (n * (root + 1) ** 2)
    c = beside[1:, None] + beside[1:] - shift - far[1:, 1:]
    bulk, vectors = np.linalg.eigh(c)
    low = float(bulk[0]) - _below(bulk, np.square(vectors.T @ b), a)
    second, first = np.linalg.eigvalsh(1 - far)[-2:].tolist()
    large = n * error + growth(n) * EPS * first
    # a few roundings of each entry of C may all have one sign
    small = n * (error + 8 * EPS * max(float(bulk[-1]), float(np.abs(far).max())))
    ends = float(bulk[-1]), float(bulk[0])
    kappa, kappa_error = resolved_ratio((first, large), (low, small))
    bulk_kappa, _ = resolved_ratio((ends[0], small), (ends[1], small))
    return SpikeAndBulk(n, first, second, low, *ends, large, small, kappa, kappa_error, bulk_kappa)


def _below(bulk: Array, squares: Array, a: float) -> float:
    """Return how far the smallest eigenvalue is below bulk[0], from b² along C's eigenvectors."""
    above, least = bulk - bulk[0], math.ulp(float(np.abs(bulk).max()))

    def secular(t: float) -> float:
        return float(a - bulk[0] + t - np.sum(squares / (above + t)))

    most = math.sqrt(squares.sum()) + max(0.0, float(bulk[0]) - a) + least
    if secular(least) >= 0:
        return 0.0
    return float(brentq(secular, least, most, xtol=least, rtol=1e-14))
