"""Gradient descent on (1/n) Σ (f(x_i) - y_i)²: Lemma 43, Theorems 44, 45, 47, 50 and 51.

With a_i the features (or gradients) of sample i and K their inner products, a step of size η
multiplies the residuals by I - (2η/n) K. The factor 1/n is in the paper's loss and its update rule,
but not in the step sizes that it prints: Θ(1/λ_max(K)), and Lee et al.'s 2/(λ_min + λ_max), which
belongs to a sum of squares. ``printed`` steps are those, the others n/2 times as long.
"""

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.correlations import CorrelationMap
from ntk_conditioning.claim_experiments.numerics import descent_losses, exponent, on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks.mlp import MLP, embeddings, forward, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.agarwal2021deep import first_depth

D = 16
WIDTH, DEPTH = 512, 4
SIZES, FEW, SCALED, MANY = (16, 64), (4, 16), (6, 12), (8, 16, 32, 64)
ACTIVATION = "normalized_relu"
STEPS, MANY_STEPS = 20, 1000
RESOLVED = 1e-24  # losses below are rounding, relative to the first
REPLICATES = 64
TARGET = 1e-2  # of the loss, relative to the first, that stochastic descent is to reach


def finite_width(setting: Setting) -> Measurements:
    """Measure Lemma 43: how the largest |K_ij - K̄_ij| falls with the width and grows with depth.

    The lemma's width grows as (4C)^(L+1), C >= 1, which lets the distance double at every layer.
    """
    n, depths, limit = SIZES[0], (1, 2, 4, 8), CorrelationMap("erf")
    for seed in setting.seeds:
        x = on_sphere(generator(seed, "data"), n, D)
        row = partial(Measurement, activation="erf", n=n, d=D, seed=seed)
        distances = np.empty((len(depths), len(setting.widths)))
        for at in np.ndindex(distances.shape):
            depth, width = depths[at[0]], setting.widths[at[1]]
            init = generator(seed, "init")
            mlp = init_mlp(D, depth=depth, width=width, activation="erf", generator=init)
            phi = embeddings(mlp, torch.from_numpy(x)).numpy()
            gram = np.minimum(x @ x.T, 1.0)
            distances[at] = np.abs(phi @ phi.T - limit.iterated(gram, depth)).max()
        for depth, each in zip(depths, distances, strict=True):
            yield row("kernel_distance_exponent", exponent(setting.widths, each), -0.5, depth=depth)
        growth = exponent(np.exp(depths), distances.mean(axis=1))
        yield row("kernel_distance_growth", math.exp(growth), 2.0)


def top_layer(setting: Setting) -> Measurements:
    """Measure Theorems 44 and 50, where v is trained: the slowest decay, over their 1/(4 κ)."""
    for seed in setting.seeds:
        row = partial(Measurement, activation=ACTIVATION, depth=DEPTH, width=WIDTH, seed=seed)
        decays: dict[str, list[float]] = {"printed": [], "scaled": []}
        for n in SIZES:
            mlp, x, y = _problem(seed, n)
            phi = embeddings(mlp, x).numpy()
            low, *_, high = np.linalg.eigvalsh(phi @ phi.T)
            v0 = mlp.weights[-1][0].numpy()
            for name, step in (("printed", 1 / high), ("scaled", n / (2 * high))):
                decays[name].append(_least_decay(_losses(phi, y, v0, step)) * 4 * high / low)
            yield row("top_layer_scaled_step", decays["scaled"][-1], n=n)
        for name, values in decays.items():
            yield row(f"top_layer_{name}_step_exponent", exponent(SIZES, values))


def depth_of_samples(setting: Setting) -> Measurements:
    """Measure Theorem 44 at the depth L_1(n, δ) of the samples at hand: the rate of top layers.

    And κ of the infinite-width NTK at their L_2(n, δ), at which Corollary 48 has it constant. The
    width, poly(n, 1/δ), is 4 n² here, with which entries of K - K̄ fall as 1/n.
    """
    mu = CorrelationMap("erf").mu
    for seed in setting.seeds:
        rates = []
        for n in SCALED:
            x = on_sphere(generator(seed, "data"), n, D)
            delta = 1 - np.abs(x @ x.T - np.eye(n)).max()
            depth, width = first_depth(n, delta, mu), 4 * n**2
            init = generator(seed, "init")
            mlp = init_mlp(D, depth=depth, width=width, activation="erf", generator=init)
            phi = embeddings(mlp, torch.from_numpy(x)).numpy()
            y, high = init.standard_normal(n), np.linalg.eigvalsh(phi @ phi.T)[-1]
            losses = _losses(phi, y, mlp.weights[-1][0].numpy(), n / (2 * high))
            rates.append(_least_decay(losses))
            row = partial(Measurement, activation="erf", n=n, d=D, seed=seed)
            yield row("top_layer_rate", rates[-1], depth=depth, width=width, at=delta)
            if seed == setting.seeds[0]:
                deep = first_depth(n, delta, mu, ntk=True)
                low, *_, high = np.linalg.eigvalsh(infinite.ntk(x, depth=deep, activation="erf"))
                yield row("ntk_kappa_at_depth", high / low, depth=deep, at=delta)
        power = exponent(SCALED, rates)
        yield Measurement("top_layer_rate_exponent", power, activation="erf", d=D, seed=seed)


