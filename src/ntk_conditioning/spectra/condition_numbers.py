"""Spectrum of a kernel: condition number, ranks, and how far float arithmetic resolves them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ntk_conditioning.angles.pairs import upper_tiles
from ntk_conditioning.errors import UserError

# An asymmetry beyond so many roundings of the largest entry comes from a mistake.
SYMMETRY_ROUNDINGS = 1000
# Below, LAPACK's waiting threads would slow torch down: the next kernel took half as long again.
ONE_THREAD_BELOW = 1024

ZERO_KERNEL = "the kernel is zero: all samples have zero gradient"
OUT_OF_RANGE = "the kernel's eigenvalues, or squares, leave float64's range; scale the data"
EPS = float(np.finfo(np.float64).eps)

#: An eigenvalue and a bound on its solver's error.
Bounded = tuple[float, float]


class KernelError(UserError):
    """The matrix is not the kernel of any samples, or its eigenvalues cannot be found."""


class UnresolvedError(KernelError):
    """Not even the largest eigenvalue is above what the errors of the entries explain."""


@dataclass(frozen=True, repr=False)
class Conditioning:
    """The extreme eigenvalues of an n × n kernel and what can be said from them, shown in words.

    ``resolution_floor`` is the size below which an eigenvalue is indistinguishable from zero, and
    ``numerical_rank`` counts those above it. ``lambda_min`` is as computed and may be a negative
    number of the floor's size. ``kappa``, λ_max / λ_min, is None when ``lambda_min`` is not above
    the floor, or its error may exceed 1; ``kappa_nonzero`` divides by the smallest eigenvalue above
    the floor instead. ``effective_rank`` is the exponential of the entropy of those above it (Roy &
    Vetterli 2007, "The effective rank", Def. 1). ``dtype`` names the precision in which the kernel
    was computed; ``reduced_precision`` says that it is below float64. ``eigenvalues`` (n,) descend.

    ``lambda_max_error`` and ``lambda_min_error`` bound the error of the solver and what the
    entries' errors beyond rounding do, by Weyl's inequality, and ``kappa_error`` that of kappa
    relative to it. ``method`` is "spectrum" for all eigenvalues, "factor" for the singular values
    of a factor and "extremes" for `extremal_eigenvalues.extreme_conditioning`: the effective rank
    and the eigenvalues are then None.
    """

    n: int
    lambda_max: float
    lambda_max_error: float
    lambda_min: float
    lambda_min_error: float
    resolution_floor: float
    numerical_rank: int
    kappa: float | None
    kappa_error: float | None
    kappa_nonzero: float
    effective_rank: float | None
    method: str
    dtype: str
    reduced_precision: bool
    eigenvalues: NDArray[np.float64] | None = field(compare=False)

    def __repr__(self) -> str:
        if self.kappa is None or self.kappa_error is None:
            words = f"kappa is not resolved, {self.kappa_nonzero:.4g} above the floor"
        else:
            # errors of the solver, and of the entries by their rounding
            error = self.kappa_error + self.resolution_floor / self.lambda_min
            words = f"kappa {self.kappa:.4g}, known to {error:.0e} of it"
        return (
            f"{words}; rank {self.numerical_rank} of {self.n}; "
            f"eigenvalues from {self.lambda_max:.4g} to {self.lambda_min:.4g}, "
            f"floor {self.resolution_floor:.1e} ({self.dtype})"
        )


def spectra_rows(
    results: Sequence[Conditioning], *, eigenvalues: Literal["first", "all", "none"]
) -> list[dict[str, Any]]:
    """Return the columns of a spectra table for each block, with the ``eigenvalues`` of some."""
    kept, rows = {"first": 1, "all": len(results), "none": 0}[eigenvalues], []
    for block, result in enumerate(results):
        shown = result.eigenvalues if block < kept else None
        values = None if shown is None else shown.tolist()
        rows.append({"block": block} | vars(result) | {"eigenvalues": values})
    return rows


def conditioning(k: NDArray[np.floating], *, entry_error: float = 0.0) -> Conditioning:
    """Return the conditioning of a symmetric positive semidefinite kernel ``k`` (n, n).

    ``k`` is in float64 or float32; all eigenvalues are computed in float64. ``entry_error`` bounds
    errors of the entries other than rounding, relative to the largest entry. Eigenvalues up to
    n · max(eps(k.dtype), entry_error) · lambda_max count as zero. Only the lower triangle is read
    after the check of symmetry.

    Raises:
        KernelError: if ``k`` is zero, not square, finite and symmetric, not in float64 or float32,
            or has an eigenvalue below -sqrt(eps) · lambda_max that the floor does not explain.
        UnresolvedError: if ``entry_error`` is 1/n or more.

    >>> numbers = conditioning(np.diag([4.0, 2.0, 1.0]))
    >>> numbers.kappa, numbers.numerical_rank
    (4.0, 3)
    """
    entry_error = max(entry_error, check_kernel(k))
    n, eps = len(k), float(np.finfo(k.dtype).eps)
    with _threadpools().limit(limits=1 if n < ONE_THREAD_BELOW else None, user_api="blas"):
        double = k.astype(np.float64, copy=False)
        options = {"overwrite_a": double is not k, "check_finite": False}
        eigenvalues = scipy.linalg.eigvalsh(double, **options)[::-1]
    largest, smallest = eigenvalues[[0, -1]].tolist()
    floor = resolution_floor(n, abs(largest), max(eps, entry_error))
    if smallest < -max(math.sqrt(eps) * abs(largest), floor):
        raise KernelError(
            f"the smallest eigenvalue is {smallest:.3e} beside a largest of {largest:.3e}; "
            "a kernel has none below zero"
        )
    error = growth(n) * EPS * largest + entries_move(n, largest, entry_error)
    ends = (largest, error), (smallest, error)
    return summary(n, *ends, floor, k.dtype, method="spectrum", eigenvalues=eigenvalues)


def conditioning_from_factor(f: NDArray[np.floating]) -> Conditioning:
    """Return the conditioning of the kernel f f^T from the singular values of ``f`` (n, p).

    ``f`` is in float64 or float32, and the result from float64. The kernel is never formed: its
    eigenvalues are the squares σ² of the singular values, so that condition numbers of 1e17 and
    more come out right. The resolution floor is (max(n, p) · eps · σ_max)². With p < n, the n - p
    smallest eigenvalues are exactly zero by structure.

    Raises `KernelError` if ``f`` is no finite matrix of floats, zero, or its squares leave float64.

    >>> round(conditioning_from_factor(np.diag([1.0, 1e-9])).kappa / 1e18, 6)
    1.0
    """
    _check_matrix(f)
    n, p = f.shape
    singular = scipy.linalg.svdvals(f.astype(np.float64, copy=False), check_finite=False)
    error = growth(n, p) * EPS * singular[0]  # of a σ
    floor = float((max(n, p) * np.finfo(f.dtype).eps * singular[0]) ** 2)
    if singular[0] > 0 and floor < np.finfo(np.float64).tiny:  # whose squares lose digits
        raise KernelError(OUT_OF_RANGE)
    eigenvalues = np.pad(singular**2, (0, n - len(singular)))
    errors = (2 * singular[[0, -1]] * error + error**2).tolist()
    largest = float(eigenvalues[0]), errors[0]
    smallest = float(eigenvalues[-1]), errors[1] if p >= n else 0.0
    return summary(n, largest, smallest, floor, f.dtype, method="factor", eigenvalues=eigenvalues)


def summary(
    n: int,
    largest: Bounded,
    smallest: Bounded,
    floor: float,
    dtype: np.dtype[Any],
    *,
    method: str,
    eigenvalues: NDArray[np.float64] | None = None,
) -> Conditioning:
    """Return the conditioning from all eigenvalues (n,), or both ends if all are above ``floor``.

    ``dtype`` is the kernel's. Raises `KernelError` unless the largest is positive and finite.
    """
    if not math.isfinite(largest[0]):
        raise KernelError(OUT_OF_RANGE)
    if largest[0] <= 0:
        raise KernelError(ZERO_KERNEL)
    rank, smallest_above, effective_rank = n, smallest[0], None
    if eigenvalues is not None:
        above = eigenvalues[eigenvalues > floor]
        share = above / above.sum()
        rank, smallest_above = len(above), float(above[-1])
        effective_rank = float(np.exp(-np.sum(share * np.log(share))))
    kappa, kappa_error = resolved_ratio(largest, smallest) if rank == n else (None, None)
    return Conditioning(
        n=n,
        lambda_max=largest[0],
        lambda_max_error=largest[1],
        lambda_min=smallest[0],
        lambda_min_error=smallest[1],
        resolution_floor=floor,
        numerical_rank=rank,
        kappa=kappa,
        kappa_error=kappa_error,
        kappa_nonzero=largest[0] / smallest_above,
        effective_rank=effective_rank,
        method=method,
        dtype=str(dtype),
        reduced_precision=bool(np.finfo(dtype).eps > EPS),
        eigenvalues=eigenvalues,
    )


def growth(*sizes: int) -> int:
    """Return c with c · eps · λ_max a bound on the error of LAPACK's eigenvalues: the size."""
    return max(8, *sizes)  # 2 to 6 rows need up to 5.6


