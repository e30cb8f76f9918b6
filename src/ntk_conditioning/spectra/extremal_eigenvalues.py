"""Extreme eigenvalues of kernels too large for their whole spectrum, each with an error bound.

λ_max comes from Lanczos iterations with K, λ_min from those with K^-1, by its Cholesky factor.
Within a residual |K v - λ v| of λ lies an eigenvalue of K (Parlett 1998, "The Symmetric Eigenvalue
Problem", Theorem 4.5.1); that it is the extreme one rests on the random start.

Where Cholesky's method fails, λ_min is not above the resolution floor, or eigenvalues crowd so that
Lanczos fails, the whole spectrum is computed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ntk_conditioning import memory
from ntk_conditioning.spectra.condition_numbers import (
    OUT_OF_RANGE,
    Conditioning,
    KernelError,
    check_kernel,
    conditioning,
    entries_move,
    resolution_floor,
    summary,
)

if TYPE_CHECKING:
    from torch import Tensor

Vector = NDArray[np.float64]
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
    is factored there, beside ``k``. ``eigenvalues`` and ``effective_rank`` of the result are None.
    With ``overwrite``, a ``k`` in the host's memory is destroyed; without, it is copied. Without
    full rank, or if Lanczos fails, all eigenvalues are computed on the host, and the result is that
    of `condition_numbers.conditioning`.

    Raises:
        KernelError, UnresolvedError: as `condition_numbers.conditioning`.
        NotEnoughMemoryError: if the host's memory does not hold what the whole spectrum takes.

    >>> x = np.random.default_rng(0).standard_normal((30, 40))
    >>> numbers = extreme_conditioning(x @ x.T)
    >>> numbers.numerical_rank, bool(abs(numbers.kappa / np.linalg.cond(x) ** 2 - 1) < 1e-9)
    (30, True)
    """
    if not isinstance(k, np.ndarray):
        k = k.numpy(force=True) if k.device.type == "cpu" else k.detach()
    entry_error = max(entry_error, check_kernel(k))
    if isinstance(k, np.ndarray):
        return _condition(InMemoryMatrix(k, overwrite=overwrite), entry_error)
    # torch is heavy, and a NumPy array needs none of it
    from ntk_conditioning.networks.gradient_tiles import full_precision

    with full_precision():
        return _condition(DeviceMatrix(k), entry_error)


def _condition(matrix: InMemoryMatrix | DeviceMatrix, entry_error: float = 0.0) -> Conditioning:
    n, eps = matrix.n, float(np.finfo(matrix.dtype).eps)
    square = matrix.norm * matrix.norm  # as of Lanczos's vectors
    if matrix.norm > 0 and not np.finfo(np.float64).tiny < square < math.inf:
        raise KernelError(OUT_OF_RANGE)
    try:
        if matrix.factor():
            lambda_max, top = _largest(matrix.multiply, n)
            floor = resolution_floor(n, lambda_max, max(eps, entry_error))
            inverse, bottom = _largest(matrix.solve, n)
            if (lambda_min := 1 / inverse) > floor:
                # |fl(Kv) - Kv| <= γ_n |K||v|, and the Frobenius norm bounds that of |K|
                off = n * eps / 2 * matrix.norm + entries_move(n, lambda_max, entry_error)
                largest, smallest = (
                    (value, float(np.linalg.norm(matrix.multiply(v) - value * v)) + off)
                    for value, v in ((lambda_max, top), (lambda_min, bottom))
                )
                return summary(n, largest, smallest, floor, matrix.dtype, method="extremes")
    except ArpackError:
        message = "n = %d: extreme eigenvalues are too close for Lanczos; solving for all of them"
        _log.warning(message, n)
    memory.require(matrix.host_bytes, f"the whole spectrum of a kernel of {n} samples")
    return conditioning(matrix.whole(), entry_error=entry_error)


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


class InMemoryMatrix:
    """A symmetric matrix K in memory, with Cholesky's factor in the place of its lower triangle.

    The diagonal is kept apart. ``norm`` is Frobenius'.
    """

    def __init__(self, k: NDArray[Any], *, overwrite: bool) -> None:
        # K is its own transpose, so that either order in memory is LAPACK's column-major one.
        columns = k if k.flags.f_contiguous else k.T
        self._a = np.array(columns, order="F", copy=None if overwrite else True)
        self.n, self.dtype, self._diagonal = len(k), k.dtype, self._a.diagonal().copy()
        self.host_bytes = 8 * k.size  # of a solver's copy
        self._symv, self._trsv, nrm2 = get_blas_funcs(("symv", "trsv", "nrm2"), (self._a,))
        self.norm = math.hypot(*map(nrm2, self._a.T))  # whose squares float32 might not hold

    def multiply(self, v: Vector) -> Vector:
        """Return K v, from the upper triangle."""
        factors = self._a.diagonal().copy()
        np.fill_diagonal(self._a, self._diagonal)
        product = self._symv(1.0, self._a, v.astype(self._a.dtype), lower=0)
        np.fill_diagonal(self._a, factors)
        return np.asarray(product, dtype=np.float64)

    def factor(self) -> bool:
        """Put Cholesky's factor into the lower triangle, if there is one."""
        (potrf,) = get_lapack_funcs(("potrf",), (self._a,))
        _, info = potrf(self._a, lower=1, clean=0, overwrite_a=1)
        return bool(info == 0)

    def solve(self, v: Vector) -> Vector:
        """Return K^-1 v, after `factor`."""
        half = self._trsv(self._a, v.astype(self._a.dtype), lower=1, overwrite_x=1)
        whole = self._trsv(self._a, half, lower=1, trans=1, overwrite_x=1)
        return np.asarray(whole, dtype=np.float64)

    def whole(self) -> NDArray[Any]:
        """Return K, in its place."""
        for row in range(self.n):
            self._a[row, :row] = self._a[:row, row]
        np.fill_diagonal(self._a, self._diagonal)
        return self._a


class DeviceMatrix:
    """A symmetric tensor K on a GPU, with Cholesky's factor beside it, for the same methods."""

    def __init__(self, k: Tensor) -> None:
        from torch import float64

        self._k, self.n, self.dtype = k, len(k), k[:0].numpy(force=True).dtype
        self.norm = float(k.norm(dtype=float64))
        self.host_bytes = k.nbytes + 8 * k.numel()

    def multiply(self, v: Vector) -> Vector:
        return np.asarray((self._k @ self._k.new_tensor(v)).double().numpy(force=True))

    def factor(self) -> bool:
        from torch.linalg import cholesky_ex

        self._root, info = cholesky_ex(self._k)
        return not int(info)

    def solve(self, v: Vector) -> Vector:
        from torch.linalg import solve_triangular  # cholesky_solve would copy the factor

        half = solve_triangular(self._root, self._k.new_tensor(v)[:, None], upper=False)
        whole = solve_triangular(self._root.mT, half, upper=True)[:, 0]
        return np.asarray(whole.double().numpy(force=True))

    def whole(self) -> NDArray[Any]:
        whole: NDArray[Any] = self._k.numpy(force=True)
        return whole
