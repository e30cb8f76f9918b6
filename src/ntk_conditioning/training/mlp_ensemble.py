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

from __future__ import annotations

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
from ntk_conditioning.training.losses import Loss
from ntk_conditioning.training.trainer import EVALUATED, Arrays, Member, Part, Training, differ

#: Weights W_1 (..., m_1, d), ..., W_(L+1) (..., c, m_L).
Weights = Sequence[Tensor]


@dataclass(frozen=True)
class Architecture:
    """A fully connected network: its hidden layers, their width and their activation."""

    depth: int
    width: int
    activation: Activation


@dataclass(frozen=True, eq=False)
class _Group:
    """Members whose products are computed together; ``weights`` (members, m_l, m_(l-1))."""

    numbers: Sequence[int]
    weights: Sequence[Tensor]

    @property
    def alone(self) -> bool:
        return len(self.numbers) == 1

    @property
    def matrices(self) -> Sequence[Tensor]:
        """The weights, of a single member without the axis for members."""
        return [w[0] for w in self.weights] if self.alone else self.weights


class Ensemble(Training[_Group]):
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
        super().__init__(loss, members, train, test, course=course)
        self._activation, self._together = architecture.activation, together
        drawn = {
            seed: [
                weight.to(self._like)
                for weight in draw_weights(
                    self._like.shape[1],
                    depth=architecture.depth,
                    width=architecture.width,
                    outputs=loss.outputs,
                    generator=generator(seed, "init"),
                )
            ]
            for seed in dict.fromkeys(member.seed for member in members)
        }
        weights = zip(*(drawn[member.seed] for member in members), strict=True)
        self._form_groups(range(len(members)), [torch.stack(layer) for layer in weights])

    # --- groups ---------------------------------------------------------------------------------

    def _form_groups(self, numbers: Sequence[int], weights: Sequence[Tensor]) -> None:
        """Group members; ``weights`` have an axis for them in front."""
        self._empty = [w[:0] for w in weights]
        if self._together:
            self._groups = [_Group(numbers, weights)] if len(numbers) else []
            return
        # Copies, so that every matrix begins where it would if the member were the only one: a
        # BLAS may round differently by a matrix's place in memory.
        self._groups = [
            _Group([number], [w[k : k + 1].clone() for w in weights])
            for k, number in enumerate(numbers)
        ]

    def _active(self) -> tuple[list[int], list[Tensor]]:
        """Return the members that have not diverged, and their weights."""
        numbers = [number for group in self._groups for number in group.numbers]
        kept = [place for place, number in enumerate(numbers) if self.diverged[number] < 0]
        layered = zip(self._empty, *(group.weights for group in self._groups), strict=True)
        return [numbers[place] for place in kept], [torch.cat(layer)[kept] for layer in layered]

    def _drop_diverged(self) -> None:
        self._form_groups(*self._active())

    def _weights(self) -> Arrays:
        return {f"weights_{k}": w.numpy(force=True) for k, w in enumerate(self._active()[1])}

    def _shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {f"weights_{k}": w.shape[1:] for k, w in enumerate(self._empty)}

    def _place(self, numbers: Sequence[int], state: Arrays) -> None:
        weights = [torch.tensor(state[f"weights_{k}"]).to(w) for k, w in enumerate(self._empty)]
        self._form_groups(numbers, weights)

    # --- one epoch of a group -------------------------------------------------------------------

    def _descend(
        self, group: _Group, batches: Mapping[int, Sequence[Tensor | slice]], step: int
    ) -> None:
        x, y = self._gather(group, self._train, {s: batch[step] for s, batch in batches.items()})
        rates = torch.tensor([self.members[k].rate for k in group.numbers], dtype=torch.float64)
        pace = (-rates / x.shape[-2]).to(x)
        if not group.alone:
            pace = pace[:, None, None]

        def pull(f: Tensor) -> Tensor:
            self._watch_step(group, f, y)
            return self._loss.gradient(f, y).mul_(pace)

        last = step + 1 == self.steps_per_epoch
        moved = descend(self._activation, group.matrices, x, pull, measure=last)
        if moved is not None:
            norms = np.atleast_1d(moved.numpy(force=True)) / rates.numpy()
            self.metrics["gradient_norm"][self.epoch, group.numbers] = norms

    def _evaluate(self, group: _Group) -> None:
        for name, parts in (("train", self._train), ("test", self._test)):
            if parts is None:
                continue
            n = len(next(iter(parts.values())).x)
            loss = correct = torch.zeros((), dtype=torch.float64)
            first, varies = None, torch.zeros((), dtype=torch.bool)
            for top in range(0, n, EVALUATED):
                rows = dict.fromkeys(parts, slice(top, top + EVALUATED))
                x, y = self._gather(group, parts, rows)
                f = forward(self._activation, group.matrices, x)
                loss = self._loss.values(f, y).sum(-1, dtype=torch.float64) + loss
                correct = (self._loss.predictions(f) == y).sum(-1) + correct
                first = f[..., :1, :] if first is None else first
                varies = differ(f, first) | varies
            for metric, total in (("loss", loss), ("accuracy", correct)):
                values = total.numpy(force=True) / n
                self.metrics[f"{name}_{metric}"][self.epoch, group.numbers] = values
            if name == "train":
                self._varies[group.numbers] = varies.numpy(force=True)

    def _gather(
        self, group: _Group, parts: Mapping[int, Part], rows: Mapping[int, Any]
    ) -> tuple[Tensor, Tensor]:
        """Return some of the samples of the members' seeds, with an axis for members if several."""
        seeds = [self.members[number].seed for number in group.numbers]
        x = {seed: parts[seed].x[rows[seed]] for seed in seeds}
        y = {seed: parts[seed].y[rows[seed]] for seed in seeds}
        if group.alone:
            return x[seeds[0]], y[seeds[0]]
        return torch.stack([x[seed] for seed in seeds]), torch.stack([y[seed] for seed in seeds])


# --- one pass -------------------------------------------------------------------------------------


def forward(activation: Activation, weights: Weights, x: Tensor) -> Tensor:
    """Return the outputs (..., n, c) at samples ``x`` (..., n, d)."""
    a = x
    for scale, weight in zip(_scales(activation, weights), weights[:-1], strict=False):
        a, _ = activate(activation, product(a, weight.mT, scale))
    return product(a, weights[-1].mT, _scales(activation, weights)[-1])


def descend(
    activation: Activation,
    weights: Weights,
    x: Tensor,
    pull: Callable[[Tensor], Tensor],
    *,
    measure: bool = False,
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
            _add_product(weight, back.mT, a, scale)
        back = ahead
    return torch.stack(squares).sum(0).sqrt() if measure else None


def _scales(activation: Activation, weights: Weights) -> list[float]:
    """Return the scale of each layer's input."""
    return [1.0, *(activation.gain / math.sqrt(weight.shape[-2]) for weight in weights[:-1])]


def _add_product(total: Tensor, a: Tensor, b: Tensor, scale: float) -> None:
    """Add scale · a b to ``total``."""
    add = total.addmm_ if a.ndim == 2 else total.baddbmm_
    add(a, b, alpha=scale)
