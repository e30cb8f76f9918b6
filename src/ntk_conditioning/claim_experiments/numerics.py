"""What several experiments use: power laws, means, samples and gradient descent."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ntk_conditioning.claim_experiments import Array
from ntk_conditioning.networks.mlp import MLP, forward
from ntk_conditioning.theory.sphere import unit_rows


def exponent(x: ArrayLike, y: ArrayLike) -> float:
    """Return a of y ~ x^a, by least squares on the logarithms.

    >>> round(exponent([1.0, 10.0, 100.0], [5.0, 0.05, 0.0005]), 12)
    -2.0
    """
    slope, _ = np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)
    return float(slope)


def rms(values: ArrayLike) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(np.asarray(values, float)))))


def on_sphere(rng: np.random.Generator, n: int, d: int) -> Array:
    """Return samples (n, d) uniform on the unit sphere."""
    return unit_rows(rng.standard_normal((n, d)))


def second_slopes(slopes: Callable[[Array], Array], z: Array) -> Array:
    """Return σ''(z) as difference quotients of σ'."""
    step = 1e-4
    return (slopes(z + step) - slopes(z - step)) / (2 * step)


def descent_losses(mlp: MLP, x: Tensor, y: Tensor, *, step: float, steps: int) -> Array:
    """Return |f - y|²/2 before and along gradient descent on it (steps + 1,), of all weights.

    ``x`` is (n, d) and ``y`` (n,).
    """
    weights = [weight.clone().requires_grad_() for weight in mlp.weights]
    losses = []
    for _ in range(steps + 1):
        loss = (forward(MLP(tuple(weights), mlp.activation), x) - y).square().sum() / 2
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= step * gradient
    return np.array(losses)
