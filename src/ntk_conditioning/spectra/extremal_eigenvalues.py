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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ntk_conditioning import memory
from ntk_conditioning.angles.pairs import upper_tiles
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
    return float(np.linalg.norm(operator(v) - value * v))


class InMemoryMatrix:
    """A symmetric matrix K in memory, of which the lower triangle becomes a factor in its place.

    The upper triangle stays K's; its diagonal is kept apart.
    """

    def __init__(self, k: NDArray[Any], *, overwrite: bool) -> None:
        # K is its own transpose, so that either order in memory is LAPACK's column-major one.
        columns = k if k.flags.f_contiguous else k.T
        self._a = np.array(columns, order="F", copy=None if overwrite else True)
        self.n = len(self._a)
        self.diagonal = self._a.diagonal().copy()
        self._symv, self._trsv = get_blas_funcs(("symv", "trsv"), (self._a,))
        self._factored = False

    def multiply(self, v: Vector) -> Vector:
        """Return K v, from the upper triangle."""
        factors = self._a.diagonal().copy()
        np.fill_diagonal(self._a, self.diagonal)
        product = self._symv(1.0, self._a, v.astype(self._a.dtype), lower=0)
        np.fill_diagonal(self._a, factors)
        return np.asarray(product, dtype=np.float64)

    def frobenius(self) -> float:
        """Return the Frobenius norm of K, before it is factored."""
        return float(np.linalg.norm(self._a))

    def factor(self, shift: float = 0.0) -> bool:
        """Put Cholesky's factor of K + shift I into the lower triangle, if there is one."""
        self._restore(shift)
        (potrf,) = get_lapack_funcs(("potrf",), (self._a,))
        _, info = potrf(self._a, lower=1, clean=0, overwrite_a=1)
        return bool(info == 0)

    def solve(self, v: Vector) -> Vector:
        """Return K^-1 v, after `factor`."""
        half = self._trsv(self._a, v.astype(self._a.dtype), lower=1, overwrite_x=1)
        whole = self._trsv(self._a, half, lower=1, trans=1, overwrite_x=1)
        return np.asarray(whole, dtype=np.float64)

    def factor_shifted(self, shift: float) -> int:
        """Put L D L^T of K - shift I into the lower triangle; return its positive eigenvalues.

        Pivots of D are numbers, or 2 × 2 with one eigenvalue of either sign.
        """
        self._restore(-shift)
        sytrf, sytrf_lwork = get_lapack_funcs(("sytrf", "sytrf_lwork"), (self._a,))
        size, _ = sytrf_lwork(self.n, lower=1)
        _, self._pivots, _ = sytrf(self._a, lower=1, lwork=int(size), overwrite_a=1)
        single = self._pivots > 0
        positive = np.count_nonzero(self._a.diagonal()[single] > 0)
        return int(positive + np.count_nonzero(~single) // 2)

    def solve_shifted(self, v: Vector) -> Vector:
        """Return (K - shift I)^-1 v, after `factor_shifted`."""
        (sytrs,) = get_lapack_funcs(("sytrs",), (self._a,))
        x, _ = sytrs(self._a, self._pivots, v.astype(self._a.dtype)[:, None], lower=1)
        return np.asarray(x[:, 0], dtype=np.float64)

    def whole(self) -> NDArray[Any]:
        """Return K, in its place.

        Raises `NotEnoughMemoryError` if memory does not hold the copy that a solver takes.
        """
        memory.require(8 * self.n**2, f"the whole spectrum of a kernel of {self.n} samples")
        self._restore(0.0)
        return self._a

    def on_host(self) -> InMemoryMatrix:
        return self

    def _restore(self, shift: float) -> None:
        """Put K + shift I into the lower triangle and the diagonal."""
        for r, c in upper_tiles(self.n, 1024) if self._factored else ():
            tile = np.triu(self._a[r, c], 1) if r == c else self._a[r, c]
            self._a[c, r] = tile + tile.T if r == c else tile.T
        np.fill_diagonal(self._a, self.diagonal + self._a.dtype.type(shift))
        self._factored = True


class DeviceMatrix:
    """A symmetric tensor K (n, n) on a GPU, with Cholesky's factor beside it.

    Its methods are those of `InMemoryMatrix`.
    """

    def __init__(self, k: Tensor) -> None:
        self._k, self.n = k, len(k)
        self.diagonal: NDArray[Any] = k.diagonal().numpy(force=True)

    def multiply(self, v: Vector) -> Vector:
        return self._to_host(self._k @ self._k.new_tensor(v))

    def frobenius(self) -> float:
        return float(self._k.norm())

    def factor(self) -> bool:
        from torch.linalg import cholesky_ex

        self._root, info = cholesky_ex(self._k)
        return not int(info)

    def solve(self, v: Vector) -> Vector:
        from torch.linalg import solve_triangular  # cholesky_solve would copy the factor

        half = solve_triangular(self._root, self._k.new_tensor(v)[:, None], upper=False)
        return self._to_host(solve_triangular(self._root.mT, half, upper=True)[:, 0])

    def on_host(self) -> InMemoryMatrix:
        """Return K in the host's memory; raises `NotEnoughMemoryError` if that does not hold it."""
        what = f"a kernel of {self.n} samples without full rank, or with close eigenvalues,"
        memory.require(self._k.nbytes, what)
        return InMemoryMatrix(self._k.numpy(force=True), overwrite=self._k.is_cuda)

    @staticmethod
    def _to_host(v: Tensor) -> Vector:
        return np.asarray(v.double().numpy(force=True))