def all_layers(setting: Setting) -> Measurements:
    """Measure Theorem 47, where all is trained: the decay times κ, which is not to depend on n."""
    for seed in setting.seeds:
        row = partial(Measurement, activation="erf", depth=2, width=WIDTH, seed=seed)
        decays: dict[str, list[float]] = {"printed": [], "scaled": []}
        for n in FEW:
            mlp, x, noise = _problem(seed, n, depth=2, activation="erf")
            y = forward(mlp, x) + torch.from_numpy(noise) / 10  # near the start, as the width asks
            low, *_, high = np.linalg.eigvalsh(ntk(mlp, x).numpy())
            for name, step in (("printed", 2 / (low + high)), ("scaled", n / (low + high))):
                # of (1/n) Σ, where the same step is 2/n as long
                losses = descent_losses(mlp, x, y, step=2 * step / n, steps=STEPS)
                decays[name].append(_least_decay(losses) * high / low)
            yield row("all_layers_scaled_step", decays["scaled"][-1], n=n)
        for name, values in decays.items():
            yield row(f"all_layers_{name}_step_exponent", exponent(FEW, values))


def features(setting: Setting) -> Measurements:
    """Measure Appendix E.3's assumption λ_min(AᵀA) > 0, of which it says that min loss = 0.

    ``at`` is the number of random features over that of samples.
    """
    n = 32
    for seed in setting.seeds:
        rng = generator(seed, "data")
        for ratio in (0.5, 2.0):
            row = partial(Measurement, n=n, seed=seed, at=ratio)
            a = rng.standard_normal((n, int(ratio * n))) / math.sqrt(n)
            y = rng.standard_normal(n)
            w, *_ = np.linalg.lstsq(a, y, rcond=None)
            yield row("features_gram", np.linalg.eigvalsh(a.T @ a)[0])
            yield row("samples_gram", np.linalg.eigvalsh(a @ a.T)[0])
            yield row("least_loss", np.sum((a @ w - y) ** 2) / np.sum(y**2))


def stochastic(setting: Setting) -> Measurements:
    """Measure Theorems 51 and 45: steps of stochastic descent to a loss of TARGET, in the mean.

    Steps are 1/(2β), on one sample each, and a round of 8nβ/λ_min ends in the mean of its iterates,
    as the proof has it. After log2(1/TARGET) rounds ``sgd_loss`` is what is left over TARGET.
    ``sgd_steps`` is how many steps the mean loss of the last iterate needs to reach TARGET, whose
    exponent in n Theorem 45 puts at 0, by a λ_min of Ω(n); ``sgd_lambda_min`` is λ_min.
    """
    needed: list[int] = []
    smallest: list[float] = []
    for n in MANY:
        row = partial(Measurement, activation=ACTIVATION, depth=DEPTH, width=WIDTH, n=n)
        mlp, x, y = _problem(setting.seeds[0], n)
        phi = embeddings(mlp, x).numpy()
        k = phi @ phi.T
        low, beta = float(np.linalg.eigvalsh(k)[0]), float(np.diag(k).max())
        descend = partial(
            _round, k, beta=beta, length=math.ceil(8 * n * beta / low), pick=generator(n, "batch")
        )
        residual = np.tile(y - forward(mlp, x).numpy(), (REPLICATES, 1))
        first = np.mean(residual[0] ** 2)
        if n <= SIZES[0]:
            left = residual
            for _ in range(math.ceil(math.log2(1 / TARGET))):
                left, _ = descend(left)
            yield row("sgd_loss", np.mean(left**2) / first / TARGET, at=TARGET)
        _, losses = descend(residual)
        needed.append(int(np.argmax(losses / first < TARGET)))
        yield row("sgd_steps", needed[-1], at=TARGET)
        smallest.append(low)
        yield row("sgd_lambda_min", low, n)
    yield Measurement("sgd_steps_exponent", exponent(MANY, needed), 0.0, 1.0, depth=DEPTH)
    power = exponent(MANY, np.multiply(needed, smallest))
    yield Measurement("sgd_steps_times_lambda_min_exponent", power, 0.0, 1.0, depth=DEPTH)


def _problem(
    seed: int, n: int, *, depth: int = DEPTH, activation: str = ACTIVATION
) -> tuple[MLP, Tensor, Array]:
    """Return a network at its start, samples on the sphere and standard normal targets."""
    rng, init = generator(seed, "data"), generator(seed, "init")
    mlp = init_mlp(D, depth=depth, width=WIDTH, activation=activation, generator=init)
    return mlp, torch.from_numpy(on_sphere(rng, n, D)), rng.standard_normal(n)


def _losses(phi: Array, y: Array, v: Array, step: float) -> Array:
    """Return the loss before and after each step of the update rule, by v itself."""
    losses = []
    for _ in range(MANY_STEPS + 1):
        residual = phi @ v - y
        losses.append(np.mean(residual**2))
        v = v - step * 2 / len(y) * (phi.T @ residual)
    return np.array(losses)


def _least_decay(losses: Array) -> float:
    """Return the least -log(loss_t / loss_0) / t over t >= 1, while the loss is resolved."""
    relative = losses[1:] / losses[0]
    t = np.arange(1, len(losses))
    kept = relative > RESOLVED
    return float(np.min(-np.log(relative[kept]) / t[kept]))


def _round(
    k: Array, residual: Array, *, beta: float, length: int, pick: np.random.Generator
) -> tuple[Array, Array]:
    """Return the mean residuals (replicates, n) of a round and the mean loss at each step."""
    total, losses = np.zeros_like(residual), []
    rows = np.arange(len(residual))
    for _ in range(length):
        total += residual
        losses.append(np.mean(residual**2))
        drawn = pick.integers(residual.shape[1], size=len(residual))
        residual = residual - 2 * (1 / (2 * beta)) * residual[rows, drawn][:, None] * k[drawn]
    return total / length, np.array(losses)
