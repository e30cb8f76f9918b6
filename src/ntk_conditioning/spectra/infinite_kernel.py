"""Kernels of networks of infinite width on blocks of samples."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.kernels.infinite_network import InfiniteNetwork
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.spectra.block_kernels import BlockKernel, MemoryBudget
from ntk_conditioning.spectra.condition_numbers import Conditioning, conditioning_from_factor

InfiniteName = Literal["infinite_ntk", "nngp"]


class InfiniteKernel(BlockKernel):
    """A kernel of the network of infinite width, in float64."""

    def __init__(
        self, activation: Activation, depth: int, name: InfiniteName, budget: MemoryBudget
    ) -> None:
        self.budget, self.is_linear = budget, depth == 0 or activation.negative_slope == 1
        self._activation, self._depth, self._is_ntk = activation, depth, name == "infinite_ntk"

    def conditioning(self, block: NDArray[np.float64]) -> Conditioning:
        if self.is_linear:  # a multiple of the Gram matrix, whose factor is the data
            scale = np.sqrt(self._depth + 1.0) if self._is_ntk else 1.0
            return conditioning_from_factor(scale * block)
        layer = InfiniteNetwork(block, depth=self._depth, activation=self._activation)
        return self._solved(layer.ntk if self._is_ntk else layer.nngp, layer.error)
