"""Networks of finite width: correlations in random layers, and gradient descent.

Descent is on (1/n) Σ (f(x_i) - y_i)²: a step of size η multiplies the residuals by I - (2η/n) K.
The step sizes that the paper prints lack the factor n/2 of the ``scaled`` ones.
"""

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid, measurement
from ntk_conditioning.claim_experiments.agarwal2021deep.correlations import CorrelationMap
from ntk_conditioning.claim_experiments.agarwal2021deep.norms import scaled
from ntk_conditioning.claim_experiments.numerics import descent_losses, exponent, network, on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.empirical import nngp, ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, embeddings, forward, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.agarwal2021deep import first_depth

START = 0.7  # correlation of two samples
WIDTHS = (32, 128)
#: Layers of a network, and after how many the correlations no longer remember the start.
LAYERS, SETTLED = 64, 32
#: Activations, and the norm of what a layer gives the next; erf(3z) is far from linear.
KINDS = {"odd": ("erf", 3.0), "uneven": ("normalized_relu", 1.0)}

#: Descent: dimension, width, depth and activation of networks, and numbers of samples.
D, WIDTH, DEPTH, ACTIVATION = 16, 512, 4, "normalized_relu"
SIZES = (16, 64)


def decay(setting: Setting) -> Measurements:
    """Measure m E ρ_h, m E (2/π) arcsin ρ_h and √m E|ρ_h| in deep layers, and E|ρ_h| by Eq. (3).

    A layer of width m gives ρ' = (1 - μ) ρ + a_2² ρ² + …, and noise of variance 1/m. So m E ρ_h²
    tends to 1/(μ(2 - μ)), and m E ρ_h to a_2²/μ of that; ρ_h is nearly normal. Eq. (3) is taken as
    printed, with 1/√m between Π and the next W, and as in the proof.
    """
    for kind, (name, scale) in KINDS.items():
        series, limit = scaled(name, scale), CorrelationMap(name, scale**2)
        mu = series.non_linearity
        square = 1 / (mu * (2 - mu))
        mean = series.coefficients[2] ** 2 / series.square / mu * square
        for row, width, seed in grid(activation=name, width=WIDTHS, seed=setting.seeds):
            paths = _paths(name, width, seed, LAYERS, networks=2, scale=scale, start=START)
            deep = paths[SETTLED:]
            signs, size = 2 / math.pi * np.arcsin(deep), math.sqrt(2 / math.pi * square)
            yield row(f"{kind}_mean", width * deep.mean(), 0.0, mean)
            yield row(f"{kind}_signs", width * signs.mean(), 0.0, 2 / math.pi * mean)
            yield row(f"{kind}_size", math.sqrt(width) * np.abs(deep).mean(), 0.0, size)
            if width == max(WIDTHS):
                early = np.abs(paths.mean(axis=1))
                yield row(f"{kind}_decay", _factor(early), None, _factor(limit.path(START)))
        row, width = partial(measurement, activation=name, depth=LAYERS), WIDTHS[-1]
        for statement, norm in (("printed", scale / math.sqrt(width)), ("proof", scale)):
            last = _paths(name, width, setting.seeds[0], LAYERS, scale=norm, start=START)[-1]
            yield row(f"equation_3_{statement}", np.abs(last).mean(), width=width)


def _factor(means: Array) -> float:
    """Return by what factor a layer shrinks the mean correlation, from 0.5 on to 0.1."""
    first, last = int(np.argmax(means < 0.5)), int(np.argmax(means < 0.1))
    return float((means[last] / means[first]) ** (1 / (last - first)))


