"""Blocks of samples, and what kernels of finite and infinite width share on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError
from ntk_conditioning.memory import GB, NotEnoughMemoryError, kernel_bytes
from ntk_conditioning.spectra.condition_numbers import Conditioning, conditioning
from ntk_conditioning.spectra.extremal_eigenvalues import FULL_SPECTRUM_BELOW, extreme_conditioning
from ntk_conditioning.threads import limit_threads

if TYPE_CHECKING:
    from torch import Tensor  # which takes seconds to import, and infinite width does without


def draw_blocks(
    n: int,
    *,
    size: int | Literal["all"],
    count: int | Literal["all"],
    generator: np.random.Generator,
) -> list[NDArray[np.intp]]:
    """Return the rows of ``count`` disjoint random blocks of ``size`` out of ``n``.

    Their rows ascend, as liu2023relu's condition numbers are taken. ``size="all"`` makes one block
    of the whole dataset, and ``count="all"`` as many whole blocks as fit: the ``n % size`` samples
    left over are in none. Raises `UserError` for more than fit.

    >>> blocks = draw_blocks(7, size=3, count="all", generator=np.random.default_rng(0))
    >>> len(blocks), len(set(np.concatenate(blocks).tolist()))
    (2, 6)
    """
    if size == "all":
        return [np.arange(n)]
    if size > n:
        raise UserError(f"kernel_size {size} is larger than the dataset's {n} samples")
    fit = n // size
    wanted = fit if count == "all" else count
    if wanted > fit:
        raise UserError(
            f"{wanted} disjoint blocks of {size} need more than {n} samples; at most {fit} fit"
        )
    return [np.sort(rows) for rows in generator.permutation(n)[: wanted * size].reshape(-1, size)]


@dataclass(frozen=True)
class MemoryBudget:
    """The bytes that are ``available`` to kernels, and how these are solved.

    From ``full_spectrum_below`` samples on, only the extreme eigenvalues are computed, within the
    kernel's own memory. Below, each of the ``threads`` solves a block of its own. The
    error of a kernel that does not fit ends with ``remedy``.
    """

    available: int
    full_spectrum_below: int = FULL_SPECTRUM_BELOW
    threads: int = 1
    remedy: str = "take fewer samples, or find a larger machine"


class BlockKernel(ABC):
    """A kernel of one network, to be conditioned on blocks of samples.

    ``itemsize`` are the bytes of an entry, ``row_bytes`` those of a sample's features and gradient;
    ``copies`` of a large kernel are in memory. Linear networks have a factor instead.
    """

    budget: MemoryBudget
    is_linear: bool
    itemsize, row_bytes, copies = 8, 0, 1

    @abstractmethod
    def conditioning(self, block: NDArray[np.float64]) -> Conditioning:
        """Return the conditioning of the kernel on a block of samples (n, d), in float64."""

    def on_blocks(
        self, x: NDArray[np.float64], blocks: Sequence[NDArray[np.intp]]
    ) -> list[Conditioning]:
        """Return the conditioning of the kernel on each block, by the rows of the samples (n, d).

        Raises `NotEnoughMemoryError` if the first does not fit; the others have its size.
        """
        self.require_memory(n := len(blocks[0]))
        at_once = self.budget.threads if n < self.budget.full_spectrum_below else 1
        if min(at_once, len(blocks)) == 1:
            return [self.conditioning(x[block]) for block in blocks]
        # Small blocks are computed side by side, each by one thread: threads that share a small
        # product wait for each other more than they compute.
        limit_threads(1)
        try:
            with ThreadPoolExecutor(at_once, initializer=limit_threads, initargs=(1,)) as pool:
                return [*pool.map(lambda block: self.conditioning(x[block]), blocks)]
        finally:
            limit_threads(at_once)

    def needed(self, n: int) -> int:
        """Return the bytes for conditioning kernels of ``n`` samples."""
        copies = self.copies
        if n < self.budget.full_spectrum_below:  # LAPACK copies the kernel, and in float64
            copies = self.budget.threads * (2 if self.itemsize == 8 else 5)
        return kernel_bytes(n, itemsize=self.itemsize, row_bytes=self.row_bytes, copies=copies)

    def require_memory(self, n: int) -> None:
        """Raise `NotEnoughMemoryError` if ``n`` samples do not fit, naming what does."""
        available, needed = self.budget.available, self.needed(n)
        if self.is_linear or needed <= available:
            return
        most = next((m for m in range(n, 0, -1) if self.needed(m) <= available), 0)
        raise NotEnoughMemoryError(
            f"a kernel of {n} samples in float{8 * self.itemsize} needs {needed / GB:.1f} GB and "
            f"{available / GB:.1f} GB are available; at most {most} samples fit: "
            + self.budget.remedy
        )

    def _solved(self, k: NDArray[np.float64] | Tensor, entry_error: float = 0.0) -> Conditioning:
        """Return the conditioning of a kernel by the method that suits its size."""
        if len(k) >= self.budget.full_spectrum_below:
            return extreme_conditioning(k, entry_error=entry_error, overwrite=True)
        whole = k if isinstance(k, np.ndarray) else k.numpy(force=True)
        return conditioning(whole, entry_error=entry_error)
