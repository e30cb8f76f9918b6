"""Full-batch gradient descent, and how far it takes the network and its kernel."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import matrix_norm, vector_norm

from ntk_conditioning.errors import UserError
from ntk_conditioning.transition.feedforward import FeedforwardNet, kernel_of_tangents, tangents


@dataclass(frozen=True)
class Descent:
    """A network after a number of ``steps``, and its way there.

    ``loss_before`` and ``loss_after`` are 1/2 sum (f - y)². ``kernel_change`` is
    |K(w_T) - K(w_0)| / |K(w_0)| in the spectral norm, ``distance`` |w_T - w_0|.
    """

    steps: int
    trained: FeedforwardNet
    loss_before: float
    loss_after: float
    kernel_change: float
    distance: float


def descend(
    net: FeedforwardNet, x: Tensor, y: Tensor, *, steps: Collection[int], step_size: float = 1.0
) -> Iterator[Descent]:
    """Yield the network after each of the numbers of ``steps`` on the loss 1/2 sum (f(x_i) - y_i)².

    ``x`` is (n, d), ``y`` (n,). A step is ``step_size`` / lambda_max of the NTK at the weights
    before it, which grows many times over where a network learns features. A linear network
    descends with step sizes below 2.

    Raises `UserError` if the loss overflows, or the network does not depend on its weights.
    """
    trained = net.with_weights([weight.clone() for weight in net.weights])
    for number in range(max(steps) + 1):
        inputs, deltas, f = tangents(trained, x)
        error, ntk = f - y, kernel_of_tangents(trained, inputs, deltas)
        loss = float(error @ error) / 2
        if number == 0:
            first_ntk, first_loss = ntk, loss
        if not math.isfinite(loss) or not bool(torch.isfinite(ntk).all()):
            raise UserError(
                f"gradient descent diverged in step {number}; lower its step size, {step_size:g}"
            )
        if number in steps:
            pairs = zip(trained.weights, net.weights, strict=True)
            moved = torch.cat([(a - b).flatten() for a, b in pairs])
            change = float(matrix_norm(ntk - first_ntk, 2)) / float(matrix_norm(first_ntk, 2))
            copy = net.with_weights([weight.clone() for weight in trained.weights])
            yield Descent(number, copy, first_loss, loss, change, float(vector_norm(moved)))
        if number < max(steps):
            largest = float(torch.linalg.eigvalsh(ntk)[-1])
            if not largest > 0:
                raise UserError(
                    f"the NTK is 0 in step {number}: no neuron is active at any sample; give more "
                    "width or another seed"
                )
            parts = zip(trained.weights, inputs, deltas, strict=True)
            for layer, (weight, c, delta) in enumerate(parts, start=1):
                step = step_size / largest * net.scale(layer)
                weight.addmm_((error[:, None] * delta).T, c, alpha=-step)