def concentration(setting: Setting) -> Measurements:
    """Measure how the width that Theorem 52's proof needs depends on μ, δ and L.

    It wants |ρ_h - σ̂(ρ_(h-1))| <= δμ/4 in all L layers but for a probability of e^-L. A quantile q
    of these distances at one width m gives the width, m (4q/δμ)².
    """
    deltas, scales, depths = (0.05, 0.15, 0.4), (1.0, 2.0, 4.0), (2, 3, 4, 6)
    mus = [scaled("erf", scale).non_linearity for scale in scales]  # grows with s in erf(s z)
    for row, seed in grid(activation="erf", seed=setting.seeds):
        widths = [_needed(seed, 3.0, delta) for delta in deltas]
        yield row("width_delta_exponent", exponent(deltas, widths), None, -2.0)
        widths = [_needed(seed, scale, deltas[-1]) for scale in scales]
        yield row("width_mu_exponent", exponent(mus, widths), 2.0, -2.0)
        widths = [_needed(seed, 3.0, 1.0, depth) for depth in depths]
        yield row("width_depth_exponent", exponent(depths, widths), None, 1.0)


def _needed(seed: int, scale: float, delta: float, depth: int | None = None) -> float:
    """Return the width that keeps layers near their limits: all of ``depth``, or most of many."""
    layer = CorrelationMap("erf", scale**2)
    # many networks for rare events, else correlations near 0
    width, layers, networks = (32, depth, 4) if depth else (512, SETTLED, 1)
    paths = _paths("erf", width, seed, layers, networks=networks, scale=scale, start=1 - delta)
    moved = np.abs(paths[1:] - layer(paths[:-1]))
    at = np.quantile(moved.max(axis=0), 1 - math.exp(-depth)) if depth else np.quantile(moved, 0.9)
    return float(width * (4 * at / (delta * scaled("erf", scale).non_linearity)) ** 2)


def narrow(setting: Setting) -> Measurements:
    """Measure how many layers take E ρ_h from 1 - δ to 1/4, over those of infinite width."""
    for delta in (0.1, 1e-3, 1e-6):
        needed = int(np.argmax(CorrelationMap("erf", 9.0).path(1 - delta) < 0.25))
        keys = {"activation": "erf", "depth": needed, "width": WIDTHS[-1], "at": delta}
        for row, seed in grid(**keys, seed=setting.seeds):
            paths = _paths("erf", WIDTHS[-1], seed, 2 * needed, scale=3.0, start=1 - delta)
            yield row("narrow_layers", np.count_nonzero(paths.mean(axis=1) >= 0.25) / needed)


