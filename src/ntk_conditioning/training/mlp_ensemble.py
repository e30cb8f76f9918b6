"""Ensembles of the networks of `networks.mlp`, with any number of outputs, by hand-written passes.

    z_l = s_(l-1) a_(l-1) W_l^T,   a_l = sigma(z_l),   f = s_L a_L W_(L+1)^T,

with a_0 the samples, s_0 = 1 and s_l = gain/sqrt(m_l). On a CPU every network trains by itself, in
one thread. On a GPU small ones would wait for their launches: the products of all members are
computed together, and matrices have one more axis in front.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import activate, draw_weights, product
from ntk_conditioning.networks.modules import MlpModule
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.cuda_graphs import Recorded, waits
from ntk_conditioning.training.trainer import Group, Training


@dataclass(frozen=True)
class Architecture:
    """A fully connected network: its hidden layers, their width and their activation."""

    depth: int
    width: int
    activation: Activation

    def draw(self, d: int, outputs: int, *, seed: int, like: Tensor) -> list[Tensor]:
        """Return the weights that training starts from, of ``like``'s type and on its device."""
        size = {"depth": self.depth, "width": self.width, "outputs": outputs}
        return [w.to(like) for w in draw_weights(d, **size, generator=generator(seed, "init"))]


class Ensemble(Training):
    """Networks of one `Architecture` in gradient descent; other arguments are a `Training`'s.

    ``together`` says whether the products of all members are computed together.
    """

    def __init__(
        self, architecture: Architecture, *networks: Any, together: bool = False, **options: Any
    ) -> None:
        self._architecture, self._together = architecture, together
        sigma, width = architecture.activation, architecture.width
        self._scales = [1.0, *(sigma.gain / math.sqrt(width) for _ in range(architecture.depth))]
        self._began: Group | None = None  # the group that was the last to begin on a GPU
        self._step: Callable[[Mapping[int, Tensor]], None] | None = None  # its step, once recorded
        super().__init__(*networks, **options)
        self._replays = together and self._like.is_cuda

    def _begin(self, numbers: Sequence[int]) -> list[Group]:
        d, outputs = self._like.shape[1], self._loss.outputs
        drawn = {
            seed: self._architecture.draw(d, outputs, seed=seed, like=self._like)
            for seed in {self.members[number].seed for number in numbers}
        }
        # Every matrix is a copy: a BLAS may round differently by a matrix's place in memory.
        groups = []
        for part in filter(None, [numbers] if self._together else [[k] for k in numbers]):
            layers = zip(*(drawn[self.members[number].seed] for number in part), strict=True)
            tensors = {f"weights_{k}": torch.stack(layer) for k, layer in enumerate(layers)}
            if self.descent.momentum:
                pairs = enumerate([*tensors.values()])
                tensors |= {f"velocity_{k}": torch.zeros_like(t) for k, t in pairs}
            groups.append(Group(part, tensors))
        return groups

    def _descend(self, group: Group, rows: Mapping[int, Any], *, last: bool) -> None:
        take = partial(self._take_step, group, measure=last)
        # of several groups, threads would disturb each other's records
        if last or not self._replays:
            take(rows)
        elif self._began is not group:  # its first step makes the libraries ready
            _ = group.index  # now, for that waits
            self._began, self._step = group, take if waits(partial(take, rows)) else None
        else:
            self._step = self._step or Recorded(take, rows)
            self._step(rows)

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
        weights, velocities = self._matrices(group, "weights"), self._matrices(group, "velocity")
        inputs, slopes, squares = [x], [], []
        for scale, weight in zip(self._scales, weights[:-1], strict=False):
            z = product(inputs[-1], weight.mT, scale)
            a, slope = activate(self._architecture.activation, z)
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
        *hidden, last = self._matrices(group, "weights")
        for scale, weight in zip(self._scales, hidden, strict=False):
            x, _ = activate(self._architecture.activation, product(x, weight.mT, scale))
        return product(x, last.mT, self._scales[-1]), None

    def _network(self, group: Group, place: int, x: Tensor) -> MlpModule:
        weights = [t[place].clone() for name, t in group.tensors.items() if "weights" in name]
        return MlpModule(weights, self._architecture.activation)

    @staticmethod
    def _matrices(group: Group, kind: str) -> list[Tensor]:
        """Return the tensors of a kind by layers, of a single member without the first axis."""
        matrices = [t for name, t in group.tensors.items() if name.startswith(kind)]
        return [t[0] for t in matrices] if len(group.numbers) == 1 else matrices
