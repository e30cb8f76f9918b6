"""The conditioning of a kernel as a line to read, for notebooks."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.spectra.block_kernels import MemoryBudget
from ntk_conditioning.spectra.conditioning import Conditioning, conditioning
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning

if TYPE_CHECKING:
    from torch import Tensor


class ConditioningInWords(Conditioning):
    """A `Conditioning` that is shown in words."""

    def __repr__(self) -> str:
        kappa = "unresolved" if self.kappa is None else f"{self.kappa:.4g}"
        if self.kappa_error is not None:
            kappa += f" ± {self.kappa_error:.0e} of it by the solver"
        smallest = "" if self.lambda_min is None else f", smallest {self.lambda_min:.4g}"
        words = [
            f"kappa {kappa}",
            f"rank {self.numerical_rank} of {self.n}",
            f"eigenvalues: largest {self.lambda_max:.4g}{smallest}, "
            f"floor {self.resolution_floor:.1e} ({self.dtype})",
        ]
        if self.kappa is None:
            words.insert(1, f"{self.kappa_nonzero:.4g} over the eigenvalues above the floor")
        return "; ".join(words)


def condition(k: NDArray[np.floating] | Tensor) -> ConditioningInWords:
    """Return the conditioning of a kernel ``k`` (n, n), a tensor or an array, that prints in words.

    Of a small kernel the whole spectrum is solved for, of a large one the extreme eigenvalues; the
    kernel is left as it is.

    Raises `KernelError` and `UnresolvedError` as `spectra.conditioning` does.

    >>> numbers = condition(np.diag([4.0, 2.0, 1.0]))
    >>> numbers.kappa
    4.0
    >>> numbers
    kappa 4 ± 3e-15 of it by the solver; rank 3 of 3; eigenvalues: largest 4, smallest 1, floor 2.7e-15 (float64)
    >>> condition(np.ones((2, 2))).kappa is None
    True
    """
    solved: Any
    if len(k) >= MemoryBudget(available=0).full_spectrum_below:
        solved = extreme_conditioning(k)
    else:
        solved = conditioning(k if isinstance(k, np.ndarray) else k.numpy(force=True))
    return ConditioningInWords(**{f.name: getattr(solved, f.name) for f in fields(solved)})
