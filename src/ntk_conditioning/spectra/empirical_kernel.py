"""Kernels of finite width on blocks, conditioned by the method that suits their size."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.mlp import MLP, is_linear, linear_embedding_map, linear_map
from ntk_conditioning.spectra.block_kernels import BlockKernel, MemoryBudget
from ntk_conditioning.spectra.conditioning import (
    Conditioning,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning
from ntk_conditioning.spectra.panel_matrix import scratch_bytes

EmpiricalName = Literal["empirical_ntk", "empirical_nngp"]


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
            memory.require(
                n,
                self.needed,
                itemsize=self._mlp.dtype.itemsize,
                available=self.budget.available,
                remedy=self.budget.remedy,
            )

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
