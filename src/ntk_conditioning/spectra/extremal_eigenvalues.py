"""Extreme eigenvalues of kernels too large for their whole spectrum, each with an error bound.

λ_max comes from Lanczos iterations with K, λ_min from Lanczos iterations with the inverse, applied
by two triangular solves with the Cholesky factor. Without a factorisation the small end does not
converge, and says nothing about it. The factor takes the place of one triangle of K, so that one
K and some vectors are all the memory needed; the other triangle is K's own to the end and gives
the residuals |K v - λ v|. Within such a distance of λ lies an eigenvalue of K (Parlett 1998, "The
Symmetric Eigenvalue Problem", Theorem 4.5.1).

If Cholesky's method fails, or λ_min is not above the resolution floor τ, the inertia of K - τ I is
taken from its factorisation L D L^T: by Sylvester's law as many eigenvalues of D are positive as
eigenvalues of K are above τ. The smallest of those is found by Lanczos iterations, too: roughly
with this inverse, where the noise about zero is 1/τ in size, and then with that of K - σ I for a
shift σ in the middle between the noise and it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ntk_conditioning.angles.pairs import upper_tiles
from ntk_conditioning.errors import UserError
from ntk_conditioning.spectra.conditioning import (
    Conditioning,
    IndefiniteError,
    NotFiniteError,
    ZeroKernelError,
    check_kernel,
    resolution_floor,
)

if TYPE_CHECKING:
    from torch import Tensor

    from ntk_conditioning.spectra.factorisations import PanelMatrix

Vector = NDArray[np.float64]
Operator = Callable[[Vector], Vector]

#: Where Lanczos stops: errors of an eigenvalue are about the square of it.
TOLERANCE = 1e-10
#: Restarts, each of some 20 products, until Lanczos gives up: one to five are usual.
MOST_RESTARTS = 300


class NotConvergedError(UserError):
    """Lanczos found no eigenvalue to the tolerance within the allowed steps."""


def extreme_conditioning(
    k: NDArray[np.floating] | Tensor,
    *,
    dtype: DTypeLike | None = None,
    entry_error: float = 0.0,
    overwrite: bool = False,
) -> Conditioning:
    """Return the conditioning of a symmetric positive semidefinite kernel ``k`` (n, n).

    As `spectra.conditioning`, but without the eigenvalues in between: ``eigenvalues`` and
    ``effective_rank`` are None, and where the rank is not full, ``lambda_min`` is None as well.
    With ``overwrite`` the kernel's memory is used, which leaves nothing of it. A tensor on a GPU
    is factored there, and taken to be symmetric.

    Raises:
        NotAMatrixError, NotFiniteError, NotSymmetricError, IndefiniteError, ZeroKernelError,
            UnresolvedError: as `spectra.conditioning`.
        NotConvergedError: if Lanczos does not converge.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((30, 40))
    >>> found = extreme_conditioning(x @ x.T)
    >>> whole = np.linalg.cond(x) ** 2
    >>> found.numerical_rank, bool(abs(found.kappa / whole - 1) < 1e-9)
    (30, True)
    """
    if not isinstance(k, np.ndarray) and k.device.type == "cpu":
        k = k.numpy()
    if isinstance(k, np.ndarray):
        precision = check_kernel(k, dtype)
        return _condition(InMemoryMatrix(k, overwrite=overwrite), precision, entry_error)
    from ntk_conditioning.networks.gradient_tiles import full_precision
    from ntk_conditioning.spectra.factorisations import PanelMatrix

    if not (k.max().isfinite() and k.min().isfinite()):
        raise NotFiniteError(f"some of the kernel's {k.numel()} entries are not finite")
    own = np.dtype(str(k.dtype).removeprefix("torch."))
    with full_precision():
        return _condition(PanelMatrix(k, overwrite=overwrite), np.dtype(dtype or own), entry_error)


def _condition(
    matrix: InMemoryMatrix | PanelMatrix, precision: np.dtype[Any], entry_error: float
) -> Conditioning:
    n, eps = matrix.n, float(np.finfo(precision).eps)
    diagonal = matrix.diagonal
    if diagonal.min() < 0:
        raise IndefiniteError(f"the kernel has {diagonal.min():.3e} on its diagonal, a square")
    if not diagonal.any():
        raise ZeroKernelError("the kernel is zero: all samples have zero gradient")
    lambda_max, top = _largest(matrix.multiply, n)
    # Of a residual: |fl(Kv) - Kv| <= γ_n |K||v|, and the Frobenius norm bounds that of |K|.
    rounding = n * eps / 2 * matrix.frobenius()
    lambda_max_error = _residual(matrix.multiply, lambda_max, top) + rounding
    floor = resolution_floor(n, lambda_max, max(eps, entry_error))

    rank, smallest = 0, 0.0
    if matrix.factor(0.0):
        inverse, bottom = _largest(matrix.solve, n)
        rank, smallest = n, 1 / inverse
    if smallest <= floor:
        if not matrix.factor(np.sqrt(eps) * lambda_max):
            raise IndefiniteError(
                f"the kernel has an eigenvalue below {-np.sqrt(eps) * lambda_max:.3e}; "
                "a kernel has none below zero"
            )
        rank, smallest, bottom = _smallest_above(matrix, floor)
    return Conditioning.of_extremes(
        n,
        lambda_max=(lambda_max, lambda_max_error),
        smallest=(smallest, _residual(matrix.multiply, smallest, bottom) + rounding),
        rank=rank,
        floor=floor,
        precision=precision,
    )


def _smallest_above(
    matrix: InMemoryMatrix | PanelMatrix, floor: float
) -> tuple[int, float, Vector]:
    """Return how many eigenvalues are above the floor, and the smallest of them with its vector."""
    shift = floor * (1 + 4 * float(np.finfo(np.float64).eps))  # one that equals the floor is below
    rank = matrix.factor_shifted(shift)
    inverse, vector = _largest(matrix.solve_shifted, matrix.n)
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
    try:
        values, vectors = eigsh(
            linear,
            k=1,
            which="LA",
            v0=start,
            tol=TOLERANCE,
            maxiter=MOST_RESTARTS,
            rng=np.random.default_rng(0),  # for restarts where eigenvalues repeat
        )
    except ArpackNoConvergence as error:
        raise NotConvergedError(f"n = {n}: {error}; lower n or give full_spectrum_below") from None
    return float(values[0]), vectors[:, 0] / np.linalg.norm(vectors[:, 0])


def _residual(operator: Operator, value: float, v: Vector) -> float:
    """Return |A v - value v| for a symmetric operator A and a unit vector (n,)."""
    return float(np.linalg.norm(operator(v) - value * v))


class InMemoryMatrix:
    """A symmetric matrix in memory, of which the lower triangle becomes a factor in its place.

    The upper triangle stays the matrix's own; its diagonal is kept apart.
    """

    def __init__(self, k: NDArray[Any], *, overwrite: bool) -> None:
        # K is its own transpose, so that either order in memory is LAPACK's column-major one.
        columns = k if k.flags.f_contiguous else k.T
        usable = overwrite and columns.flags.f_contiguous and columns.flags.writeable
        self._a = columns if usable else np.array(columns, order="F")
        self.n = len(self._a)
        self.diagonal = self._a.diagonal().copy()
        self._symv, self._trsv = get_blas_funcs(("symv", "trsv"), (self._a,))
        names = ("potrf", "sytrf", "sytrf_lwork", "sytrs")
        self._potrf, self._sytrf, self._sytrf_lwork, self._sytrs = get_lapack_funcs(
            names, (self._a,)
        )
        self._factored = False
        self._pivots: NDArray[np.intc] | None = None

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

    def factor(self, shift: float) -> bool:
        """Put Cholesky's factor of K + shift I into the lower triangle, if there is one."""
        self._restore(shift)
        _, info = self._potrf(self._a, lower=1, clean=0, overwrite_a=1)
        return bool(info == 0)

    def solve(self, v: Vector) -> Vector:
        """Return (K + shift I)^-1 v, after `factor`."""
        half = self._trsv(self._a, v.astype(self._a.dtype), lower=1, overwrite_x=1)
        whole = self._trsv(self._a, half, lower=1, trans=1, overwrite_x=1)
        return np.asarray(whole, dtype=np.float64)

    def factor_shifted(self, shift: float) -> int:
        """Put L D L^T of K - shift I into the lower triangle; return its positive eigenvalues.

        Pivots of D are numbers, or 2 × 2 with one eigenvalue of either sign.
        """
        self._restore(-shift)
        size, _ = self._sytrf_lwork(self.n, lower=1)
        _, self._pivots, _ = self._sytrf(self._a, lower=1, lwork=int(size), overwrite_a=1)
        single = self._pivots > 0
        positive = np.count_nonzero(self._a.diagonal()[single] > 0)
        return int(positive + np.count_nonzero(~single) // 2)

    def _restore(self, shift: float) -> None:
        """Put K + shift I into the lower triangle and the diagonal."""
        for r, c in upper_tiles(self.n, 1024) if self._factored else ():
            tile = np.triu(self._a[r, c], 1) if r == c else self._a[r, c]
            self._a[c, r] = tile + tile.T if r == c else tile.T
        np.fill_diagonal(self._a, self.diagonal + self._a.dtype.type(shift))
        self._factored = True

    def solve_shifted(self, v: Vector) -> Vector:
        """Return (K - shift I)^-1 v, after `factor_shifted`."""
        x, _ = self._sytrs(self._a, self._pivots, v.astype(self._a.dtype)[:, None], lower=1)
        return np.asarray(x[:, 0], dtype=np.float64)
