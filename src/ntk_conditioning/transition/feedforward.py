"""Networks of one output in the parameterisation of liu2022transition, Eqs. (8) and (37).

    z_l = W_l c_(l-1) / sqrt(m),   a_l = sigma(z_l),   l = 1, ..., L,   f = z_L,

with standard normal weights. c_0 = x; c_l is a_l or, in a DenseNet, (a_l, ..., a_1, x); m is the
length of c_(l-1). Other than in `ntk_conditioning.networks` the factor stands before a layer, that
of the input is 1/sqrt(d), and activations have no gain. An L-layer network has L - 1 hidden layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation


@dataclass(frozen=True, eq=False)
class FeedforwardNet:
    """A network: ``weights`` W_1 (m_1, ·) to W_L (1, ·), by layers.

    ``fan_ins`` are the lengths of c_0, ..., c_(L-1) by which the layers are scaled. They are the
    columns of the weights, unless the network is one `on_span`.
    """

    weights: tuple[Tensor, ...]
    fan_ins: tuple[int, ...]
    activation: Activation
    dense: bool = False

    @property
    def hidden(self) -> tuple[int, ...]:
        """The widths m_1, ..., m_(L-1) of the hidden layers."""
        return tuple(weight.shape[0] for weight in self.weights[:-1])

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(weight.numel() for weight in self.weights)

    def scale(self, layer: int) -> float:
        """The factor 1/sqrt(m) before layer l = 1, ..., L."""
        return 1 / math.sqrt(self.fan_ins[layer - 1])

    def with_weights(self, weights: Sequence[Tensor]) -> FeedforwardNet:
        """The same network at other weights."""
        return replace(self, weights=tuple(weights))


def draw_network(
    d: int,
    hidden: Sequence[int],
    *,
    activation: Activation | str,
    generator: np.random.Generator,
    dense: bool = False,
    device: torch.device | str = "cpu",
) -> FeedforwardNet:
    """Return a network on ``d`` inputs with weights from N(0, 1), in float64.

    NumPy draws them layer by layer, so that a seed gives the same network on every device.

    >>> model = draw_network(3, [4, 5], activation="tanh", generator=np.random.default_rng(0))
    >>> [tuple(weight.shape) for weight in model.weights], model.fan_ins
    ([(4, 3), (5, 4), (1, 5)], (3, 4, 5))
    """
    fan_ins = (*accumulate(hidden, initial=d),) if dense else (d, *hidden)
    weights = tuple(
        torch.from_numpy(generator.standard_normal((rows, columns))).to(device)
        for rows, columns in zip([*hidden, 1], fan_ins, strict=True)
    )
    return FeedforwardNet(weights, fan_ins, activations.get(activation), dense)


def on_span(net: FeedforwardNet, x: Tensor) -> tuple[FeedforwardNet, Tensor]:
    """Return the network and the samples ``x`` (n, d) in coordinates of the samples' span.

    Weights that meet the input enter through their products with samples only. So outputs, inner
    products of gradients, the Hessian's eigenvalues other than 0, and the path of gradient descent
    are the same. With n < d the network has far fewer weights.
    """
    n, d = x.shape
    if n >= d:
        return net, x
    basis = torch.linalg.qr(x.T).Q  # (d, n)
    first, *rest = net.weights
    weights = [first @ basis]
    for weight in rest:
        parts = [weight[:, :-d], weight[:, -d:] @ basis] if net.dense else [weight]
        weights.append(torch.cat(parts, dim=1))
    return net.with_weights(weights), x @ basis


def layers(net: FeedforwardNet, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Return c_0, ..., c_(L-1) and z_1, ..., z_L for ``x`` (n, d), each with n rows."""
    inputs, sums = [x], []
    for layer, weight in enumerate(net.weights, start=1):
        sums.append(net.scale(layer) * inputs[-1] @ weight.T)
        if layer < len(net.weights):
            value = net.activation.function(sums[-1])
            inputs.append(torch.cat([value, inputs[-1]], dim=1) if net.dense else value)
    return inputs, sums


def outputs(net: FeedforwardNet, x: Tensor) -> Tensor:
    """Return f (n,) at the rows of ``x`` (n, d)."""
    return layers(net, x)[1][-1].squeeze(1)


def tangents(net: FeedforwardNet, x: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Return, for ``x`` (n, d), c_(l-1) (n, ·) and df/dz_l (n, m_l) of all layers, and f (n,).

    The gradient of f at a sample in W_l is their outer product, times the layer's scale.
    """
    with torch.enable_grad():
        inputs, sums = layers(net, x.detach().requires_grad_())
        deltas = torch.autograd.grad(sums[-1].sum(), sums)
    return [c.detach() for c in inputs], list(deltas), sums[-1].detach().squeeze(1)


def kernel_of_tangents(
    net: FeedforwardNet, inputs: Sequence[Tensor], deltas: Sequence[Tensor]
) -> Tensor:
    """Return the NTK (n, n) of `tangents`: the sum over l of (C C^T)/m * (D D^T)."""
    total = inputs[0].new_zeros(len(inputs[0]), len(inputs[0]))
    for layer, (c, delta) in enumerate(zip(inputs, deltas, strict=True), start=1):
        total += net.scale(layer) ** 2 * (c @ c.T) * (delta @ delta.T)
    return total
