"""Kernels of networks of finite width on blocks of samples."""

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.gradient_tiles import full_precision
from ntk_conditioning.networks.mlp import MLP, is_linear, linear_embedding_map, linear_map
from ntk_conditioning.spectra.block_kernels import BlockKernel, MemoryBudget
from ntk_conditioning.spectra.condition_numbers import Conditioning, conditioning_from_factor

EmpiricalName = Literal["empirical_ntk", "empirical_nngp"]


class EmpiricalKernel(BlockKernel):
    """A kernel of a network of finite width, in the network's precision and on its device."""

    def __init__(self, mlp: MLP, name: EmpiricalName, budget: MemoryBudget) -> None:
        self.budget, self.is_linear = budget, is_linear(mlp)
        self._mlp, embeds = mlp, name == "empirical_nngp"
        self._kernel = empirical.nngp if embeds else empirical.ntk
        # Numbers that a sample is turned into: its embedding, or its gradient's factors.
        numbers = mlp.dim + mlp.width * (1 if embeds else 2 * mlp.depth)
        self.itemsize, self.row_bytes = mlp.dtype.itemsize, mlp.dtype.itemsize * numbers
        self.copies = 1 if mlp.device.type == "cpu" else 2  # with Cholesky's factor
        if self.is_linear:
            with full_precision():
                self._map = linear_embedding_map(mlp) if embeds else linear_map(mlp)

    def conditioning(self, block: NDArray[np.float64]) -> Conditioning:
        samples = torch.from_numpy(block).to(dtype=self._mlp.dtype, device=self._mlp.device)
        if self.is_linear:
            with full_precision():
                factor = samples @ self._map
            return conditioning_from_factor(factor.numpy(force=True))
        n = len(samples)
        usual = max(empirical.LEAST_MEMORY, n * n * self.itemsize // 2)  # for gradients
        at_once = self.budget.threads if n < self.budget.full_spectrum_below else 1
        left = max(0, self.budget.available - self.needed(n)) // at_once
        return self._solved(self._kernel(self._mlp, samples, memory=min(usual, left)))
