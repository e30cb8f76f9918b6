"""Ensembles: fully connected networks in the NTK parameterisation, trained by hand-written passes.

On a CPU every network is best trained by itself, by one thread and in the same way whatever else
there is; on a GPU single small networks would wait for their launches, so that the products of all
members are computed together. The networks of `networks.mlp`, with any number of outputs:

    z_l = s_(l-1) a_(l-1) W_l^T,   a_l = sigma(z_l),   f = s_L a_L W_(L+1)^T,

with a_0 the samples, s_0 = 1 and s_l = gain/sqrt(m_l). The scales go into the products, which cost
the same with them. Matrices may have one more axis in front, for networks that are computed side by
side. Nothing is recorded for automatic differentiation, and a descent adds its product to the
weights without storing the gradient.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import activate, draw_weights, product
from ntk_conditioning.seeds import generator
from ntk_conditioning.training.descent import Course
from ntk_conditioning.training.kernels_along import mlp_kernel, mlp_outputs, sharpness
from ntk_conditioning.training.losses import Loss
from ntk_conditioning.training.trainer import Group, Member, Part, Training

#: Weights W_1 (..., m_1, d), ..., W_(L+1) (..., c, m_L).
Weights = Sequence[Tensor]


@dataclass(frozen=True)
class Architecture:
    """A fully connected network: its hidden layers, their width and their activation."""

    depth: int
    width: int
    activation: Activation


class Ensemble(Training):
    """Networks of one `Architecture` in plain gradient descent, see `Training`.

    ``together`` says whether the products of all members are computed together.
    """

    def __init__(
        self,
        architecture: Architecture,
        loss: Loss,
        members: Sequence[Member],
        train: Mapping[int, Part],
        test: Mapping[int, Part] | None = None,
        *,
        course: Course,
        together: bool = False,
    ) -> None:
        self._architecture, self._together = architecture, together
        super().__init__(loss, members, train, test, course=course)

    def _begin(self, numbers: Sequence[int]) -> list[Group]:
        seeds = {number: self.members[number].seed for number in numbers}
        size = {"depth": self._architecture.depth, "width": self._architecture.width}
        d, c = self._like.shape[1], self._loss.outputs
        drawn = {
            seed: [*draw_weights(d, **size, outputs=c, generator=generator(seed, "init"))]
            for seed in set(seeds.values())
        }
        # Every matrix is a copy, so that it begins where it would if the member were the only one:
        # a BLAS may round differently by a matrix's place in memory.
        groups = []
        for part in filter(None, [numbers] if self._together else [[k] for k in numbers]):
            layers = zip(*(drawn[seeds[number]] for number in part), strict=True)
            weights = [torch.stack(layer).to(self._like) for layer in layers]
            groups.append(Group(part, {f"weights_{k}": w for k, w in enumerate(weights)}))
        return groups

    def _descend(self, group: Group, batches: Mapping[int, Any], step: int) -> None:
        x, y = self._gather(group, self._train, {s: batch[step] for s, batch in batches.items()})
        rates = torch.tensor([self.members[k].rate for k in group.numbers], dtype=torch.float64)
        pace = (-rates / x.shape[-2]).to(x)
        if len(rates) > 1:
            pace = pace[:, None, None]

        def pull(f: Tensor) -> Tensor:
            self._watch_step(group, f, y)
            return self._loss.gradient(f, y).mul_(pace)

        last = step + 1 == self.steps_per_epoch
        moved = descend(self._architecture.activation, _matrices(group), x, pull, measure=last)
        if moved is not None:
            norms = np.atleast_1d(moved.numpy(force=True)) / rates.numpy()
            self.metrics["gradient_norm"][self.epoch, group.numbers] = norms

    def _forward(self, group: Group, x: Tensor) -> tuple[Tensor, None]:
        activation, weights = self._architecture.activation, _matrices(group)
        *scales, last = _scales(activation, weights)
        for scale, weight in zip(scales, weights, strict=False):
            x, _ = activate(activation, product(x, weight.mT, scale))
        return product(x, weights[-1].mT, last), None

    def _kernel(self, group: Group, place: int, x: Tensor) -> Tensor:
        weights = [w[place].double() for w in group.tensors.values()]
        return mlp_kernel(weights, self._architecture.activation, x.double())

    def _sharpness(
        self, group: Group, place: int, block: Part, *, start: np.random.Generator
    ) -> float:
        weights = [w[place].clone().requires_grad_() for w in group.tensors.values()]

        def loss() -> Tensor:
            f = mlp_outputs(weights, self._architecture.activation, block.x)
            return self._loss.values(f, block.y).mean()

        return sharpness(loss, weights, start=start)


def _matrices(group: Group) -> Weights:
    """Return the weights, of a single member without the axis for members."""
    alone = len(group.numbers) == 1
    return [w[0] if alone else w for w in group.tensors.values()]


def descend(
    activation: Activation,
    weights: Weights,
    x: Tensor,
    pull: Callable[[Tensor], Tensor],
    *,
    measure: bool,
) -> Tensor | None:
    """Add J^T p to the weights in place, where J is the Jacobian of the outputs f at ``x``.

    ``pull`` returns p (..., n, c) for the outputs: for a step of gradient descent, minus the
    learning rate times the gradient of the loss. With ``measure``, return the norm (...) of what
    is added.
    """
    scales = _scales(activation, weights)
    inputs, slopes = [x], []
    for scale, weight in zip(scales, weights[:-1], strict=False):
        a, slope = activate(activation, product(inputs[-1], weight.mT, scale))
        inputs.append(a)
        slopes.append(slope)
    back = pull(product(inputs[-1], weights[-1].mT, scales[-1]))
    squares = []
    for layer in reversed(range(len(weights))):
        weight, scale, a = weights[layer], scales[layer], inputs.pop()
        if measure:
            change = product(back.mT, a, scale)
            squares.append(change.square().sum((-2, -1), dtype=torch.float64))
        ahead = slopes.pop()(product(back, weight, scale)) if layer else back
        if measure:
            weight += change
        else:
            add = weight.addmm_ if weight.ndim == 2 else weight.baddbmm_
            add(back.mT, a, alpha=scale)
        back = ahead
    return torch.stack(squares).sum(0).sqrt() if measure else None


def _scales(activation: Activation, weights: Weights) -> list[float]:
    """Return the scale of each layer's input."""
    return [1.0, *(activation.gain / math.sqrt(weight.shape[-2]) for weight in weights[:-1])]
