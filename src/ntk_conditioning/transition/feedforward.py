"""Networks of one output as in liu2022transition, Eqs. (8) and (37), and their gradient descent.

    z_l = W_l c_(l-1) / sqrt(m),   a_l = sigma(z_l),   l = 1, ..., L,   f = z_L,

with standard normal weights. c_0 = x; c_l is a_l or, in a DenseNet, (a_l, ..., a_1, x); m is the
length of c_(l-1). Other than in `ntk_conditioning.networks` the factor stands before a layer, that
of the input is 1/sqrt(d), and activations have no gain. An L-layer network has L - 1 hidden layers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.linalg import matrix_norm, vector_norm
from torch.nn.utils import parameters_to_vector

from ntk_conditioning.errors import UserError
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
) -> FeedforwardNet:
    """Return a network on ``d`` inputs with weights from N(0, 1), in float64 on the CPU.

    >>> model = draw_network(3, [4, 5], activation="tanh", generator=np.random.default_rng(0))
    >>> [tuple(weight.shape) for weight in model.weights], model.fan_ins
    ([(4, 3), (5, 4), (1, 5)], (3, 4, 5))
    """
    fan_ins = (*accumulate(hidden, initial=d),) if dense else (d, *hidden)
    shapes = zip([*hidden, 1], fan_ins, strict=True)
    weights = tuple(torch.from_numpy(generator.standard_normal(shape)) for shape in shapes)
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
    weights = [  # of each that meets the input, by its last columns
        torch.cat([weight[:, :-d], weight[:, -d:] @ basis], dim=1) if net.dense or not k else weight
        for k, weight in enumerate(net.weights)
    ]
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


def tangents(net: FeedforwardNet, x: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
    """Return, for ``x`` (n, d), c_(l-1) (n, ·) and df/dz_l (n, m_l) of all layers, f (n,) and NTK.

    The gradient of f at a sample in W_l is their outer product, times the layer's scale, so the NTK
    (n, n) is the sum over l of (C C^T)/m * (D D^T).
    """
    with torch.enable_grad():
        inputs, sums = layers(net, x.detach().requires_grad_())
        deltas = torch.autograd.grad(sums[-1].sum(), sums)
    inputs, ntk = [c.detach() for c in inputs], x.new_zeros(len(x), len(x))
    for layer, (c, delta) in enumerate(zip(inputs, deltas, strict=True), start=1):
        ntk += net.scale(layer) ** 2 * (c @ c.T) * (delta @ delta.T)
    return inputs, list(deltas), sums[-1].detach().squeeze(1), ntk


def descend(
    net: FeedforwardNet, x: Tensor, y: Tensor, *, steps: Collection[int], step_size: float = 1.0
) -> Iterator[tuple[FeedforwardNet, dict[str, Any]]]:
    """Yield the network after each of the numbers of ``steps`` on the loss 1/2 sum (f(x_i) - y_i)².

    ``x`` is (n, d), ``y`` (n,). A step is ``step_size`` / lambda_max of the NTK at the weights
    before it, which grows many times over where a network learns features. A linear network
    descends with step sizes below 2. Beside the network are its ``steps`` and, as columns of the
    table `linearity`, ``loss_before``, ``loss_after``, ``kernel_change``, |K(w_T) - K(w_0)| /
    |K(w_0)| in the spectral norm, and ``distance``, |w_T - w_0|.

    Raises `UserError` if the loss overflows, or the network does not depend on its weights.
    """
    trained = net.with_weights([weight.clone() for weight in net.weights])
    for number in range(max(steps) + 1):
        inputs, deltas, f, ntk = tangents(trained, x)
        error = f - y
        loss = float(error @ error) / 2
        if number == 0:
            first_ntk, first_loss = ntk, loss
        if not math.isfinite(loss) or not bool(torch.isfinite(ntk).all()):
            raise UserError(
                f"gradient descent diverged in step {number}; lower its step size, {step_size:g}"
            )
        largest = float(torch.linalg.eigvalsh(ntk)[-1])
        if (number == 0 or number < max(steps)) and not largest > 0:
            raise UserError(
                f"the NTK is 0 in step {number}: no neuron is active at any sample; give more "
                "width or another seed"
            )
        if number in steps:
            moved = parameters_to_vector(trained.weights) - parameters_to_vector(net.weights)
            change = float(matrix_norm(ntk - first_ntk, 2)) / float(matrix_norm(first_ntk, 2))
            numbers = {"steps": number, "loss_before": first_loss, "loss_after": loss}
            numbers |= {"kernel_change": change, "distance": float(vector_norm(moved))}
            yield net.with_weights([weight.clone() for weight in trained.weights]), numbers
        if number < max(steps):
            parts = zip(trained.weights, inputs, deltas, strict=True)
            for layer, (weight, c, delta) in enumerate(parts, start=1):
                step = step_size / largest * net.scale(layer)
                weight.addmm_((error[:, None] * delta).T, c, alpha=-step)
