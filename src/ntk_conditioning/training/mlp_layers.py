"""The layers of fully connected networks: outputs, and steps of gradient descent.

A step may be shared by threads: first each takes some of the samples forward and backward, then
some rows of every matrix. A BLAS sums each entry of a product in the same order whatever rows it
has beside it, if these are cut where its blocks end and are not too few; `parts_of_same_bits` finds
out into how many parts that allows to cut a step.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import activate, product
from ntk_conditioning.threads import Team

#: Matrices W_1 (..., m_1, d), ..., W_(L+1) (..., c, m_L).
Matrices = Sequence[Tensor]

#: p (..., rows, c) for some rows of the outputs, see `Layers.descend`.
Pull = Callable[[Tensor, slice], Tensor]

#: A step is shared if each thread gets so many multiplications forward: less is done sooner than
#: another thread is woken.
LEAST_PRODUCTS = 5e7

#: Parts have at least so many rows, of samples or of a matrix, and are cut at multiples of a
#: number, where the blocks of a BLAS end.
LEAST_ROWS, BLOCK = 100, 8

ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Layers:
    """Weights, with ``velocities`` of the same shapes in a descent with ``momentum``."""

    activation: Activation
    weights: Matrices
    velocities: Matrices = ()
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
        self, x: Tensor, pull: Pull, *, measure: bool, team: Team | None = None, parts: int = 1
    ) -> tuple[Tensor, Tensor | None]:
        """Add J^T p to the weights in place, where J is the Jacobian of the outputs f at ``x``.

        ``pull`` returns p for the outputs: for a step of gradient descent, minus the learning rate
        times the gradient of the loss. With momentum, velocities become its multiple plus J^T p,
        and are added. With ``parts``, the threads of a ``team`` share the step.

        Return f and, with ``measure``, the norm (...) of J^T p.
        """
        squares: list[Tensor | None] = []
        if team is None or parts == 1:

            def move(layer: int, back: Tensor, a: Tensor) -> None:
                squares.append(self._move(layer, ALL, back, a, measure))

            f = self._pass(x, pull, ALL, move)
        else:
            f, squares = self._descend_shared(x, pull, team, parts, measure)
        if not measure:
            return f, None
        return f, torch.stack([square for square in squares if square is not None]).sum(0).sqrt()

    def _pass(
        self, x: Tensor, pull: Pull, rows: slice, use: Callable[[int, Tensor, Tensor], None]
    ) -> Tensor:
        """Return f at some rows of ``x``; ``use`` gets each layer's number, delta and input.

        It gets the last layer first, and a matrix as soon as nothing else needs it.
        """
        inputs, slopes = [x[rows] if rows != ALL else x], []
        for scale, weight in zip(self.scales, self.weights[:-1], strict=False):
            a, slope = activate(self.activation, product(inputs[-1], weight.mT, scale))
            inputs.append(a)
            slopes.append(slope)
        f = product(inputs[-1], self.weights[-1].mT, self.scales[-1])
        back = pull(f, rows)
        for layer in reversed(range(len(self.weights))):
            weight, scale = self.weights[layer], self.scales[layer]
            ahead = slopes.pop()(product(back, weight, scale)) if layer else back
            use(layer, back, inputs.pop())
            back = ahead
        return f

    def _descend_shared(
        self, x: Tensor, pull: Pull, team: Team, parts: int, measure: bool
    ) -> tuple[Tensor, list[Tensor | None]]:
        def passes(rows: slice) -> list[Tensor]:
            """Return f, and from the last layer to the first its delta and its input."""
            tensors: list[Tensor] = []
            f = self._pass(x, pull, rows, lambda _, back, a: tensors.extend((back, a)))
            return [f, *tensors]

        def move(strip: tuple[int, slice]) -> Tensor | None:
            layer, rows = strip
            return self._move(layer, rows, backs[layer], inputs[layer], measure)

        f, *tensors = map(torch.cat, zip(*team.map(passes, _cut(len(x), parts)), strict=True))
        backs, inputs = tensors[-2::-2], tensors[-1::-2]
        strips = [
            (layer, rows)
            for layer, weight in enumerate(self.weights)
            # a norm is that of a whole matrix
            for rows in ([ALL] if measure else _cut(len(weight), parts))
        ]
        return f, team.map(move, strips)[::-1]  # squares are summed from the last layer on

    def _move(
        self, layer: int, rows: slice, back: Tensor, a: Tensor, measure: bool
    ) -> Tensor | None:
        """Move rows of a layer's matrix; return the square of the norm of J^T p there."""
        weight, back, scale = self.weights[layer], back.mT, self.scales[layer]
        velocity = self.velocities[layer] if self.velocities else None
        if rows != ALL:
            weight, back = weight[rows], back[rows]
            velocity = None if velocity is None else velocity[rows]
        to, kept, square = weight, 1.0, None
        if velocity is not None:
            to, kept = velocity, self.momentum
        if measure:
            change = product(back, a, scale)
            square = change.square().sum((-2, -1), dtype=torch.float64)
            to.mul_(kept).add_(change)
        else:
            add = to.addmm_ if to.ndim == 2 else to.baddbmm_
            add(back, a, beta=kept, alpha=scale)
        if velocity is not None:
            weight += velocity
        return square


def parts_of_same_bits(layers: Layers, x: Tensor, pull: Pull, team: Team) -> int:
    """Return into how many parts a step on ``x`` (n, d) can be cut with the same bits, or 1.

    A step that is too small is not cut. Bits are compared on copies of the layers, once: sizes
    decide on the order in which a BLAS sums, not the numbers.
    """
    products = len(x) * sum(weight.numel() for weight in layers.weights)
    most = min(team.threads, len(x) // LEAST_ROWS, int(products // LEAST_PRODUCTS))

    def step(parts: int) -> list[Tensor]:
        weights, velocities = (
            [t.clone() for t in ts] for ts in (layers.weights, layers.velocities)
        )
        copy = replace(layers, weights=weights, velocities=velocities)
        f, _ = copy.descend(x, pull, measure=False, team=team, parts=parts)
        return [f, *weights, *velocities]

    alone = step(1) if most > 1 else []
    return next((k for k in range(most, 1, -1) if all(map(torch.equal, alone, step(k)))), 1)


def _cut(rows: int, parts: int) -> list[slice]:
    parts = max(1, min(parts, rows // LEAST_ROWS))
    ends = [round(k * rows / parts / BLOCK) * BLOCK for k in range(parts)] + [rows]
    return [slice(top, end) for top, end in pairwise(ends) if top < end]
