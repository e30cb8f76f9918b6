"""Full-batch gradient descent, and how far it takes the network and its kernel."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ntk_conditioning.errors import UserError
from ntk_conditioning.transition.feedforward import FeedforwardNet, kernel, outputs


@dataclass(frozen=True)
class Descent:
    """A trained network and its way there.

    ``loss_before`` and ``loss_after`` are 1/2 sum (f - y)². ``kernel_change`` is
    |K(w_T) - K(w_0)| / |K(w_0)| in the spectral norm, ``distance`` |w_T - w_0|.
    """

    trained: FeedforwardNet
    loss_before: float
    loss_after: float
    kernel_change: float
    distance: float


def descend(
    net: FeedforwardNet, x: Tensor, y: Tensor, *, steps: int, step_size: float = 1.0
) -> Descent:
    """Return the network after ``steps`` steps on the loss 1/2 sum (f(x_i) - y_i)².

    ``x`` is (n, d), ``y`` (n,). The step is ``step_size`` / lambda_max of the NTK at the start: a
    linear network descends with step sizes below 2.

    Raises `UserError` if the loss overflows.
    """
    before = kernel(net, x)
    step = step_size / float(torch.linalg.eigvalsh(before)[-1])
    weights = [weight.clone().requires_grad_() for weight in net.weights]
    trained = net.with_weights(weights)

    def loss() -> Tensor:
        error = outputs(trained, x) - y
        return error @ error / 2

    last = loss()
    loss_before = float(last.detach())
    for number in range(steps):
        if not torch.isfinite(last):
            raise UserError(
                f"gradient descent diverged in step {number}; lower its step size, {step_size:g}"
            )
        with torch.no_grad():
            for weight, gradient in zip(weights, torch.autograd.grad(last, weights), strict=True):
                weight.sub_(gradient, alpha=step)
        last = loss()
    trained = net.with_weights([weight.detach() for weight in weights])
    moved = [(a - b).flatten() for a, b in zip(trained.weights, net.weights, strict=True)]
    return Descent(
        trained,
        loss_before,
        float(last.detach()),
        kernel_change=_norm(kernel(trained, x) - before) / _norm(before),
        distance=float(torch.linalg.vector_norm(torch.cat(moved))),
    )


def _norm(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix, 2))
