"""What kernels of networks share that are conditioned on blocks of samples.

Those of finite and of infinite width are modules of their own, so that a program depends on one
of them alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.spectra.conditioning import Conditioning


@dataclass(frozen=True)
class MemoryBudget:
    """The bytes that are ``available`` to kernels, and how these are solved.

    From ``full_spectrum_below`` samples on, only the extreme eigenvalues are computed, within the
    kernel's own memory. Below, each of the ``threads`` solves a block of its own. The
    error of a kernel that does not fit ends with ``remedy``.
    """

    available: int
    full_spectrum_below: int = 2048
    threads: int = 1
    remedy: str = "take fewer samples, or find a larger machine"

    def is_small(self, n: int) -> bool:
        """Return whether the whole spectrum of a kernel of ``n`` samples is computed."""
        return n < self.full_spectrum_below

    def needed(self, n: int, *, itemsize: int, row_bytes: int = 0) -> int:
        """Return the bytes that conditioning kernels of ``n`` samples takes.

        ``itemsize`` are the bytes of an entry, ``row_bytes`` those that a sample is turned into.
        """
        # LAPACK copies the kernel, and in float64.
        copies = self.threads * (2 if itemsize == 8 else 5) if self.is_small(n) else 1
        return memory.kernel_bytes(n, itemsize=itemsize, row_bytes=row_bytes, copies=copies)


class BlockKernel(ABC):
    """A kernel of one network, to be conditioned on blocks of samples."""

    budget: MemoryBudget

    @abstractmethod
    def require_memory(self, n: int) -> None:
        """Raise `NotEnoughMemoryError` if a kernel of ``n`` samples does not fit."""

    @abstractmethod
    def conditioning(self, block: NDArray[np.float64]) -> Conditioning:
        """Return the conditioning of the kernel on a block of samples (n, d).

        A linear network's is found from its factor: the kernel would lose half of the digits.
        """