def _paths(
    name: str, width: int, seed: int, layers: int, *, networks: int = 0, scale: float, start: float
) -> Array:
    """Return the correlations (layers + 1, networks) of two samples, at random initialisation.

    A unit sees two normal variables of that correlation, which are drawn in place of matrices. Of
    max(4, 2^14/width) networks, or ``networks`` times as many from several streams.
    """
    rngs = [generator(seed, "init", number) for number in range(1, networks + 1) or [None]]
    sigma, count = activations.get(name), max(4, 2**14 // width)
    path = [np.full(len(rngs) * count, start)]
    for _ in range(layers):
        rho = path[-1][:, None]
        draws = [rng.standard_normal((2, count, width)) for rng in rngs]
        u, v = np.concatenate(draws, axis=1)
        v = rho * u + np.sqrt(np.maximum(1 - rho**2, 0)) * v
        one, two = sigma.values(scale * u), sigma.values(scale * v)
        squares = np.square(one).sum(axis=1) * np.square(two).sum(axis=1)
        # rounding may leave the range
        path.append(np.clip((one * two).sum(axis=1) / np.sqrt(squares), -1, 1))
    return np.array(path)


def kernel_distance(setting: Setting) -> Measurements:
    """Measure Lemma 43: how the largest |K_ij - K̄_ij| falls with the width and grows with depth."""
    n, depths, limit = 16, (1, 2, 4, 8), CorrelationMap("erf")
    for row, seed in grid(activation="erf", n=n, d=D, seed=setting.seeds):
        x = on_sphere(seed, n, D)
        kernels = [limit(np.minimum(x @ x.T, 1.0), depth) for depth in depths]
        distances = np.empty((len(setting.widths), len(depths)))
        for i, j in np.ndindex(distances.shape):
            mlp = network(seed, D, depth=depths[j], width=setting.widths[i], activation="erf")
            distances[i, j] = np.abs(nngp(mlp, torch.from_numpy(x)).numpy() - kernels[j]).max()
        power = exponent(setting.widths, distances)
        yield row("kernel_distance_exponent", power, -0.5, depth=depths)
        growth = exponent(np.exp(depths), distances.mean(axis=0))
        yield row("kernel_distance_growth", math.exp(growth), 2.0)


def top_layer(setting: Setting) -> Measurements:
    """Measure Theorems 44 and 50, where v is trained: the slowest decay, over their 1/(4 κ)."""
    keys = {"activation": ACTIVATION, "depth": DEPTH, "width": WIDTH}
    for row, seed in grid(**keys, seed=setting.seeds):
        decays = []
        for n in SIZES:
            mlp, x, y = _problem(seed, n)
            phi, v0 = embeddings(mlp, x).numpy(), mlp.weights[-1][0].numpy()
            low, *_, high = np.linalg.eigvalsh(phi @ phi.T)
            of_steps = [_least_decay(_losses(phi, y, v0, step / high)) for step in (1, n / 2)]
            decays.append(np.multiply(of_steps, 4 * high / low))
        yield row("top_layer_scaled_step", np.array(decays)[:, 1], n=SIZES)
        statements = [f"top_layer_{step}_step_exponent" for step in ("printed", "scaled")]
        yield row(statements, exponent(SIZES, decays))


def depth_of_samples(setting: Setting) -> Measurements:
    """Measure Theorem 44 at the depth L_1(n, δ) of the samples at hand: the rate of top layers.

    And κ of the infinite-width NTK at their L_2(n, δ). The width, poly(n, 1/δ), is 4 n² here.
    """
    mu, sizes = CorrelationMap("erf").mu, (6, 12)
    for row, seed in grid(activation="erf", d=D, seed=setting.seeds):
        rates = []
        for n in sizes:
            x, init = on_sphere(seed, n, D), generator(seed, "init")
            delta = 1 - np.abs(x @ x.T - np.eye(n)).max()
            depth, width = first_depth(n, delta, mu), 4 * n**2
            mlp = init_mlp(D, depth=depth, width=width, activation="erf", generator=init)
            phi = embeddings(mlp, torch.from_numpy(x)).numpy()
            y, high = init.standard_normal(n), np.linalg.eigvalsh(phi @ phi.T)[-1]
            losses = _losses(phi, y, mlp.weights[-1][0].numpy(), n / (2 * high))
            rates.append(_least_decay(losses))
            if seed == setting.seeds[0]:
                deep = first_depth(n, delta, mu, ntk=True)
                kappa = np.linalg.cond(infinite.ntk(x, depth=deep, activation="erf"))
                yield row("ntk_kappa_at_depth", kappa, n=n, depth=deep, at=delta)
        yield row("top_layer_rate_exponent", exponent(sizes, rates))


def all_layers(setting: Setting) -> Measurements:
    """Measure Theorem 47, where all is trained: the decay times κ, which is not to depend on n."""
    sizes = (4, 16)
    for row, seed in grid(activation="erf", depth=2, width=WIDTH, seed=setting.seeds):
        decays = []
        for n in sizes:
            mlp, x, noise = _problem(seed, n, depth=2, activation="erf")
            y = forward(mlp, x) + torch.from_numpy(noise) / 10  # near the start, as the width asks
            low, *_, high = np.linalg.eigvalsh(ntk(mlp, x).numpy())
            # of (1/n) Σ, where the same step is 2/n as long
            steps = (2 / n * step / (low + high) for step in (2, n))
            losses = (descent_losses(mlp, x, y, step=step, steps=20) for step in steps)
            decays.append([_least_decay(each) * high / low for each in losses])
        yield row("all_layers_scaled_step", np.array(decays)[:, 1], n=sizes)
        statements = [f"all_layers_{step}_step_exponent" for step in ("printed", "scaled")]
        yield row(statements, exponent(sizes, decays))


def features(setting: Setting) -> Measurements:
    """Measure Appendix E.3's assumption λ_min(AᵀA) > 0, of which it says that min loss = 0."""
    n = 32
    for seed in setting.seeds:
        rng = generator(seed, "data")
        for row, ratio in grid(n=n, seed=seed, at=(0.5, 2.0)):
            a = rng.standard_normal((n, int(ratio * n))) / math.sqrt(n)
            y = rng.standard_normal(n)
            w, *_ = np.linalg.lstsq(a, y, rcond=None)
            yield row("features_gram", np.linalg.eigvalsh(a.T @ a)[0])
            yield row("samples_gram", np.linalg.eigvalsh(a @ a.T)[0])
            yield row("least_loss", np.sum((a @ w - y) ** 2) / np.sum(y**2))


def stochastic(setting: Setting) -> Measurements:
    """Measure Theorems 51 and 45: steps of stochastic descent to a hundredth of the loss.

    Steps are 1/(2β), on one sample each, and a round of 8nβ/λ_min ends in the mean of its iterates.
    """
    target, sizes, needed, smallest = 1e-2, (8, 16, 32, 64), [], []
    for row, n in grid(activation=ACTIVATION, depth=DEPTH, width=WIDTH, n=sizes):
        mlp, x, y = _problem(setting.seeds[0], n)
        phi = embeddings(mlp, x).numpy()
        k = phi @ phi.T
        low, beta = float(np.linalg.eigvalsh(k)[0]), float(np.diag(k).max())
        length, pick = math.ceil(8 * n * beta / low), generator(n, "batch")
        residual = np.tile(y - forward(mlp, x).numpy(), (64, 1))  # replicates
        first = np.mean(residual[0] ** 2)
        if n <= SIZES[0]:
            left = residual
            for _ in range(math.ceil(math.log2(1 / target))):
                left, _ = _round(k, left, beta=beta, length=length, pick=pick)
            yield row("sgd_loss", np.mean(left**2) / first / target, at=target)
        _, losses = _round(k, residual, beta=beta, length=length, pick=pick)
        needed.append(int(np.argmax(losses / first < target)))
        smallest.append(low)
        yield row("sgd_lambda_min", low, n)
    statements = ["sgd_steps_exponent", "sgd_steps_times_lambda_min_exponent"]
    powers = exponent(sizes, np.transpose([needed, np.multiply(needed, smallest)]))
    yield measurement(statements, powers, 0.0, 1.0, depth=DEPTH)


def _problem(
    seed: int, n: int, *, depth: int = DEPTH, activation: str = ACTIVATION
) -> tuple[MLP, Tensor, Array]:
    """Return a network at its start, samples on the sphere and standard normal targets."""
    rng = generator(seed, "data")
    mlp = network(seed, D, depth=depth, width=WIDTH, activation=activation)
    return mlp, torch.from_numpy(on_sphere(rng, n, D)), rng.standard_normal(n)


def _losses(phi: Array, y: Array, v: Array, step: float) -> Array:
    """Return the loss before and after each step of the update rule, by v itself."""
    losses = []
    for _ in range(1001):
        residual = phi @ v - y
        losses.append(np.mean(residual**2))
        v = v - step * 2 / len(y) * (phi.T @ residual)
    return np.array(losses)


def _least_decay(losses: Array) -> float:
    """Return the least -log(loss_t / loss_0) / t over t >= 1, while the loss is resolved."""
    relative, t = losses[1:] / losses[0], np.arange(1, len(losses))
    kept = relative > 1e-24  # below is rounding
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
        residual = residual - residual[rows, drawn][:, None] * k[drawn] / beta
    return total / length, np.array(losses)
