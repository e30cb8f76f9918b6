"""Symmetric matrices of known spectrum."""

import mpmath
import numpy as np


def kernel(eigenvalues, *, seed=1):
    """Return a symmetric matrix of about these eigenvalues, in random directions."""
    n = len(eigenvalues)
    directions = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    k = (directions * eigenvalues) @ directions.T
    return (k + k.T) / 2


def exact_extremes(k):
    """Return the smallest and the largest eigenvalue of ``k``, from 50 digits."""
    with mpmath.workdps(50):
        eigenvalues = mpmath.eigsy(mpmath.matrix(k.tolist()), eigvals_only=True)
        return float(min(eigenvalues)), float(max(eigenvalues))
