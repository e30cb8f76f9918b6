"""Trainings whose kernels and sharpness can be measured along the way, see `kernels_along`."""

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Along
from ntk_conditioning.training.kernels_along import ALONG, kernel_numbers
from ntk_conditioning.training.trainer import Split, Training


class Measured(Training):
    """A `Training` that also measures, once it is asked to with `measure_along`."""

    _along: Along | None = None

    def measure_along(self, along: Along) -> None:
        """Also measure kernels and sharpness; to be said before all else."""
        self._along = along
        self._initial_kernels: dict[int, NDArray[np.float64]] = {}  # by seed
        shape = (self.course.epochs + 1, len(self.members))
        self.metrics |= {name: np.full(shape, np.nan) for name in ALONG}

    @property
    def block_size(self) -> int:
        """The number of samples on which they are measured."""
        return min(self._n, self._along.samples) if self._along else 0

    @property
    def measured(self) -> list[int]:
        """The epochs at which kernels are measured."""
        return self._along.epochs(self.course.evaluated) if self._along else []

    def advance(
        self, paused: Callable[[], bool] = lambda: False, workers: Executor | None = None
    ) -> bool:
        """Finish the epoch as `Training.advance` does, and measure the networks that are left."""
        epoch = self.epoch
        if not super().advance(paused, workers):
            return False
        if epoch in self.measured:
            for number, member in enumerate(self.members):
                if member.seed not in self._initial_kernels:  # made anew where a state goes on
                    (group,) = self._begin([number])
                    k = self._kernel(group, 0, self._block(member.seed).x)
                    self._initial_kernels[member.seed] = k.numpy(force=True)
            self._map(partial(self._measure, epoch), workers)
        return True

    @abstractmethod
    def _kernel(self, group: Any, place: int, x: Tensor) -> Tensor:
        """Return the kernel of the member at a place of a group, in float64."""

    @abstractmethod
    def _sharpness(
        self, group: Any, place: int, block: Split, *, start: np.random.Generator
    ) -> float:
        """Return the sharpness of the member at a place of a group."""

    def _measure(self, epoch: int, group: Any) -> None:
        """Measure kernels and sharpness of a group's members after an epoch."""
        for place, number in enumerate(group.numbers):
            seed = self.members[number].seed
            block, start = self._block(seed), generator(seed, "lanczos")
            k = self._kernel(group, place, block.x).numpy(force=True)
            codes = self._loss.codes[block.y].numpy(force=True).astype(np.float64)
            numbers = kernel_numbers(k, self._initial_kernels[seed], codes)
            numbers["sharpness"] = self._sharpness(group, place, block, start=start)
            for name, value in numbers.items():
                self.metrics[name][epoch, number] = value

    def _block(self, seed: int) -> Split:
        """Return the samples on which kernels of a seed are measured."""
        rows = torch.from_numpy(generator(seed, "blocks").permutation(self._n)[: self.block_size])
        return Split(*(t[rows.to(t.device)] for t in self._train[seed]))
