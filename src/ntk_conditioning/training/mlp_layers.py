"""The layers of fully connected networks: outputs, and hand-written steps of gradient descent."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import activate, product


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
