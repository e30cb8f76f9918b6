"""Ensembles: fully connected networks in the NTK parameterisation, trained by hand-written passes.

On a CPU every network is best trained by itself, by one thread and in the same way whatever else
there is; on a GPU single small networks would wait for their launches, so that the products of all
members are computed together. The networks of `networks.mlp`, with any number of outputs:

    z_l = s_(l-1) a_(l-1) W_l^T,   a_l = sigma(z_l),   f = s_L a_L W_(L+1)^T,

with a_0 the samples, s_0 = 1 and s_l = gain/sqrt(m_l). The scales go into the products, which cost
the same with them. Matrices may have one more axis in front, for networks that are computed side by
side. Nothing is recorded for automatic differentiation, and a descent adds its product to the
weights without storing the gradient.

A large batch is cut into pieces, so that threads that have no network of their own can help: first
each piece of samples goes forward and backward, then each strip of every matrix is moved. The cuts
depend on sizes alone, and so do the numbers that come out.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from ntk_conditioning.training.trainer import Group, Member, Part, Training

#: Weights W_1 (..., m_1, d), ..., W_(L+1) (..., c, m_L).
Weights = Sequence[Tensor]

#: A piece of a batch has at least so many samples, and products of so many multiplications forward:
#: smaller products are slower, and threads that help have to be woken.
PIECE, PIECE_PRODUCTS = 250, 5e7


@dataclass(frozen=True)
class Architecture:
    """A fully connected network: its hidden layers, their width and their activation."""

    depth: int
    width: int
    activation: Activation


class Ensemble(Training):
    """Networks of one `Architecture` in gradient descent, see `Training`.

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
            tensors = {f"weights_{k}": w for k, w in enumerate(weights)}
            if self.course.momentum:
                tensors |= {f"velocity_{k}": torch.zeros_like(w) for k, w in enumerate(weights)}
            groups.append(Group(part, tensors))
        return groups

    def _descend(self, group: Group, batches: Mapping[int, Any], step: int) -> None:
        x, y = self._gather(group, self._train, {s: batch[step] for s, batch in batches.items()})
        rates = torch.tensor([self.members[k].rate for k in group.numbers], dtype=torch.float64)
        pace = (-rates / x.shape[-2]).to(x)
        if len(rates) > 1:
            pace = pace[:, None, None]

        def pull(f: Tensor, rows: slice) -> Tensor:
            return self._loss.gradient(f, y[..., rows]).mul_(pace)

        last = step + 1 == self.steps_per_epoch
        f, moved = descend(
            self._architecture.activation,
            _matrices(group),
            x,
            pull,
            velocities=_matrices(group, "velocity"),
            momentum=self.course.momentum,
            measure=last,
            spread=self._spread,
        )
        self._watch_step(group, f, y)
        if moved is not None:
            norms = np.atleast_1d(moved.numpy(force=True)) / rates.numpy()
            self.metrics["gradient_norm"][self.epoch, group.numbers] = norms

    def _forward(self, group: Group, x: Tensor) -> tuple[Tensor, None]:
        activation, weights = self._architecture.activation, _matrices(group)
        *scales, last = _scales(activation, weights)

        def outputs(rows: slice) -> Tensor:
            a = x[..., rows, :]
            for scale, weight in zip(scales, weights, strict=False):
                a, _ = activate(activation, product(a, weight.mT, scale))
            return product(a, weights[-1].mT, last)

        return torch.cat([*self._spread(outputs, pieces(weights, x))], dim=-2), None


def _matrices(group: Group, name: str = "weights") -> list[Tensor]:
    """Return the weights, or velocities, of a single member without the axis for members."""
    alone = len(group.numbers) == 1
    return [t[0] if alone else t for key, t in group.tensors.items() if key.startswith(name)]


def pieces(weights: Weights, x: Tensor) -> list[slice]:
    """Return the pieces of a batch (..., n, d): all of it on a GPU and of a stack of networks."""
    n = x.shape[-2]
    most = min(n // PIECE, int(n * sum(w.numel() for w in weights) // PIECE_PRODUCTS))
    return _cut(n, most if x.ndim == 2 and x.device.type == "cpu" else 1)


def _cut(n: int, parts: int) -> list[slice]:
    parts = max(1, parts)
    return [slice(k * n // parts, (k + 1) * n // parts) for k in range(parts)]


def descend(
    activation: Activation,
    weights: Weights,
    x: Tensor,
    pull: Callable[[Tensor, slice], Tensor],
    *,
    velocities: Weights = (),
    momentum: float = 0.0,
    measure: bool = False,
    spread: Callable[..., Iterable[Any]] = map,
) -> tuple[Tensor, Tensor | None]:
    """Add J^T p to the weights in place, where J is the Jacobian of the outputs f at ``x``.

    ``pull`` returns p (..., rows, c) for some rows of the outputs: for a step of gradient descent,
    minus the learning rate times the gradient of the loss. With ``velocities``, like the weights,
    these become ``momentum`` times themselves plus J^T p, and are added.

    Return f and, with ``measure``, the norm (...) of J^T p. ``spread`` maps a function over
    pieces of the work.
    """
    scales = _scales(activation, weights)

    def passes(rows: slice) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Return the outputs, and of every layer the inputs and what comes back to its outputs."""
        inputs, slopes = [x[..., rows, :]], []
        for scale, weight in zip(scales, weights[:-1], strict=False):
            a, slope = activate(activation, product(inputs[-1], weight.mT, scale))
            inputs.append(a)
            slopes.append(slope)
        f = product(inputs[-1], weights[-1].mT, scales[-1])
        back = [pull(f, rows)]
        for weight, scale in zip(weights[:0:-1], scales[:0:-1], strict=True):
            back.append(slopes.pop()(product(back[-1], weight, scale)))
        return f, inputs, back[::-1]

    rows = pieces(weights, x)
    outputs, *layers = zip(*spread(passes, rows), strict=True)
    inputs, back = (list(zip(*of, strict=True)) for of in layers)

    def move(strip: tuple[int, slice]) -> Tensor | None:
        """Move some rows of a layer's matrix; return the square of the norm of J^T p there."""
        layer, units = strip
        moved = weights[layer][..., units, :]
        change = velocities[layer][..., units, :] if velocities else moved
        factors = [
            (b[..., units].mT, a, scales[layer])
            for a, b in zip(inputs[layer], back[layer], strict=True)
        ]
        square = None
        if measure:
            total = product(*factors[0])
            for factor in factors[1:]:
                add_product(total, *factor)
            square = total.square().sum((-2, -1), dtype=torch.float64)
        if velocities:
            change.mul_(momentum)
        if measure:
            change += total
        else:
            for factor in factors:
                add_product(change, *factor)
        if velocities:
            moved += change
        return square

    strips = [
        (layer, units)
        for layer, weight in reversed(list(enumerate(weights)))
        for units in _cut(weight.shape[-2], min(len(rows), weight.shape[-2] // PIECE))
    ]
    squares = [*spread(move, strips)]
    return torch.cat(outputs, dim=-2), torch.stack(squares).sum(0).sqrt() if measure else None


def add_product(to: Tensor, a: Tensor, b: Tensor, scale: float) -> None:
    """Add scale · a b to a matrix, or stack of matrices, in place."""
    add = to.addmm_ if to.ndim == 2 else to.baddbmm_
    add(a, b, alpha=scale)


def _scales(activation: Activation, weights: Weights) -> list[float]:
    """Return the scale of each layer's input."""
    return [1.0, *(activation.gain / math.sqrt(weight.shape[-2]) for weight in weights[:-1])]
