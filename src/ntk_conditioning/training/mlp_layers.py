"""The layers of fully connected networks: outputs, and steps of gradient descent.

A step may be shared by threads: first each takes some of the samples forward and backward, then
some rows of every matrix. A BLAS sums each entry of a product in the same order whatever rows it
has beside it, if these are cut where its blocks end and are not too few; into how many parts that
allows to cut a step is what `parts_of_same_bits` finds out.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise, zip_longest

import torch
from torch import Tensor

from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import activate, is_in_place, product
from ntk_conditioning.threads import Team

#: Matrices W_1 (..., m_1, d), ..., W_(L+1) (..., c, m_L).
Matrices = Sequence[Tensor]

#: p (..., rows, c) for some rows of the outputs, see `Layers.descend`.
Pull = Callable[[Tensor, slice], Tensor]

#: What writes some rows of a batch.
Fill = Callable[[slice], object]

#: A step is shared if each thread gets so many multiplications forward: less is done sooner than
#: another thread is woken.
LEAST_PRODUCTS = 5e7

#: Parts have so many rows, of samples or of a matrix, or more. They are cut at multiples of a
#: number, where the blocks of a BLAS end.
LEAST_ROWS, BLOCK = 100, 8


def nothing(rows: slice) -> None:
    """Write no rows: they are there already."""


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

    def descend(self, x: Tensor, pull: Pull, *, measure: bool) -> tuple[Tensor, Tensor | None]:
        """Add J^T p to the weights in place, where J is the Jacobian of the outputs f at ``x``.

        ``pull`` returns p for the outputs: for a step of gradient descent, minus the learning rate
        times the gradient of the loss. With momentum, velocities become its multiple plus J^T p,
        and are added.

        Return f and, with ``measure``, the norm (...) of J^T p.
        """
        inputs, slopes = [x], []
        for scale, weight in zip(self.scales, self.weights[:-1], strict=False):
            a, slope = activate(self.activation, product(inputs[-1], weight.mT, scale))
            inputs.append(a)
            slopes.append(slope)
        f = product(inputs[-1], self.weights[-1].mT, self.scales[-1])
        back = pull(f, slice(None))
        squares = []
        for layer in reversed(range(len(self.weights))):
            weight, scale = self.weights[layer], self.scales[layer]
            ahead = slopes.pop()(product(back, weight, scale)) if layer else back
            velocity = self.velocities[layer] if self.velocities else None
            squares.append(self._move(weight, velocity, back, inputs.pop(), scale, measure))
            back = ahead
        return f, _norm(squares) if measure else None

    def descend_shared(
        self, x: Tensor, pull: Pull, team: Team, parts: int, *, measure: bool, fill: Fill = nothing
    ) -> tuple[Tensor, Tensor | None]:
        """Do the same as `descend` on samples (n, d), in parts that a team's threads share.

        ``fill`` first writes the rows of a part.
        """
        sizes = [len(weight) for weight in self.weights]
        inputs, back = [x], [x.new_empty(len(x), size) for size in sizes]
        inputs += [x.new_empty(len(x), size) for size in sizes]  # of layers, and f

        def passes(rows: slice) -> None:
            fill(rows)
            slopes = []
            for layer, weight in enumerate(self.weights[:-1]):
                room = inputs[layer + 1][rows]
                out = room if is_in_place(self.activation) else None
                z = product(inputs[layer][rows], weight.T, self.scales[layer], out=out)
                a, slope = activate(self.activation, z)
                if a is not room:
                    room.copy_(a)
                slopes.append(slope)
            room, weight = inputs[-1][rows], self.weights[-1]
            f = product(inputs[-2][rows], weight.T, self.scales[-1], out=room)
            back[-1][rows] = pull(f, rows)
            for layer in reversed(range(1, len(self.weights))):
                room, of = back[layer - 1][rows], back[layer][rows]
                slopes.pop()(product(of, self.weights[layer], self.scales[layer], out=room))

        def move(strip: tuple[int, slice]) -> Tensor | None:
            layer, rows = strip
            weight, scale = self.weights[layer][rows], self.scales[layer]
            velocity = self.velocities[layer][rows] if self.velocities else None
            return self._move(weight, velocity, back[layer][:, rows], inputs[layer], scale, measure)

        team.map(passes, _cut(len(x), parts))
        layers = [*reversed(range(len(sizes)))]
        if measure:  # a norm is that of a whole matrix
            return inputs[-1], _norm(team.map(move, [(layer, slice(None)) for layer in layers]))
        cuts = [[(layer, rows) for rows in _cut(sizes[layer], parts)] for layer in layers]
        shares = [[*filter(None, strips)] for strips in zip_longest(*cuts)]
        team.map(lambda strips: [*map(move, strips)], shares)
        return inputs[-1], None

    def _move(
        self,
        weight: Tensor,
        velocity: Tensor | None,
        back: Tensor,
        a: Tensor,
        scale: float,
        measure: bool,
    ) -> Tensor | None:
        """Move rows of a matrix; return the square of the norm of J^T p there."""
        to, kept, square = weight, 1.0, None
        if velocity is not None:
            to, kept = velocity, self.momentum
        if measure:
            change = product(back.mT, a, scale)
            square = change.square().sum((-2, -1), dtype=torch.float64)
            to.mul_(kept).add_(change)
        else:
            add = to.addmm_ if to.ndim == 2 else to.baddbmm_
            add(back.mT, a, beta=kept, alpha=scale)
        if velocity is not None:
            weight += velocity
        return square


def most_parts(x: Tensor, layers: Layers, team: Team) -> int:
    """Return into how many parts a step is worth to be cut; those of stacks are not."""
    if x.ndim > 2:
        return 1
    products = len(x) * sum(weight.numel() for weight in layers.weights)
    return min(team.threads, len(x) // LEAST_ROWS, int(products // LEAST_PRODUCTS))


def parts_of_same_bits(layers: Layers, x: Tensor, pull: Pull, team: Team) -> int:
    """Return the most parts in which a step has the same bits, or 1: tried on copies of the layers.

    Sizes decide on the order in which a BLAS sums, not the numbers: it is the same in every step.
    """

    def step(parts: int) -> list[Tensor]:
        copy = replace(
            layers,
            weights=[w.clone() for w in layers.weights],
            velocities=[v.clone() for v in layers.velocities],
        )
        how = copy.descend if parts == 1 else partial(copy.descend_shared, team=team, parts=parts)
        f, _ = how(x, pull, measure=False)
        return [f, *copy.weights, *copy.velocities]

    alone = step(1)
    counts = range(most_parts(x, layers, team), 1, -1)
    return next((k for k in counts if all(map(torch.equal, alone, step(k)))), 1)


def _cut(rows: int, parts: int) -> list[slice]:
    parts = max(1, min(parts, rows // LEAST_ROWS))
    ends = [round(k * rows / parts / BLOCK) * BLOCK for k in range(parts)] + [rows]
    return [slice(top, end) for top, end in pairwise(ends) if top < end]


def _norm(squares: Sequence[Tensor | None]) -> Tensor:
    return torch.stack([square for square in squares if square is not None]).sum(0).sqrt()
