"""Networks of growing width against the limits of Theorems 3.1, 4.1, 4.4, and random matrices."""

import itertools
import math
from collections import defaultdict
from functools import partial

import numpy as np
import pandas as pd
import torch

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid, measurement
from ntk_conditioning.claim_experiments.numerics import (
    at_angle,
    descent_losses,
    exponent,
    network,
    on_sphere,
    rms,
)
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.empirical import ntk, pair_angle
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, forward, gradient_factors, linear_factor
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import conditioning
from ntk_conditioning.theory import liu2023relu as theory

D = 8
ANGLES = np.radians([10.0, 30.0, 60.0, 90.0, 120.0, 160.0])


def networks(setting: Setting) -> Measurements:
    """Measure norms, angles and kernels of linear and ReLU networks at every width."""
    measured = []
    for width, number in itertools.product(setting.widths, _numbers(setting, 2)):
        # networks share their weights, of which the deepest have millions
        deepest = network(number, D, depth=max(setting.depths), width=width, activation="linear")
        for name, depth in itertools.product(("linear", "relu"), setting.depths):
            mlp = MLP((*deepest.weights[:depth], deepest.weights[-1]), activations.get(name))
            keys = {"activation": name, "depth": depth, "width": width}
            measured.append(keys | _measured(mlp, _pairs(number)))
    by_kind = pd.DataFrame(measured).groupby(["activation", "depth", "width"])
    means = by_kind.agg(rms).assign(delta_cosine=by_kind["delta_cosine"].mean())
    for (name, depth), of_kind in means.groupby(["activation", "depth"]):
        row = partial(measurement, activation=name, depth=depth, d=D)
        widths = of_kind.index.get_level_values("width")
        norm, kernel = math.sqrt(depth + 1), depth + 1
        yield row(f"{name}_gradient_norm", of_kind["gradient_norm"], kernel, norm, width=widths)
        yield row(f"{name}_kernel", of_kind["kernel"], kernel**2, kernel, width=widths)
        for quantity in ("embedding_norm", "embedding_angle", "gradient_angle", "entries"):
            yield row(f"{name}_{quantity}_exponent", exponent(widths, of_kind[quantity]))
        if name == "relu":  # of the first pair
            angles = [theory.embedding_angle(ANGLES[0], layer) for layer in range(depth + 2)]
            factors = 1 - np.array(angles) / np.pi
            products = np.prod(factors), np.prod(factors[:depth])
            at = math.degrees(ANGLES[0])
            yield row("delta_cosine", of_kind["delta_cosine"], *products, width=widths, at=at)


def _numbers(setting: Setting, copies: int) -> list[int]:
    """Return the seeds of ``copies`` draws for each seed of the setting, none of them twice."""
    return sorted({seed + 1000 * copy for seed in setting.seeds for copy in range(copies)})


def _measured(mlp: MLP, x: Array) -> dict[str, float]:
    """Return the quantities of one network, each a root mean square over pairs."""
    linear, depth = mlp.activation.name == "linear", mlp.depth
    factors = gradient_factors(mlp, torch.from_numpy(x))
    embedding, norms = factors.alphas[-1].numpy(), np.linalg.norm(x, axis=1)
    kernels = np.array([embedding @ embedding.T, ntk(mlp, torch.from_numpy(x)).numpy()])
    lengths = np.sqrt(np.diagonal(kernels, 0, 1, 2))
    entries = np.diagonal(kernels, 1, 1, 2)[:, ::2]  # of pairs
    cosines = entries / (lengths[:, ::2] * lengths[:, 1::2])
    angles = np.arccos(np.clip(cosines, -1, 1))  # narrow networks make samples parallel
    theta = ANGLES if linear else theory.embedding_angle(ANGLES, depth)
    phi = ANGLES if linear else theory.gradient_angle(ANGLES, depth)
    one, other = factors.deltas[0].numpy()[:2]
    whole = np.linalg.norm(kernels[1]) / np.linalg.norm(x @ x.T)
    return {
        "embedding_norm": rms(lengths[0] / norms - 1),
        "embedding_angle": rms(angles[0] - theta),
        "gradient_angle": rms(angles[1] - phi),
        "gradient_norm": rms(lengths[1] / norms),
        "entries": rms(entries[1] / (depth + 1) / (norms[::2] * norms[1::2]) - np.cos(phi)),
        "kernel": float(whole) if linear else rms((lengths[1] / norms) ** 2),
        "delta_cosine": float(one @ other / np.linalg.norm(one) / np.linalg.norm(other)),
    }


def _pairs(seed: int) -> Array:
    """Return samples (2k, D) of various norms; samples 2i and 2i + 1 are at the i-th angle."""
    rng = generator(seed, "data")
    rows = []
    for angle in ANGLES:
        first, across = np.linalg.qr(rng.standard_normal((D, 2)))[0].T
        one, other = rng.uniform(0.5, 2.0, size=2)
        rows += [one * first, other * at_angle(first, across, angle)]
    return np.array(rows)


