"""The conditioning of kernels as users ask for it, and bounds for those that are never formed.

Lanczos iterations from random vectors give Ritz values, whose ratio is a lower bound on kappa. With
their weights they are quadrature nodes of the spectral density (stochastic Lanczos quadrature;
Ubaru, Chen & Saad 2017, "Fast estimation of tr(f(A))").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal, qr
from scipy.sparse.linalg import LinearOperator
from scipy.special import stdtrit
from tqdm import tqdm

from ntk_conditioning.errors import one_line
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import (
    ZERO_KERNEL,
    Conditioning,
    KernelError,
    conditioning,
)
from ntk_conditioning.spectra.extremal_eigenvalues import FULL_SPECTRUM_BELOW, extreme_conditioning

if TYPE_CHECKING:
    from torch import Tensor

    from ntk_conditioning.kernels.operator import NTKOperator

Array = NDArray[np.float64]
Times = Callable[[Array], Array]  # products with a kernel

#: Of Student's t, for intervals that cover in 95 % of seeds: squares of probes are skewed.
LEVEL = 0.995
#: Width of the kernel that smooths the density, in decades.
SMOOTHING = 0.15


@dataclass(frozen=True, repr=False)
class OperatorConditioning:
    """What products with a kernel K (n, n) tell of its spectrum; intervals have a level of 95 %.

    ``lambda_max`` is at most the largest eigenvalue, and within ``lambda_max_error`` of it lies an
    eigenvalue: the largest one, unless the few steps from random starts missed that.
    ``lambda_min_bound`` is at least the smallest eigenvalue, ``trace`` exact, ``frobenius`` the
    norm of K with its interval. ``density`` (points, 3) are the share of eigenvalues per decade of
    λ at ``log10_lambda`` (points,), and the ends of its interval over probes; smoothed by a
    Gaussian of `SMOOTHING` decades. ``products`` counts those with K.
    """

    n: int
    lambda_max: float
    lambda_max_error: float
    lambda_min_bound: float
    trace: float
    frobenius: tuple[float, float, float]
    log10_lambda: Array
    density: Array
    products: int

    @property
    def kappa_bound(self) -> float:
        """A lower bound on kappa."""
        return self.lambda_max / self.lambda_min_bound

    @property
    def effective_rank(self) -> tuple[float, float, float]:
        """tr(K)² / |K|_F², and the ends of its interval."""
        middle, low, high = self.frobenius
        return self.trace**2 / middle**2, self.trace**2 / high**2, self.trace**2 / low**2

    def __repr__(self) -> str:
        rank, low, high = self.effective_rank
        return (
            f"kappa is at least {self.kappa_bound:.4g}; lambda_max {self.lambda_max:.6g}, within "
            f"{self.lambda_max_error:.1e} of an eigenvalue; effective rank {rank:.4g} ({low:.4g} "
            f"to {high:.4g}) of {self.n}; by {self.products} products"
        )


@overload
def condition(k: NTKOperator) -> OperatorConditioning: ...


@overload
def condition(k: NDArray[np.floating] | Tensor) -> Conditioning: ...


def condition(
    k: NDArray[np.floating] | Tensor | NTKOperator,
) -> Conditioning | OperatorConditioning:
    """Return the conditioning of a kernel ``k`` (n, n): κ = λ_max / λ_min with error bounds.

    ``k`` is symmetric, positive semidefinite and in float64 (or float32, which resolves far less):
    a tensor on any device, or whatever `numpy.asarray` takes. It is left as it is. All eigenvalues
    are computed below `FULL_SPECTRUM_BELOW` samples, only the extreme ones from there on, and
    bounds from products of an `ntk_operator`, see `condition_operator`.

    Raises:
        KernelError: if ``k`` is no such matrix, is zero or not finite, or has a negative eigenvalue
            beyond rounding; `UnresolvedError`, if its asymmetry explains all eigenvalues.
        NotEnoughMemoryError: if a large kernel needs its whole spectrum, which does not fit.

    >>> condition(np.diag([4.0, 2.0, 1.0]))
    kappa 4, known to 1e-14 of it; rank 3 of 3; eigenvalues from 4 to 1, floor 2.7e-15 (float64)
    >>> condition(np.ones((2, 2))).kappa is None
    True
    """
    if isinstance(k, LinearOperator):
        if not hasattr(k, "trace"):
            raise KernelError("products alone have no trace; give the matrix, or an `ntk_operator`")
        return condition_operator(k)
    if not getattr(k, "is_cuda", False) or len(k) < FULL_SPECTRUM_BELOW:
        try:
            k = k.numpy(force=True) if hasattr(k, "numpy") else np.asarray(k)
        except (TypeError, ValueError) as error:  # TypeError: of bfloat16, or sparse
            raise KernelError(f"the kernel is no matrix: {one_line(error)}") from error
    large = k.ndim == 2 and len(k) >= FULL_SPECTRUM_BELOW
    solve: Callable[[Any], Conditioning] = extreme_conditioning if large else conditioning
    return solve(k)


def condition_operator(
    k: NTKOperator, *, probes: int = 6, steps: int = 16, seed: int = 0
) -> OperatorConditioning:
    """Return bounds of the spectrum of ``k``, from ``probes`` Lanczos runs of ``steps`` products.

    As many products again estimate the Frobenius norm. The runs start at random vectors of the
    ``seed``'s role "probes"; the same seed gives the same bytes. A bar shows long work.

    Raises `KernelError` if ``k`` is zero or not finite, or for fewer than two probes.
    """
    if probes < 2 or steps < 1:
        raise KernelError(f"{probes} probes of {steps} steps: give two probes, and a step, or more")
    n, trace = k.shape[0], k.trace()
    if not np.isfinite(trace):
        raise KernelError("some of the kernel's entries are not finite")
    if trace == 0:
        raise KernelError(ZERO_KERNEL)
    steps, rng = min(steps, n), generator(seed, "probes")
    sketched = max(2, min(probes * steps // 3, n // 2))
    products = probes * steps + 3 * sketched
    bar = tqdm(total=products, unit="product", delay=3, disable=None)

    def times(v: Array) -> Array:
        product: Array = k @ v
        bar.update(v.shape[1] if v.ndim == 2 else 1)
        return product

    with bar:
        runs = _lanczos(times, rng.standard_normal((n, probes)), steps)
        frobenius = _frobenius(times, n, sketched, rng)
    largest, error = max((values[-1], residuals[-1]) for values, _, residuals in runs)
    floor = n * np.finfo(k.dtype).eps * largest
    smallest = min(values[0] for values, _, _ in runs)
    grid, density = _density(runs, largest, floor)
    return OperatorConditioning(
        n=n,
        lambda_max=float(largest),
        lambda_max_error=float(error + floor),  # the residual's own rounding
        lambda_min_bound=float(max(smallest, floor)),
        trace=trace,
        frobenius=frobenius,
        log10_lambda=grid,
        density=density,
        products=products,
    )


def _lanczos(times: Times, starts: Array, steps: int) -> list[tuple[Array, Array, Array]]:
    """Return Ritz values (m,), ascending, their weights and residuals of each start (n, runs)."""
    basis = np.empty((starts.shape[1], steps, len(starts)))
    diagonal, beside = (np.empty((len(basis), steps)) for _ in range(2))
    w = starts.T
    for step in range(steps):
        size = np.linalg.norm(w, axis=1, keepdims=True)
        basis[:, step] = w / np.where(size > 0, size, 1)  # 0: the space is invariant
        w, seen = times(basis[:, step].T).T, basis[:, : step + 1]
        diagonal[:, step] = np.vecdot(w, basis[:, step])
        for _ in range(2):  # twice is enough, against rounding
            w = w - (seen.mT @ (seen @ w[..., None]))[..., 0]
        beside[:, step] = np.linalg.norm(w, axis=1)
    runs = []
    for along, off in zip(diagonal, beside, strict=True):
        ends = np.flatnonzero(off < 1e-12 * along.max())  # the space is invariant, the rest noise
        m = 1 + (ends[0] if len(ends) else steps - 1)
        values, vectors = eigh_tridiagonal(along[:m], off[: m - 1])
        runs.append((values, vectors[0] ** 2, off[m - 1] * np.abs(vectors[-1])))
    return runs


def _density(
    runs: list[tuple[Array, Array, Array]], largest: float, floor: float
) -> tuple[Array, Array]:
    """Return decades (points,), and the density there with its interval over runs (points, 3)."""
    grid = np.arange(np.log10(floor), np.log10(largest) + 3 * SMOOTHING, SMOOTHING / 3)
    of_runs = []
    for values, weights, _ in runs:
        away = (grid[:, None] - np.log10(np.maximum(values, floor))) / SMOOTHING
        of_runs.append(np.exp(-(away**2) / 2) @ weights / (np.sqrt(2 * np.pi) * SMOOTHING))
    return grid, _interval(np.array(of_runs))


def _frobenius(
    times: Times, n: int, m: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the Frobenius norm with its interval, by Hutch++ of K² with 3 m products.

    It is Algorithm 1 of Meyer, Musco, Musco & Woodruff (2021).
    """
    sketch = qr(times(rng.choice([-1.0, 1.0], (n, m))), mode="economic")[0]
    rest = rng.choice([-1.0, 1.0], (n, m))
    rest -= sketch @ (sketch.T @ rest)
    exact, of_rest = (np.square(times(v)).sum(axis=0) for v in (sketch, rest))
    middle, low, high = np.sqrt(exact.sum() + _interval(of_rest)).tolist()
    return middle, low, high


def _interval(samples: Array) -> Array:
    """Return the mean over samples, the first axis, and its interval by Student's t (..., 3)."""
    mean, count = samples.mean(axis=0), len(samples)
    half = stdtrit(count - 1, (1 + LEVEL) / 2) * samples.std(axis=0, ddof=1) / np.sqrt(count)
    return np.stack([mean, np.maximum(0, mean - half), mean + half], axis=-1)
