"""Forward and backward passes of fully connected networks, by hand and in place.

The networks of `networks`, with any number of outputs:

    z_l = s_(l-1) a_(l-1) W_l^T,   a_l = sigma(z_l),   f = s_L a_L W_(L+1)^T,

with a_0 the samples, s_0 = 1 and s_l = gain/sqrt(m_l). The scales go into the products, which cost
the same with them. Matrices may have one more axis in front, for networks that are computed side by
side. Nothing is recorded for automatic differentiation, and a descent adds its product to the
weights without storing the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import activate, product

#: Weights W_1 (..., m_1, d), ..., W_(L+1) (..., c, m_L).
Weights = Sequence[Tensor]


def outputs(activation: Activation, weights: Weights, x: Tensor) -> Tensor:
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