def gradients(setting: Setting) -> Measurements:
    """Measure Eqs. (32) and (33) beside automatic differentiation, with two recursions of α̃."""
    width, depth = 32, 3
    for row, seed in grid(activation="relu", depth=depth, width=width, d=D, seed=setting.seeds):
        x = torch.from_numpy(_pairs(seed)[:1])
        mlp = network(seed, D, depth=depth, width=width, activation="relu")
        weights = tuple(weight.clone().requires_grad_() for weight in mlp.weights)
        exact = torch.autograd.grad(forward(MLP(weights, mlp.activation), x).sum(), weights)
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in exact))
        alphas = gradient_factors(mlp, x).alphas
        # α̃^(l) is W^(l) α^(l-1) in Section 2, but W^(l) α̃^(l-1) in the proof of Theorem 4.4
        for name, before in (("gradient_formula", "relu"), ("gradient_formula_printed", "linear")):
            signs = gradient_factors(MLP(mlp.weights, activations.get(before)), x).alphas
            delta, error = torch.ones(1, dtype=torch.float64), 0.0
            for layer in range(depth, -1, -1):
                error += float((torch.outer(delta, alphas[layer][0]) - exact[layer]).square().sum())
                delta = math.sqrt(2 / width) * (delta @ mlp.weights[layer]) * (signs[layer][0] > 0)
            yield row(name, math.sqrt(error) / norm)


def noise(setting: Setting) -> Measurements:
    """Measure m times the mean, over networks, of <α^(l)(x), α^(l)(z)> less its limit."""
    widths, draws, angle = (32, 64, 128), 8000, 2.5  # networks for each seed
    first, second = (float(np.cos(theory.embedding_angle(angle, layer))) for layer in (1, 2))
    for seed in setting.seeds:
        rng, means = generator(seed, "init"), []
        for row, m in grid(width=widths, n=draws, d=2, seed=seed, at=angle):
            w = rng.standard_normal((2, draws, m))
            a = np.maximum(w[0], 0)
            b = np.maximum(math.cos(angle) * w[0] + math.sin(angle) * w[1], 0)
            mixed, aa, bb = (2 / m * (u * v).sum(axis=1) for u, v in ((a, b), (a, a), (b, b)))
            norms = np.sqrt(aa * bb)
            theta = np.arccos(np.clip(mixed / norms, -1, 1))
            means.append((norms * np.cos(theory.embedding_angle(theta, 1))).mean() - second)
            yield row("noise_mean", [m * (mixed.mean() - first), m * means[-1]], depth=[1, 2])
        power = exponent(widths, np.abs(means))
        yield measurement("noise_mean_exponent", power, depth=2, seed=seed, at=angle)


def close_pairs(setting: Setting) -> Measurements:
    """Measure gradient angles and kappa as one pair of N samples comes closer.

    A pair at angle theta lies on both sides of m theta/pi of m units' hyperplanes. Below one, the
    network is linear between the two, and kappa grows as theta^-2 like the Gram matrix's.
    """
    n, d, angles = 16, 32, np.geomspace(1e-7, 1.0, 15)
    samples = [[*range(n - 1), n - 1 + k] for k in range(len(angles))]  # by the pair's angle
    depths = sorted({min(setting.depths), max(setting.depths)})
    for row, depth, seed in grid(activation="relu", n=n, d=d, depth=depths, seed=setting.seeds):
        first, second, *others = on_sphere(seed, n, d)
        moving = [at_angle(first, second, at) for at in angles]
        x = np.array([first, *others, *moving])
        yield row("gram_kappa", np.linalg.cond(x[samples]) ** 2, at=angles)
        kernels: dict[int | None, Array] = {None: infinite.ntk(x, depth=depth, activation="relu")}
        pairs = torch.from_numpy(np.array([[first] * len(moving), moving]))
        printed = theory.gradient_angle(angles, depth) / angles
        for width in setting.widths:
            mlp = network(seed, d, depth=depth, width=width, activation="relu")
            separation = pair_angle(mlp, *pairs).numpy() / angles
            yield row("separation", separation, printed, at=angles, width=width)
            kernels[width] = ntk(mlp, torch.from_numpy(x)).numpy()
        for m, kernel in kernels.items():
            of_rows = [conditioning(kernel[np.ix_(rows, rows)]).kappa for rows in samples]
            kappas = np.array(of_rows, float)  # NaN where unresolved
            known = np.isfinite(kappas)
            yield row("separation_kappa", kappas[known], at=angles[known], width=m)
            close = known & (angles < (0.05 / (m * depth) if m else 1e-2))
            if close.sum() > 2:
                power = exponent(angles[close], kappas[close])
                yield row("separation_kappa_exponent", power, width=m)


