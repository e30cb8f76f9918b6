"""Kernels of networks on blocks of samples, conditioned by the method that suits their size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.kernels import empirical, infinite
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import MLP, is_linear, linear_embedding_map, linear_map
from ntk_conditioning.spectra.conditioning import (
    Conditioning,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning
from ntk_conditioning.spectra.panel_matrix import scratch_bytes

EmpiricalName = Literal["empirical_ntk", "empirical_nngp"]
InfiniteName = Literal["infinite_ntk", "nngp"]

REMEDY = "take fewer samples, or find a larger machine"


@dataclass(frozen=True)
class MemoryBudget:
    """The bytes that are ``available`` to kernels, and how these are solved.

    From ``full_spectrum_below`` samples on, only the extreme eigenvalues are computed, within the
    kernel's own memory. Below, each of the ``threads`` solves a block of its own.
    """

    available: int
    full_spectrum_below: int = 2048
    threads: int = 1

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


class EmpiricalKernel(BlockKernel):
    """A kernel of a network of finite width."""

    def __init__(self, mlp: MLP, name: EmpiricalName, budget: MemoryBudget) -> None:
        self._mlp, self.budget = mlp, budget
        embeds = name == "empirical_nngp"
        self._kernel = empirical.nngp if embeds else empirical.ntk
        # Numbers that a sample is turned into: its embedding, or its gradient's factors.
        self._numbers = mlp.dim + mlp.width * (1 if embeds else 2 * mlp.depth)
        self._map = None
        if is_linear(mlp):
            self._map = linear_embedding_map(mlp) if embeds else linear_map(mlp)

    def needed(self, n: int, itemsize: int) -> int:
        """Return the bytes for a kernel of ``n`` samples, its conditioning and its gradients."""
        needed = self.budget.needed(n, itemsize=itemsize, row_bytes=itemsize * self._numbers)
        if self.budget.is_small(n) or self._mlp.device.type == "cpu":
            return needed
        return needed + scratch_bytes(n, itemsize=itemsize)

    def require_memory(self, n: int) -> None:
        if self._map is None:  # else no kernel is formed
            itemsize, available = self._mlp.dtype.itemsize, self.budget.available
            memory.require(n, self.needed, itemsize=itemsize, available=available, remedy=REMEDY)

    def conditioning(self, block: NDArray[np.float64]) -> Conditioning:
        samples = torch.from_numpy(block).to(dtype=self._mlp.dtype, device=self._mlp.device)
        if self._map is not None:
            return conditioning_from_factor((samples @ self._map).numpy(force=True))
        kernel = self._kernel(self._mlp, samples, memory=self._for_gradients(len(samples)))
        if self.budget.is_small(len(kernel)):
            return conditioning(kernel.numpy(force=True))
        return extreme_conditioning(kernel, overwrite=True)

    def _for_gradients(self, n: int) -> int:
        """Return the bytes that gradients may take beside the kernel of ``n`` samples."""
        itemsize = self._mlp.dtype.itemsize
        usual = max(empirical.LEAST_MEMORY, n * n * itemsize // 2)
        return min(usual, max(0, self.budget.available - self.needed(n, itemsize)))


class InfiniteKernel(BlockKernel):
    """A kernel of the network of infinite width, in float64."""

    def __init__(
        self, activation: Activation, depth: int, name: InfiniteName, budget: MemoryBudget
    ) -> None:
        self._activation, self._depth, self.budget = activation, depth, budget
        self._is_ntk = name == "infinite_ntk"
        self._is_linear = depth == 0 or activation.negative_slope == 1

    def require_memory(self, n: int) -> None:
        def needed(samples: int, itemsize: int) -> int:
            return self.budget.needed(samples, itemsize=itemsize)

        if not self._is_linear:
            available = self.budget.available
            memory.require(n, needed, itemsize=8, available=available, remedy=REMEDY, single=False)

    def conditioning(self, block: NDArray[np.float64]) -> Conditioning:
        if self._is_linear:  # a multiple of the Gram matrix, whose factor is the data
            scale = np.sqrt(self._depth + 1.0) if self._is_ntk else 1.0
            return conditioning_from_factor(scale * block)
        layer = infinite.layer_at(block, depth=self._depth, activation=self._activation)
        kernel = layer.ntk if self._is_ntk else layer.nngp
        if self.budget.is_small(len(kernel)):
            return conditioning(kernel, entry_error=layer.error)
        return extreme_conditioning(kernel, entry_error=layer.error, overwrite=True)
