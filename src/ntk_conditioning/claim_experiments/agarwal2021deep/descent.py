"""Gradient descent on (1/n) Σ (f(x_i) - y_i)²: Theorems 44, 45, 47, 50 and 51.

With a_i the features (or gradients) of sample i and K their inner products, a step of size η
multiplies the residuals by I - (2η/n) K. The factor 1/n is in the paper's loss and its update rule,
but not in the step sizes that it prints: Θ(1/λ_max(K)), and Lee et al.'s 2/(λ_min + λ_max), which
belongs to a sum of squares. ``printed`` steps are those, the others n/2 times as long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.fits import exponent
from ntk_conditioning.claim_experiments.samples import on_sphere
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks.mlp import MLP, forward, gradient_factors, init_mlp
from ntk_conditioning.seeds import generator

Array = NDArray[np.float64]

D = 16
WIDTH, DEPTH = 512, 4
SIZES = (16, 64)
FEW = (4, 8, 16)
MANY = (8, 16, 32, 64)
ACTIVATION = "normalized_relu"
STEPS, MANY_STEPS = 30, 1000
RESOLVED = 1e-24
"""Losses below are rounding, relative to the first."""
REPLICATES = 64
TARGET = 1e-2
"""Of the loss, relative to the first, that stochastic descent is to reach."""


def top_layer(setting: Setting) -> Iterator[Measurement]:
    """Measure Theorems 44 and 50: the slowest decay of the loss, over the theorem's 1/(4 κ).

    A network of finite width, of which only v is trained from its random start, by the update rule
    of Appendix E.1. The decay is -log(loss_t / loss_0) / t, the least over t.
    """
    for seed in setting.seeds[:3]:
        for n in SIZES:
            mlp, x, y = _problem(seed, n)
            phi = gradient_factors(mlp, torch.from_numpy(x)).alphas[-1].numpy()
            low, *_, high = np.linalg.eigvalsh(phi @ phi.T)
            v0 = mlp.weights[-1][0].numpy()
            common: dict[str, Any] = {
                "activation": ACTIVATION,
                "depth": DEPTH,
                "width": WIDTH,
                "n": n,
                "seed": seed,
            }  # fmt: skip
            for name, step in (("printed", 1 / high), ("scaled", n / (2 * high))):
                decay = _least_decay(_losses(phi, y, v0, step))
                yield Measurement(f"top_layer_{name}_step", decay * 4 * high / low, **common)


def all_layers(setting: Setting) -> Iterator[Measurement]:
    """Measure Theorem 47 on wide erf networks: the exponent in n of the decay of the loss times κ.

    All layers are trained. The theorem leaves a constant open, which is not to depend on n.
    """
    for seed in setting.seeds[:3]:
        decays: dict[str, list[float]] = {"printed": [], "scaled": []}
        for n in FEW:
            mlp, x, noise = _problem(seed, n, depth=2, activation="erf")
            inputs = torch.from_numpy(x)
            # near the start, for which the theorem takes the width
            y = forward(mlp, inputs) + torch.from_numpy(noise) / 10
            low, *_, high = np.linalg.eigvalsh(ntk(mlp, inputs).numpy())
            for name, step in (("printed", 2 / (low + high)), ("scaled", n / (low + high))):
                decay = _least_decay(_trained(mlp, inputs, y, step)) * high / low
                decays[name].append(decay)
                yield Measurement(
                    f"all_layers_{name}_step",
                    decay,
                    activation="erf",
                    depth=2,
                    width=WIDTH,
                    n=n,
                    seed=seed,
                )
        for name, values in decays.items():
            power = exponent(FEW, values)
            statement = f"all_layers_{name}_step_exponent"
            yield Measurement(statement, power, depth=2, width=WIDTH, seed=seed)


def features(setting: Setting) -> Iterator[Measurement]:
    """Measure Appendix E.3's assumption λ_min(AᵀA) > 0, of which it says that min loss = 0.

    ``at`` is the number of features over that of samples, for random features and targets: the
    smallest eigenvalue of AᵀA and of AAᵀ, and the smallest loss over the mean square of y.
    """
    n = 32
    for seed in setting.seeds:
        rng = generator(seed, "data")
        for ratio in (0.5, 2.0):
            a = rng.standard_normal((n, int(ratio * n))) / math.sqrt(n)
            y = rng.standard_normal(n)
            w, *_ = np.linalg.lstsq(a, y, rcond=None)
            for name, value in (
                ("features_gram", np.linalg.eigvalsh(a.T @ a)[0]),
                ("samples_gram", np.linalg.eigvalsh(a @ a.T)[0]),
                ("least_loss", np.sum((a @ w - y) ** 2) / np.sum(y**2)),
            ):
                yield Measurement(name, float(value), n=n, seed=seed, at=ratio)


def stochastic(setting: Setting) -> Iterator[Measurement]:
    """Measure Theorems 51 and 45: steps of stochastic descent to a loss of TARGET, in the mean.

    Steps are 1/(2β), on one sample each, and a round of 8nβ/λ_min ends in the mean of its iterates,
    as the proof has it. After log2(1/TARGET) rounds ``sgd_loss`` is what is left over TARGET.
    ``sgd_steps`` is how many steps the mean loss of the last iterate needs to reach TARGET, whose
    exponent in n Theorem 45 puts at 0, by a λ_min of Ω(n); ``sgd_lambda_min`` is λ_min.
    """
    needed = []
    for n in MANY:
        mlp, x, y = _problem(setting.seeds[0], n)
        phi = gradient_factors(mlp, torch.from_numpy(x)).alphas[-1].numpy()
        k = phi @ phi.T
        common: dict[str, Any] = {"activation": ACTIVATION, "depth": DEPTH, "width": WIDTH, "n": n}
        low = float(np.linalg.eigvalsh(k)[0])
        beta = float(np.diag(k).max())
        length = math.ceil(8 * n * beta / low)
        rounds = math.ceil(math.log2(1 / TARGET))
        pick = generator(n, "batch")
        residual = np.tile(y - forward(mlp, torch.from_numpy(x)).numpy(), (REPLICATES, 1))
        first = np.mean(residual[0] ** 2)
        if n <= SIZES[0]:
            left = residual
            for _ in range(rounds):
                left = _round(k, left, 1 / (2 * beta), length, pick)[0]
            ratio = float(np.mean(left**2) / first / TARGET)
            yield Measurement("sgd_loss", ratio, at=TARGET, **common)
        path = _round(k, residual, 1 / (2 * beta), length, pick)[1] / first
        needed.append(int(np.argmax(path < TARGET)))
        yield Measurement("sgd_steps", float(needed[-1]), at=TARGET, **common)
        yield Measurement("sgd_lambda_min", low, printed=float(n), **common)
    power = exponent(MANY, needed)
    yield Measurement("sgd_steps_exponent", power, printed=0.0, corrected=1.0, depth=DEPTH)


def _problem(
    seed: int, n: int, *, depth: int = DEPTH, activation: str = ACTIVATION
) -> tuple[MLP, Array, Array]:
    """Return a network at its start, samples on the sphere and standard normal targets."""
    rng = generator(seed, "data")
    x = on_sphere(rng, n, D)
    init = generator(seed, "init")
    mlp = init_mlp(D, depth=depth, width=WIDTH, activation=activation, generator=init)
    return mlp, x, rng.standard_normal(n)


def _losses(phi: Array, y: Array, v: Array, step: float) -> Array:
    """Return the loss before and after each step of the update rule, by v itself."""
    losses = []
    for _ in range(MANY_STEPS + 1):
        residual = phi @ v - y
        losses.append(np.mean(residual**2))
        v = v - step * 2 / len(y) * (phi.T @ residual)
    return np.array(losses)


def _trained(mlp: MLP, x: Tensor, y: Tensor, step: float) -> Array:
    """Return the losses of gradient descent on all weights, gradients by torch."""
    weights = [weight.clone().requires_grad_() for weight in mlp.weights]
    losses = []
    for _ in range(STEPS + 1):
        loss = (forward(MLP(tuple(weights), mlp.activation), x) - y).square().mean()
        losses.append(float(loss.detach()))
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= step * gradient
    return np.array(losses)


def _least_decay(losses: Array) -> float:
    """Return the least -log(loss_t / loss_0) / t over t >= 1, while the loss is resolved."""
    relative = losses[1:] / losses[0]
    t = np.arange(1, len(losses))
    kept = relative > RESOLVED
    return float(np.min(-np.log(relative[kept]) / t[kept]))


def _round(
    k: Array, residual: Array, step: float, length: int, pick: np.random.Generator
) -> tuple[Array, Array]:
    """Return the mean residuals (replicates, n) of a round and the mean loss at each step."""
    total, losses = np.zeros_like(residual), []
    rows = np.arange(len(residual))
    for _ in range(length):
        total += residual
        losses.append(np.mean(residual**2))
        drawn = pick.integers(residual.shape[1], size=len(residual))
        residual = residual - 2 * step * residual[rows, drawn][:, None] * k[drawn]
    return total / length, np.array(losses)
