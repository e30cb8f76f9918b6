"""Spectrum of a kernel: condition number, ranks, and how far float arithmetic resolves them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike, NDArray
from threadpoolctl import ThreadpoolController

from ntk_conditioning.angles.pairs import upper_tiles
from ntk_conditioning.errors import UserError

# Products of matrices differ from their own transposes by a few rounding errors of the largest
# entry; an asymmetry beyond this many of them comes from a mistake, not from arithmetic.
SYMMETRY_ROUNDINGS = 1000

# Size of a kernel from which a second thread makes its eigenvalues faster.
ONE_THREAD_BELOW = 1024


class KernelError(UserError):
    """The matrix is not the kernel of any samples."""


class NotAMatrixError(KernelError):
    """The array is not a non-empty matrix of float32 or float64, or a kernel is not square."""


class NotFiniteError(KernelError):
    """Some entries are infinite or not a number."""


class NotSymmetricError(KernelError):
    """The two triangles differ by more than rounding."""


class IndefiniteError(KernelError):
    """An eigenvalue is more negative than any rounding of a kernel explains."""


class ZeroKernelError(KernelError):
    """Every eigenvalue is zero, so that no ratio of them exists."""


class UnresolvedError(KernelError):
    """Not even the largest eigenvalue is above what the errors of the entries explain."""


@dataclass(frozen=True)
class Conditioning:
    """The extreme eigenvalues of an n × n kernel and what can be said from them.

    ``resolution_floor`` is the size below which an eigenvalue of this kernel is indistinguishable
    from zero. ``lambda_min`` is as computed and may be a negative number of the floor's size.
    ``numerical_rank`` counts the eigenvalues above the floor. ``kappa``, the ratio of the largest
    to the smallest eigenvalue, is None when ``lambda_min`` is not above the floor;
    ``kappa_nonzero`` divides by the smallest eigenvalue above the floor instead.
    ``effective_rank`` is the exponential of the entropy of the eigenvalues above the floor
    (Roy & Vetterli 2007, "The effective rank", Def. 1). ``dtype`` names the precision in which
    the kernel was computed; ``reduced_precision`` says that it is below float64.
    ``eigenvalues`` (n,) descend.

    ``lambda_max_error`` and ``lambda_min_error`` bound the error of the eigenvalue solver, and
    ``kappa_error`` what follows for kappa, relative to it; how well the kernel itself is known is
    a matter of the floor. ``method`` is "spectrum" for all eigenvalues, "factor" for the singular
    values of a factor and "extremes" for those of `extremal_eigenvalues.extreme_conditioning`, for
    which the effective rank, the eigenvalues and a ``lambda_min`` below the floor are None.
    """

    n: int
    lambda_max: float
    lambda_max_error: float
    lambda_min: float | None
    lambda_min_error: float | None
    resolution_floor: float
    numerical_rank: int
    kappa: float | None
    kappa_error: float | None
    kappa_nonzero: float
    effective_rank: float | None
    method: str
    dtype: str
    reduced_precision: bool
    eigenvalues: NDArray[np.float64] | None = field(repr=False, compare=False)

    @classmethod
    def of_extremes(
        cls,
        n: int,
        *,
        lambda_max: tuple[float, float],
        smallest: tuple[float, float],
        rank: int,
        floor: float,
        precision: np.dtype[Any],
    ) -> Conditioning:
        """Return what the largest and the smallest eigenvalue above the floor say.

        Both come with their errors. The rank decides whether the latter is ``lambda_min``.
        """
        full = rank == n
        return cls(
            n=n,
            lambda_max=lambda_max[0],
            lambda_max_error=lambda_max[1],
            lambda_min=smallest[0] if full else None,
            lambda_min_error=smallest[1] if full else None,
            resolution_floor=floor,
            numerical_rank=rank,
            kappa=lambda_max[0] / smallest[0] if full else None,
            kappa_error=_error_of_ratio(lambda_max, smallest) if full else None,
            kappa_nonzero=lambda_max[0] / smallest[0],
            effective_rank=None,
            method="extremes",
            dtype=str(precision),
            reduced_precision=_is_reduced(precision),
            eigenvalues=None,
        )


def conditioning(
    k: NDArray[np.floating], *, dtype: DTypeLike | None = None, entry_error: float = 0.0
) -> Conditioning:
    """Return the conditioning of a symmetric positive semidefinite kernel ``k`` (n, n).

    The whole spectrum is solved for in float64. ``dtype`` is the precision in which ``k`` was
    computed, if that is lower than the array's own type, and ``entry_error`` bounds errors of its
    entries other than rounding, relative to the largest; eigenvalues up to
    n · max(eps(dtype), entry_error) · lambda_max count as zero. Only the lower triangle is read
    after the check of symmetry.

    Raises:
        NotAMatrixError, NotFiniteError, NotSymmetricError: if ``k`` is no kernel.
        IndefiniteError: if an eigenvalue is below -sqrt(eps) · lambda_max.
        ZeroKernelError: if ``k`` is zero.
        UnresolvedError: if ``entry_error`` is 1/n or more.

    >>> import numpy as np
    >>> numbers = conditioning(np.diag([4.0, 2.0, 1.0]))
    >>> numbers.kappa, numbers.numerical_rank
    (4.0, 3)
    >>> deficient = conditioning(np.ones((2, 2)))
    >>> deficient.kappa is None, deficient.numerical_rank, round(deficient.kappa_nonzero, 6)
    (True, 1, 1.0)
    """
    precision = check_kernel(k, dtype)
    n = len(k)
    with _blas_threads(n):
        eigenvalues = scipy.linalg.eigvalsh(k.astype(np.float64, copy=False), check_finite=False)[
            ::-1
        ]
    eps = float(np.finfo(precision).eps)
    if eigenvalues[-1] < -np.sqrt(eps) * abs(eigenvalues[0]):
        raise IndefiniteError(
            f"the smallest eigenvalue is {eigenvalues[-1]:.3e} beside a largest of "
            f"{eigenvalues[0]:.3e}; a kernel has none below zero"
        )
    # What LAPACK's symmetric solvers guarantee, with n for the slowly growing factor.
    error = n * float(np.finfo(np.float64).eps) * float(eigenvalues[0])
    return _conditioning(
        eigenvalues,
        errors=(error, error),
        floor=resolution_floor(n, float(eigenvalues[0]), max(eps, entry_error)),
        method="spectrum",
        precision=precision,
    )


def conditioning_from_factor(f: NDArray[np.floating]) -> Conditioning:
    """Return the conditioning of the kernel f f^T from the singular values of ``f`` (n, p).

    The kernel is never formed: its eigenvalues are the squares σ² of the singular values, so that
    rounding errors are of size eps · σ_max and not sqrt(eps) · σ_max, and condition numbers of
    1e17 and more come out right. The resolution floor is (max(n, p) · eps · σ_max)². With p < n,
    the n - p smallest eigenvalues are exactly zero by structure.

    Raises:
        NotAMatrixError, NotFiniteError: if ``f`` is no finite matrix of floats.
        ZeroKernelError: if ``f`` is zero.

    >>> import numpy as np
    >>> numbers = conditioning_from_factor(np.diag([1.0, 1e-9]))
    >>> round(numbers.kappa / 1e18, 6)
    1.0
    """
    precision = _checked_precision(f, None)
    n, p = f.shape
    singular = scipy.linalg.svdvals(f.astype(np.float64, copy=False), check_finite=False)
    eigenvalues = np.zeros(n)
    eigenvalues[: len(singular)] = singular**2
    floor = float((max(n, p) * np.finfo(precision).eps * singular[0]) ** 2)
    error = max(n, p) * float(np.finfo(np.float64).eps) * float(singular[0])  # of a σ
    errors = [2 * sigma * error + error**2 for sigma in map(float, (singular[0], singular[-1]))]
    return _conditioning(
        eigenvalues,
        errors=(errors[0], errors[1] if p >= n else 0.0),
        floor=floor,
        method="factor",
        precision=precision,
    )


def resolution_floor(n: int, lambda_max: float, entry_error: float) -> float:
    """Return n · entry_error · lambda_max, up to which eigenvalues cannot be told from zero.

    Raises:
        ZeroKernelError: if the kernel is zero.
        UnresolvedError: if no eigenvalue is above the floor.
    """
    if not lambda_max > 0:
        raise ZeroKernelError("the kernel is zero: all samples have zero gradient")
    if n * entry_error >= 1:
        raise UnresolvedError(
            f"entries known to {entry_error:.1e} of the largest say nothing of the eigenvalues of "
            f"{n} samples; take fewer, or more digits"
        )
    return n * entry_error * lambda_max


def check_kernel(k: NDArray[Any], dtype: DTypeLike | None = None) -> np.dtype[Any]:
    """Return the precision in which the kernel ``k`` was computed; ``dtype`` may say a lower one.

    Raises:
        NotAMatrixError, NotFiniteError, NotSymmetricError: if ``k`` is no kernel.
    """
    precision = _checked_precision(k, dtype)
    if k.shape != (len(k), len(k)):
        raise NotAMatrixError(f"the kernel has shape {k.shape}; a kernel is square")
    asymmetry = _asymmetry(k)
    if asymmetry > SYMMETRY_ROUNDINGS * np.finfo(precision).eps:
        raise NotSymmetricError(
            f"the kernel's triangles differ by {asymmetry:.1e} of the largest entry, which is "
            f"more than {precision} rounding; compute one triangle and mirror it"
        )
    return precision


def _blas_threads(n: int) -> AbstractContextManager[object]:
    """Return a context in which SciPy solves a small problem by one thread.

    More gain nothing there, and while they wait for work that does not come they keep the cores
    from torch's own threads: the kernel that follows took half as long again.
    """
    return (
        _threadpools().limit(limits=1, user_api="blas") if n < ONE_THREAD_BELOW else nullcontext()
    )


@cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()


def _checked_precision(a: NDArray[Any], claimed: DTypeLike | None) -> np.dtype[Any]:
    """Return the precision in which the finite matrix ``a`` was computed."""
    if a.ndim != 2 or a.size == 0:
        raise NotAMatrixError(f"an array of shape {a.shape} is not a matrix with entries")
    if a.dtype not in (np.float32, np.float64):
        raise NotAMatrixError(f"the matrix has type {a.dtype}; give float64 (or float32)")
    if not (np.isfinite(a.max()) and np.isfinite(a.min())):  # without an array of its size
        bad = int(a.size - np.isfinite(a).sum())
        raise NotFiniteError(f"{bad} of the matrix's {a.size} entries are not finite")
    if claimed is None:
        return a.dtype
    precision = np.dtype(claimed)
    if np.finfo(precision).eps < np.finfo(a.dtype).eps:
        raise NotAMatrixError(f"a {a.dtype} matrix cannot have been computed in {precision}")
    return precision


def _asymmetry(k: NDArray[np.floating], tile: int = 1024) -> float:
    """Return the largest difference between ``k`` and its transpose, in units of the largest entry.

    By tiles: a kernel may be as large as the memory allows.
    """
    largest = max(float(k.max()), -float(k.min()))
    difference = max(float(np.abs(k[r, c] - k[c, r].T).max()) for r, c in upper_tiles(len(k), tile))
    return difference / largest if difference else 0.0


def _conditioning(
    eigenvalues: NDArray[np.float64],
    *,
    errors: tuple[float, float],
    floor: float,
    method: str,
    precision: np.dtype[Any],
) -> Conditioning:
    lambda_max, lambda_min = float(eigenvalues[0]), float(eigenvalues[-1])
    if not lambda_max > 0:
        raise ZeroKernelError("the kernel is zero: all samples have zero gradient")
    above = eigenvalues[eigenvalues > floor]
    share = above / above.sum()
    resolved = lambda_min > floor
    extremes = (lambda_max, errors[0]), (lambda_min, errors[1])
    return Conditioning(
        n=len(eigenvalues),
        lambda_max=lambda_max,
        lambda_max_error=errors[0],
        lambda_min=lambda_min,
        lambda_min_error=errors[1],
        resolution_floor=float(floor),
        numerical_rank=len(above),
        kappa=lambda_max / lambda_min if resolved else None,
        kappa_error=_error_of_ratio(*extremes) if resolved else None,
        kappa_nonzero=float(lambda_max / above[-1]),
        effective_rank=float(np.exp(-np.sum(share * np.log(share)))),
        method=method,
        dtype=str(precision),
        reduced_precision=_is_reduced(precision),
        eigenvalues=eigenvalues,
    )


def _is_reduced(precision: np.dtype[Any]) -> bool:
    return bool(np.finfo(precision).eps > np.finfo(np.float64).eps)


def _error_of_ratio(largest: tuple[float, float], smallest: tuple[float, float]) -> float:
    """Return the bound on the relative error of a ratio that follows from those of its parts."""
    above, below = largest[1] / largest[0], smallest[1] / smallest[0]
    return (above + below) / (1 - below) if below < 1 else np.inf
