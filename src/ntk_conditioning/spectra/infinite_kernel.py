"""Kernels of infinite width on blocks, conditioned by the method that suits their size."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning import memory
from ntk_conditioning.kernels import infinite
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.spectra.block_kernels import BlockKernel, MemoryBudget
from ntk_conditioning.spectra.conditioning import (
    Conditioning,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.spectra.extremal_eigenvalues import extreme_conditioning

InfiniteName = Literal["infinite_ntk", "nngp"]


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
            memory.require(
                n,
                needed,
                itemsize=8,
                available=self.budget.available,
                remedy=self.budget.remedy,
                single=False,
            )

    def conditioning(self, block: NDArray[np.float64]) -> Conditioning:
        if self._is_linear:  # a multiple of the Gram matrix, whose factor is the data
            scale = np.sqrt(self._depth + 1.0) if self._is_ntk else 1.0
            return conditioning_from_factor(scale * block)
        layer = infinite.layer_at(block, depth=self._depth, activation=self._activation)
        kernel = layer.ntk if self._is_ntk else layer.nngp
        if self.budget.is_small(len(kernel)):
            return conditioning(kernel, entry_error=layer.error)
        return extreme_conditioning(kernel, entry_error=layer.error, overwrite=True)
