"""The conditioning of any kernel that a notebook has, by the method that suits its size."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.conditioning import Conditioning, KernelError, conditioning
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning

if TYPE_CHECKING:
    from torch import Tensor


def condition(k: NDArray[np.floating] | Tensor) -> Conditioning:
    """Return the conditioning of a kernel ``k`` (n, n), a tensor or an array.

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
    torch = sys.modules.get("torch")  # without which there are no tensors
    if torch is None or not isinstance(k, torch.Tensor):
        k = np.asarray(k)
    elif k.layout is not torch.strided or k.dtype is torch.bfloat16 or k.device.type == "meta":
        raise KernelError(
            f"the kernel is {k.dtype} of layout {k.layout} on {k.device}: give a dense one of "
            "float64 (or float32)"
        )
    if k.ndim == 2 and len(k) >= MemoryBudget(available=0).full_spectrum_below:
        return extreme_conditioning(k)
    return conditioning(k if isinstance(k, np.ndarray) else k.numpy(force=True))
