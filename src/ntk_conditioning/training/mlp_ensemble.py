"""Ensembles: fully connected networks in the NTK parameterisation, trained by hand-written passes.

On a CPU every network trains by itself, in one thread; on a GPU single small networks would wait
for their launches, so that the products of all members are computed together. The networks are
those of `networks.mlp`, with any number of outputs:

    z_l = s_(l-1) a_(l-1) W_l^T,   a_l = sigma(z_l),   f = s_L a_L W_(L+1)^T,

with a_0 the samples, s_0 = 1 and s_l = gain/sqrt(m_l). The scales go into the products. Matrices
may have one more axis in front, for networks that are computed side by side.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import activate, product
from ntk_conditioning.training.cuda_graphs import Recorded, waits
from ntk_conditioning.training.kernels_along import sharpness
from ntk_conditioning.training.tangents import Architecture, mlp_kernel, mlp_outputs
from ntk_conditioning.training.trainer import Group, Split, Training


@dataclass(frozen=True, eq=False)
class Layers:
    """Weights W_1 (..., m_1, d), ..., W_(L+1) (..., c, m_L), with ``velocities`` if any.

    Velocities have the same shapes; a descent with ``momentum`` needs them.
    """

    activation: Activation
    weights: Sequence[Tensor]
    velocities: Sequence[Tensor] = ()
    momentum: float = 0.0

    @cached_property
    def scales(self) -> list[float]:
        """The scale of each layer's input."""
        gain = self.activation.gain
        return [1.0, *(gain / math.sqrt(weight.shape[-2]) for weight in self.weights[:-1])]

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (..., n, c)."""
        for scale, weight in zip(self.scales, self.weights[:-1], strict=False):
            x, _ = activate(self.activation, product(x, weight.mT, scale))
        return product(x, self.weights[-1].mT, self.scales[-1])

    def descend(
        self, x: Tensor, pull: Callable[[Tensor], Tensor], *, measure: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Add J^T p to the weights in place, where J is the Jacobian of the outputs f at ``x``.

        ``pull`` returns p (..., n, c) for the outputs: for a step of gradient descent, minus the
        learning rate times the gradient of the loss. With momentum, velocities become its multiple
        plus J^T p, and are added.

        Return f and, with ``measure``, the norm (...) of J^T p.
        """
        inputs, slopes, squares = [x], [], []
        for scale, weight in zip(self.scales, self.weights[:-1], strict=False):
            a, slope = activate(self.activation, product(inputs[-1], weight.mT, scale))
            inputs.append(a)
            slopes.append(slope)
        f = product(inputs[-1], self.weights[-1].mT, self.scales[-1])
        back = pull(f)
        for layer in reversed(range(len(self.weights))):
            weight, scale, delta, a = self.weights[layer], self.scales[layer], back.mT, inputs.pop()
            if layer:  # before the weight moves
                back = slopes.pop()(product(back, weight, scale))
            moved, kept = weight, 1.0
            if self.velocities:
                moved, kept = self.velocities[layer], self.momentum
            if measure:
                change = product(delta, a, scale)
                squares.append(change.square().sum((-2, -1), dtype=torch.float64))
                moved.mul_(kept).add_(change)
            else:
                add = moved.addmm_ if moved.ndim == 2 else moved.baddbmm_
                add(delta, a, beta=kept, alpha=scale)
            if self.velocities:
                weight += moved
        return f, torch.stack(squares).sum(0).sqrt() if measure else None


class Ensemble(Training):
    """Networks of one `Architecture` in gradient descent; other arguments are a `Training`'s.

    ``together`` says whether the products of all members are computed together.
    """

    def __init__(
        self, architecture: Architecture, *networks: Any, together: bool = False, **options: Any
    ) -> None:
        self._architecture, self._together = architecture, together
        self._began: Group | None = None  # the group that was the last to begin on a GPU
        self._step: Callable[[Mapping[int, Tensor]], None] | None = None  # its step, once recorded
        super().__init__(*networks, **options)

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
            groups.append(self._group(part, "weights", [*map(torch.stack, layers)]))
        return groups

    def _descend(self, group: Group, rows: Mapping[int, Any], *, last: bool) -> None:
        if last or not self._replays:
            self._take_step(group, rows, measure=last)
        else:
            self._replay_step(group, rows)

    @property
    def _replays(self) -> bool:
        """Whether steps are recorded: of several groups threads would disturb each other's."""
        return self._together and self._like.is_cuda

    def _replay_step(self, group: Group, rows: Mapping[int, Tensor]) -> None:
        """Do a step, which is recorded once the group's first has made the libraries ready."""
        take = partial(self._take_step, group, measure=False)
        if self._began is not group:
            _ = group.index  # now, for that waits
            self._began, self._step = group, take if waits(partial(take, rows)) else None
        else:
            self._step = self._step or Recorded(take, rows)
            self._step(rows)

    def _take_step(self, group: Group, rows: Mapping[int, Any], *, measure: bool) -> None:
        """Do a step on these rows of each seed's samples; a GPU is waited for only to measure."""
        x, y = self._gather(group, self._train, rows)
        rates = self._rates[group.index]
        pace = (-rates / x.shape[-2]).to(x)
        if len(rates) > 1:
            pace = pace[:, None, None]

        def pull(f: Tensor) -> Tensor:
            return self._loss.gradient(f, y).mul_(pace)

        f, norm = self._layers(group).descend(x, pull, measure=measure)
        self._watch_step(group, f, y)
        if norm is not None:
            norms = np.atleast_1d(norm.numpy(force=True)) / rates.numpy(force=True)
            self.metrics["gradient_norm"][self.epoch, group.numbers] = norms

    def _forward(self, group: Group, x: Tensor) -> tuple[Tensor, None]:
        return self._layers(group).forward(x), None

    def _kernel(self, group: Group, place: int, x: Tensor) -> Tensor:
        weights = [w[place].double() for w in group.kind("weights")]
        return mlp_kernel(weights, self._architecture.activation, x.double())

    def _sharpness(self, group: Group, place: int, block: Split, rng: np.random.Generator) -> float:
        weights = [w[place].clone().requires_grad_() for w in group.kind("weights")]

        def loss() -> Tensor:
            f = mlp_outputs(weights, self._architecture.activation, block.x)
            return self._loss.values(f, block.y).mean()

        return sharpness(loss, weights, start=rng)

    def _layers(self, group: Group) -> Layers:
        """Return the layers, of a single member without the axis for members."""
        alone = len(group.numbers) == 1
        weights, velocities = (
            [t[0] if alone else t for t in group.kind(kind)] for kind in ("weights", "velocity")
        )
        return Layers(self._architecture.activation, weights, velocities, self.descent.momentum)
