"""The conditioning of a kernel as a line to read, for notebooks."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.conditioning import Conditioning, KernelError, conditioning
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning

if TYPE_CHECKING:
    from torch import Tensor


class ConditioningInWords(Conditioning):
    """A `Conditioning` that is shown in words."""

    def __repr__(self) -> str:
        if self.kappa is None or self.lambda_min is None or self.kappa_error is None:
            words = f"kappa is not resolved, {self.kappa_nonzero:.4g} above the floor"
        else:
            # errors of the solver, and of the entries by their rounding
            error = self.kappa_error + self.resolution_floor / self.lambda_min
            words = f"kappa {self.kappa:.4g}, known to {error:.0e} of it"
        smallest = "" if self.lambda_min is None else f" to {self.lambda_min:.4g}"
        return (
            f"{words}; rank {self.numerical_rank} of {self.n}; "
            f"eigenvalues from {self.lambda_max:.4g}{smallest}, "
            f"floor {self.resolution_floor:.1e} ({self.dtype})"
        )


def condition(k: NDArray[np.floating] | Tensor) -> ConditioningInWords:
    """Return the conditioning of a kernel ``k`` (n, n), a tensor or an array, that prints in words.

    What else NumPy makes an array of is taken, too: lists of lists, data frames.

    Of a small kernel the whole spectrum is solved for, of a large one the extreme eigenvalues; the
    kernel is left as it is.

    Raises `KernelError` and `UnresolvedError` as `spectra.conditioning` does.

    >>> numbers = condition(np.diag([4.0, 2.0, 1.0]))
    >>> numbers.kappa
    4.0
    >>> print(numbers)
    kappa 4, known to 1e-14 of it; rank 3 of 3; eigenvalues from 4 to 1, floor 2.7e-15 (float64)
    >>> condition(np.ones((2, 2))).kappa is None
    True
    """
    solved: Any
    k = _as_kernel(k)
    if k.ndim == 2 and len(k) >= MemoryBudget(available=0).full_spectrum_below:
        solved = extreme_conditioning(k)
    else:
        solved = conditioning(k if isinstance(k, np.ndarray) else k.numpy(force=True))
    return ConditioningInWords(**{f.name: getattr(solved, f.name) for f in fields(solved)})


def _as_kernel(k: Any) -> NDArray[Any] | Tensor:
    torch = sys.modules.get("torch")  # without which there are no tensors
    if torch is None or not isinstance(k, torch.Tensor):
        return np.asarray(k)
    if k.layout is not torch.strided or k.dtype is torch.bfloat16 or k.device.type == "meta":
        raise KernelError(
            f"the kernel is {k.dtype} of layout {k.layout} on {k.device}: give a dense one of "
            "float64 (or float32)"
        )
    tensor: Tensor = k
    return tensor