def resolved_ratio(largest: Bounded, smallest: Bounded) -> tuple[float | None, float | None]:
    """Return the ratio of two eigenvalues and the bound on its relative error, None above 1.

    >>> resolved_ratio((2.0, 0.0), (1.0, 0.5))
    (2.0, 1.0)
    >>> resolved_ratio((2.0, 0.0), (1.0, 0.6))
    (None, None)
    """
    if smallest[0] <= smallest[1]:
        return None, None
    above, below = largest[1] / largest[0], smallest[1] / smallest[0]
    error = (above + below) / (1 - below)
    return (largest[0] / smallest[0], error) if error <= 1 else (None, None)


def resolution_floor(n: int, lambda_max: float, entry_error: float) -> float:
    """Return n · entry_error · lambda_max; raise `UnresolvedError` if no eigenvalue is above it."""
    if n * entry_error >= 1:
        raise UnresolvedError(
            f"entries known to {entry_error:.1e} of the largest say nothing of the eigenvalues of "
            f"{n} samples; take fewer, or more digits"
        )
    return n * entry_error * lambda_max


def entries_move(n: int, lambda_max: float, entry_error: float) -> float:
    """Return how far errors of the entries can move an eigenvalue (Weyl); 0 for mere rounding."""
    return n * entry_error * lambda_max if entry_error > EPS else 0.0