def slowest_descent(setting: Setting) -> Measurements:
    """Measure the rate of the loss |f - y|²/2 over those of Section 6, and over the exact one."""
    n, d, width, steps = 8, 16, 256, 20
    keys = {"seed": setting.seeds, "depth": setting.depths}
    for row, seed, depth in grid(width=width, n=n, d=d, **keys):
        x = torch.from_numpy(on_sphere(seed, n, d))
        mlp = network(seed, d, depth=depth, width=width, activation="relu")
        values, vectors = np.linalg.eigh(ntk(mlp, x).numpy())
        y = forward(mlp, x) + 1e-4 * torch.from_numpy(vectors[:, 0].copy())
        for size in (0.5, 1.0):  # of a step, over 1 / λ_max
            step = size / values[-1]
            losses = descent_losses(mlp, x, y, step=step, steps=steps)
            rate = math.log(losses[-1] / losses[0]) / steps
            yield row("descent_rate", rate, math.log1p(-step * values[0] / 2), at=size)
            yield row("slowest_rate", rate, None, 2 * math.log1p(-step * values[0]), at=size)
            if size == 1.0:
                printed = math.log1p(-values[0] / values[-1])
                yield row("descent_rate_kappa", rate, printed, at=size)


def gaussian_gram(setting: Setting) -> Measurements:
    """Measure how A^T A / m of Lemma C.1 approaches the identity, and Eq. (47)'s probability."""
    heights, columns, deviations = (128, 512, 2048), 32, []
    identity = np.eye(columns)
    for row, m in grid(width=heights, d=columns):
        rngs = (generator(number, "init") for number in _numbers(setting, 100))
        samples = (rng.standard_normal((m, columns)) for rng in rngs)
        entries = np.array([a.T @ a / m - identity for a in samples])
        deviations.append(rms(entries))
        diagonal, others = (rms(entries[:, identity == one]) ** 2 for one in (1, 0))
        yield row("gaussian_gram_diagonal_variance", diagonal, 2 / m)
        yield row("gaussian_gram_off_diagonal_variance", others, 1 / m)
    yield measurement("gaussian_gram_exponent", exponent(heights, deviations), d=columns)
    m, trials, variance = 256, 4000, 2 / 256
    ratios = generator(setting.seeds[0], "init").chisquare(m, size=trials) / m
    for row, eps in grid(width=m, n=trials, at=np.array([1.0, 1.5, 2.0]) * math.sqrt(variance)):
        share = np.mean(np.abs(ratios - 1) >= eps)
        yield row("chebyshev", share, variance / eps, variance / eps**2)


def lemmas(setting: Setting) -> Measurements:
    """Measure the limits of Lemmas D.1 to D.3, and how fast D.3's off-diagonal entries fall."""
    units = (256, 1024, 4096)
    for row, degrees in grid(at=(10.0, 60.0, 120.0)):
        theta, off_diagonal = math.radians(degrees), []
        v = np.array([[2.0, 0.0], [math.cos(theta), math.sin(theta)]])
        both = (math.pi - theta) / math.pi
        product = 2 * (both * math.cos(theta) + math.sin(theta) / math.pi)
        for q in units:
            draws = []
            for number in _numbers(setting, 8):
                rng = generator(number, "init")
                w, u = rng.standard_normal((q, 2)), rng.standard_normal((4, q))
                z = w @ v.T
                active = (z >= 0).all(axis=1)
                a = 2 / q * (u * active) @ u.T
                off = rms(a[~np.eye(4, dtype=bool)])
                d2 = 2 / q * np.maximum(z, 0).prod(axis=1).sum()
                draws.append((active.mean(), d2, np.trace(a) / 4, off))
            means, limits = np.mean(draws, axis=0)[:3], [both / 2, product, both]
            yield row(["lemma_d1", "lemma_d2", "lemma_d3"], means, limits, width=q)
            off_diagonal.append(rms([draw[3] for draw in draws]))
        yield row("lemma_d3_off_diagonal_exponent", exponent(units, off_diagonal))


def linear(setting: Setting) -> Measurements:
    """Condition linear networks of finite width on orthonormal samples, n and d varied apart."""
    logs: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    keys = {"at": (1, 16), "n": (8, 32), "width": setting.widths, "seed": setting.seeds}
    for row, ratio, n, width, seed in grid(**keys):
        d = ratio * n
        x, _ = np.linalg.qr(generator(seed, "data").standard_normal((d, n)))
        deepest = network(seed, d, depth=max(setting.depths), width=width, activation="linear")
        for depth in setting.depths:
            mlp = MLP((*deepest.weights[:depth], deepest.weights[-1]), deepest.activation)
            kappa = np.linalg.cond(linear_factor(mlp, torch.from_numpy(x.T.copy())).numpy()) ** 2
            yield row("linear_kappa_over_gram", kappa, depth=depth, d=d)
            if width >= 8 * n * depth:
                logs[seed, depth].append((n / width, math.log(kappa)))
    for (seed, depth), values in logs.items():
        if len(values) > 2:
            power = exponent(*zip(*values, strict=True))
            yield measurement("linear_log_kappa_exponent", power, depth=depth, seed=seed)
