"""Extreme eigenvalues of a kernel by ours and by the solvers of SciPy, NumPy and torch."""

import functools
from collections.abc import Callable

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray

Kernel = NDArray[np.float64]
Extremes = tuple[float, float]


def _ours(k: Kernel, *, overwrite: bool = False) -> Extremes:
    from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning

    found = extreme_conditioning(k, overwrite=overwrite)
    return found.lambda_max, found.lambda_min


def _scipy(k: Kernel, *, overwrite: bool = False) -> Extremes:
    # Only columns that lie in a row in memory can be overwritten; k is symmetric.
    return _ends(scipy.linalg.eigvalsh(k.T, overwrite_a=overwrite, check_finite=False))


def _numpy(k: Kernel) -> Extremes:
    return _ends(np.linalg.eigvalsh(k))


def _numpy_eig(k: Kernel) -> Extremes:
    return _ends(np.sort(np.linalg.eig(k).eigenvalues.real))


def _torch(k: Kernel) -> Extremes:
    return _ends(torch.linalg.eigvalsh(torch.from_numpy(k)).numpy())


def _ends(ascending: NDArray[np.float64]) -> Extremes:
    return float(ascending[-1]), float(ascending[0])


METHODS: dict[str, Callable[[Kernel], Extremes]] = {
    "ours": _ours,
    "scipy": _scipy,
    "numpy": _numpy,
    "torch": _torch,
    "numpy_eig": _numpy_eig,
}


def in_place(method: str) -> Callable[[Kernel], Extremes]:
    """Return a method, allowed to overwrite the kernel if it can."""
    if method in ("ours", "scipy"):
        return functools.partial(METHODS[method], overwrite=True)  # type: ignore[call-arg]
    return METHODS[method]