def check_kernel(k: Any) -> float:
    """Return by how much an array's or tensor's triangles differ, relative to its largest entry.

    It is 0 if that is rounding. Raises `KernelError` unless ``k`` (n, n) is finite and symmetric.
    """
    dtype, shape = _check_matrix(k), tuple(k.shape)
    if shape != (len(k), len(k)):
        raise KernelError(f"the kernel has shape {shape}; a kernel is square")
    eps, largest = float(np.finfo(dtype).eps), max(float(k.max()), -float(k.min()))
    tiles = upper_tiles(len(k), 1024)
    asymmetry = max(float(abs(k[r, c] - k[c, r].T).max()) for r, c in tiles)
    if asymmetry > SYMMETRY_ROUNDINGS * eps * largest:
        raise KernelError(
            f"the kernel's triangles differ by {asymmetry / largest:.1e} of the largest entry, "
            f"which is more than {dtype} rounding; compute one triangle and mirror it"
        )
    return asymmetry / largest if asymmetry > eps * largest else 0.0


def _check_matrix(a: Any) -> str:
    """Return the name of the matrix's type."""
    if a.ndim != 2 or 0 in a.shape:
        raise KernelError(f"an array of shape {tuple(a.shape)} is not a matrix with entries")
    dtype = str(a.dtype).removeprefix("torch.")
    if dtype not in ("float32", "float64"):
        raise KernelError(f"the matrix has type {dtype}; give float64 (or float32)")
    if not (math.isfinite(a.max()) and math.isfinite(a.min())):  # without an array of its size
        size = math.prod(a.shape)
        bad = size - int((abs(a) < math.inf).sum())
        raise KernelError(f"{bad} of the matrix's {size} entries are not finite")
    return dtype


@cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()
