"""Ensembles of the networks of `networks.mlp`, with any number of outputs, by hand-written passes.

    z_l = s_(l-1) a_(l-1) W_l^T,   a_l = sigma(z_l),   f = s_L a_L W_(L+1)^T,

with a_0 the samples, s_0 = 1 and s_l = gain/sqrt(m_l). On a CPU every network trains by itself, in
one thread. On a GPU small ones would wait for their launches: all members are computed together,
with one more axis in front, and a step is recorded once, as a CUDA graph, and replayed.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.mlp import activate, product
from ntk_conditioning.networks.modules import MlpModule
from ntk_conditioning.training.descent import BEYOND_PLAIN
from ntk_conditioning.training.steps import Group
from ntk_conditioning.training.trainer import Training


class Ensemble(Training):
    """Networks of `networks.mlp`, as `make_network` makes them; arguments are a `Training`'s.

    ``together`` says whether the products of all members are computed together.

    Raises `UserError` if the descent is not plain.
    """

    def __init__(self, *given: Any, together: bool = False, **options: Any) -> None:
        self._together = together
        # the group that was the last to begin on a GPU, and its step, once recorded
        self._began: Group | None = None
        self._recorded: Callable[[Mapping[int, Tensor]], None] | None = None
        super().__init__(*given, **options)
        if not self.descent.plain:
            raise UserError(f"an Ensemble has no {', '.join(BEYOND_PLAIN)}; use a Training")
        self._replays = together and self._like.is_cuda

    def _begin(self, numbers: Sequence[int]) -> list[Any]:
        groups = super()._begin(numbers)
        if not groups:
            return []
        *hidden, _ = groups[0].network.weights
        self._activation = groups[0].network.activation
        self._scales = [1.0, *(self._activation.gain / math.sqrt(len(weight)) for weight in hidden)]
        if not self._together:
            return groups
        each = [group.tensors for group in groups]
        return [Group(numbers, {name: torch.cat([t[name] for t in each]) for name in each[0]})]

    def _descend(self, group: Group, rows: Mapping[int, Any], *, last: bool) -> None:
        take = partial(self._take_step, group, measure=last)
        # of several groups, threads would disturb each other's records
        if last or not self._replays:
            take(rows)
        elif self._began is not group:  # its first step makes the libraries ready
            _ = group.index  # now, for that waits
            self._began, self._recorded = group, take if waits(partial(take, rows)) else None
        else:
            self._recorded = self._recorded or Recorded(take, rows)
            self._recorded(rows)

    @torch.no_grad()
    def _take_step(self, group: Group, rows: Mapping[int, Any], *, measure: bool) -> None:
        """Do a step on these rows of each seed's samples; a GPU is waited for only to measure.

        J^T p is added to the weights in place, or to their velocities and these to the weights,
        where J is the Jacobian of the outputs and p minus the rate times the gradient of the loss.
        """
        x, y = self._gather(group, self._train, rows)
        rates = self._rates[group.index]
        pace = (-rates / x.shape[-2]).to(x)
        if len(rates) > 1:
            pace = pace[:, None, None]
        weights, velocities = self._matrices(group, "network"), self._matrices(group, "momentum")
        inputs, slopes, squares = [x], [], []
        for scale, weight in zip(self._scales, weights[:-1], strict=False):
            z = product(inputs[-1], weight.mT, scale)
            a, slope = activate(self._activation, z)
            inputs.append(a)
            slopes.append(slope)
        f = product(inputs[-1], weights[-1].mT, self._scales[-1])
        back = self._loss.gradient(f, y).mul_(pace)
        for layer in reversed(range(len(weights))):
            weight, scale, delta, a = weights[layer], self._scales[layer], back.mT, inputs.pop()
            if layer:  # before the weight moves
                back = slopes.pop()(product(back, weight, scale))
            moved, kept = weight, 1.0
            if velocities:
                moved, kept = velocities[layer], self.descent.momentum
            if measure:
                change = product(delta, a, scale)
                squares.append(change.square().sum((-2, -1), dtype=torch.float64))
                moved.mul_(kept).add_(change)
            else:
                add = moved.addmm_ if moved.ndim == 2 else moved.baddbmm_
                add(delta, a, beta=kept, alpha=scale)
            if velocities:
                weight += moved
        self._watch_step(group, f, y)
        if measure:
            norm = torch.stack(squares).sum(0).sqrt()
            norms = np.atleast_1d(norm.numpy(force=True)) / rates.numpy(force=True)
            self.metrics["gradient_norm"][self.epoch, group.numbers] = norms

    def _forward(self, group: Group, x: Tensor) -> tuple[Tensor, None]:
        *hidden, last = self._matrices(group, "network")
        for scale, weight in zip(self._scales, hidden, strict=False):
            x, _ = activate(self._activation, product(x, weight.mT, scale))
        return product(x, last.mT, self._scales[-1]), None

    def _network(self, group: Group, place: int, x: Tensor) -> MlpModule:
        weights = [t[place].clone() for name, t in group.tensors.items() if "network" in name]
        return MlpModule(weights, self._activation)

    def _evaluates_as_trained(self) -> bool:
        return True

    @staticmethod
    def _matrices(group: Group, kind: str) -> list[Tensor]:
        """Return the tensors of a kind by layers, of a single member without the first axis."""
        matrices = [t for name, t in group.tensors.items() if name.startswith(kind)]
        return [t[0] for t in matrices] if len(group.numbers) == 1 else matrices


def waits(function: Callable[[], None]) -> bool:
    """Call a function; return whether it waited for the GPU, so that it cannot be recorded."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            function()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return any("called a synchronizing" in str(warning.message) for warning in caught)


class Recorded:
    """A function of some rows' numbers, by seed, that changes tensors in place.

    It must not wait for the GPU (`waits`), and all that it reads and changes must stay in place.
    """

    def __init__(
        self, function: Callable[[Mapping[int, Tensor]], None], rows: Mapping[int, Tensor]
    ) -> None:
        self._rows = {seed: chosen.clone() for seed, chosen in rows.items()}
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            function(self._rows)

    def __call__(self, rows: Mapping[int, Tensor]) -> None:
        """Do for these rows, as many as before, what was recorded."""
        for seed, chosen in rows.items():
            self._rows[seed].copy_(chosen)
        self._graph.replay()
