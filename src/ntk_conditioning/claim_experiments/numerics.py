"""What several experiments use: power laws, means, samples, networks and gradient descent."""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ntk_conditioning.claim_experiments import Array
from ntk_conditioning.networks.mlp import MLP, forward, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.sphere import unit_rows


def exponent(x: ArrayLike, y: ArrayLike) -> Array:
    """Return a of y ~ x^a, by least squares on the logarithms, for each column of ``y`` (k, ...).

    >>> exponent([1.0, 10.0, 100.0], [[5.0, 1.0], [0.05, 10.0], [0.0005, 100.0]]).round(12)
    array([-2.,  1.])
    """
    return np.asarray(np.polyfit(np.log(x), np.log(y), 1)[0])


def rms(values: ArrayLike) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def on_sphere(rng: np.random.Generator | int, n: int, d: int) -> Array:
    """Return samples (n, d) uniform on the unit sphere, of a generator or a seed's own."""
    rng = rng if isinstance(rng, np.random.Generator) else generator(rng, "data")
    return unit_rows(rng.standard_normal((n, d)))


def gram_matrix(x: Array) -> Array:
    """Return the Gram matrix (n, n) of samples of norm 1, whose diagonal is exactly 1."""
    gram = x @ x.T
    np.fill_diagonal(gram, 1.0)
    return np.asarray(gram)


def at_angle(first: Array, other: Array, angle: float) -> Array:
    """Return the unit vector at an ``angle`` to a unit vector, in its plane with another one."""
    across = other - (other @ first) * first
    return np.asarray(math.cos(angle) * first + math.sin(angle) * (across / np.linalg.norm(across)))


def network(seed: int, d: int, *, depth: int, width: int, activation: str) -> MLP:
    """Return the network of a seed at its initialisation, on samples of dimension ``d``."""
    init = generator(seed, "init")
    return init_mlp(d, depth=depth, width=width, activation=activation, generator=init)


def second_slopes(slopes: Callable[[Array], Array], z: Array) -> Array:
    """Return σ''(z) as difference quotients of σ'."""
    step = 1e-4
    return (slopes(z + step) - slopes(z - step)) / (2 * step)


def descent_losses(mlp: MLP, x: Tensor, y: Tensor, *, step: float, steps: int) -> Array:
    """Return |f - y|²/2 (steps + 1,) along gradient descent on it, for ``x`` (n, d), ``y`` (n,)."""
    weights, losses = mlp.weights, []
    for _ in range(steps + 1):
        weights = tuple(weight.detach().requires_grad_() for weight in weights)
        loss = (forward(MLP(weights, mlp.activation), x) - y).square().sum() / 2
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, weights)
        weights = tuple(w - step * g for w, g in zip(weights, gradients, strict=True))
    return np.array(losses)
