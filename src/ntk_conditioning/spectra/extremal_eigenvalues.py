"""Extreme eigenvalues of kernels too large for their whole spectrum, each with an error bound.

λ_max comes from Lanczos iterations with K, λ_min from those with K^-1, by its Cholesky factor.
Within a residual |K v - λ v| of λ lies an eigenvalue of K (Parlett 1998, "The Symmetric Eigenvalue
Problem", Theorem 4.5.1); that it is the extreme one rests on the random start.

If Cholesky's method fails, or λ_min is not above the resolution floor τ, the factors L D L^T of
K - τ I tell how many eigenvalues are above τ: as many as D has above 0 (Sylvester's law).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ntk_conditioning.spectra.condition_numbers import (
    ZERO_KERNEL,
    Conditioning,
    KernelError,
    check_kernel,
    conditioning,
    entries_move,
    resolution_floor,
    summary,
)
from ntk_conditioning.spectra.factorisations import DeviceMatrix, InMemoryMatrix, Vector

if TYPE_CHECKING:
    from torch import Tensor

Operator = Callable[[Vector], Vector]

#: Where Lanczos stops: errors of an eigenvalue are about the square of it.
TOLERANCE = 1e-10
#: Restarts, each of 10 products, until Lanczos gives up. Kernels of 2,100 samples took up to 130.
MOST_RESTARTS = 300

#: Samples from which on only the extreme eigenvalues of a kernel are computed.
FULL_SPECTRUM_BELOW = 2048

_log = logging.getLogger(__name__)


def extreme_conditioning(
    k: NDArray[np.floating] | Tensor, *, entry_error: float = 0.0, overwrite: bool = False
) -> Conditioning:
    """Return the conditioning of a large kernel ``k`` (n, n) from its extreme eigenvalues.

    Arguments are those of `condition_numbers.conditioning`, but ``k`` may be a tensor: on a GPU it
    is factored there, beside ``k``, which is taken to be symmetric. ``eigenvalues`` and
    ``effective_rank`` of the result are None, and so is ``lambda_min`` if the rank is not full.
    With ``overwrite``, a ``k`` in the host's memory is destroyed; without, it is copied. If
    eigenvalues crowd, so that Lanczos fails, a warning is logged and all of them are computed.

    Raises:
        KernelError, UnresolvedError: as `condition_numbers.conditioning`.
        NotEnoughMemoryError: if the host's memory does not hold what the whole spectrum takes.

    >>> x = np.random.default_rng(0).standard_normal((30, 40))
    >>> numbers = extreme_conditioning(x @ x.T)
    >>> numbers.numerical_rank, bool(abs(numbers.kappa / np.linalg.cond(x) ** 2 - 1) < 1e-9)
    (30, True)
    """
    if not isinstance(k, np.ndarray) and k.device.type == "cpu":
        k = k.numpy(force=True)
    if isinstance(k, np.ndarray):
        entry_error = max(entry_error, check_kernel(k))
        return _condition(InMemoryMatrix(k, overwrite=overwrite), entry_error)
    # torch is heavy, and a NumPy array needs none of it
    from ntk_conditioning.networks.gradient_tiles import full_precision

    if not (k.max().isfinite() and k.min().isfinite()):
        raise KernelError(f"some of the kernel's {k.numel()} entries are not finite")
    with full_precision():
        return _condition(DeviceMatrix(k), entry_error)


def _condition(matrix: InMemoryMatrix | DeviceMatrix, entry_error: float = 0.0) -> Conditioning:
    try:
        return _from_extremes(matrix, entry_error)
    except ArpackNoConvergence:
        _log.warning(
            "n = %d: extreme eigenvalues are too close for Lanczos; solving for all of them",
            matrix.n,
        )
        return conditioning(matrix.on_host().whole(), entry_error=entry_error)


def _from_extremes(matrix: InMemoryMatrix | DeviceMatrix, entry_error: float) -> Conditioning:
    n, diagonal = matrix.n, matrix.diagonal
    eps = float(np.finfo(diagonal.dtype).eps)
    if diagonal.min() < 0:
        raise KernelError(f"the kernel has {diagonal.min():.3e} on its diagonal, a square")
    if not diagonal.any():
        if matrix.frobenius():
            raise KernelError("the kernel has a zero diagonal and other entries; it is indefinite")
        raise KernelError(ZERO_KERNEL)
    lambda_max, top = _largest(matrix.multiply, n)
    # Of a residual: |fl(Kv) - Kv| <= γ_n |K||v|, and the Frobenius norm bounds that of |K|.
    off = n * eps / 2 * matrix.frobenius() + entries_move(n, lambda_max, entry_error)
    largest = lambda_max, _residual(matrix.multiply, lambda_max, top) + off
    floor = resolution_floor(n, lambda_max, max(eps, entry_error))
    rank, smallest = 0, 0.0
    if matrix.factor():
        inverse, bottom = _largest(matrix.solve, n)
        rank, smallest = n, 1 / inverse
    if smallest <= floor:
        matrix = matrix.on_host()
        if not matrix.factor(np.sqrt(eps) * lambda_max):
            raise KernelError(
                f"the kernel has an eigenvalue below {-np.sqrt(eps) * lambda_max:.3e}; "
                "a kernel has none below zero"
            )
        rank, smallest, bottom = _smallest_above(matrix, floor)
    above = smallest, _residual(matrix.multiply, smallest, bottom) + off
    return summary(n, largest, above, floor, diagonal.dtype, method="extremes", rank=rank)


def _smallest_above(matrix: InMemoryMatrix, floor: float) -> tuple[int, float, Vector]:
    """Return how many eigenvalues are above the floor, and the smallest of them with its vector.

    It is found roughly first, and then from a shift in the middle between the floor and it.
    """
    shift = floor * (1 + 4 * float(np.finfo(np.float64).eps))  # one that equals the floor is below
    rank = matrix.factor_shifted(shift)
    inverse, _ = _largest(matrix.solve_shifted, matrix.n)
    middle = (shift + 1 / inverse) / 2
    if middle > shift and matrix.factor_shifted(middle) == rank:
        shift = middle
    else:
        matrix.factor_shifted(shift)
    inverse, vector = _largest(matrix.solve_shifted, matrix.n)
    return rank, shift + 1 / inverse, vector


def _largest(operator: Operator, n: int) -> tuple[float, Vector]:
    """Return the largest eigenvalue of a symmetric operator and its unit vector (n,)."""
    if n == 1:
        return float(operator(np.ones(1))[0]), np.ones(1)
    start = np.random.default_rng(0).standard_normal(n)  # the same in every run
    linear = LinearOperator((n, n), matvec=lambda v: operator(v.ravel()), dtype=np.float64)
    rng = np.random.default_rng(0)  # for restarts where eigenvalues repeat
    limits = {"tol": TOLERANCE, "maxiter": MOST_RESTARTS}
    values, vectors = eigsh(linear, k=1, which="LA", v0=start, rng=rng, **limits)
    # Once more, or of an inverse K magnifies what the vector has of the largest eigenvalues.
    vector = operator(vectors[:, 0])
    return float(values[0]), vector / np.linalg.norm(vector)


def _residual(operator: Operator, value: float, v: Vector) -> float:
    """Return |A v - value v| for a symmetric operator A and a unit vector (n,)."""
    return float(np.linalg.norm(operator(v) - value * v))
