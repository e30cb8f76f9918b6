"""Networks of growing width against the limits of Theorems 3.1, 4.1 and 4.4.

At each width the deviation from the limit is taken over pairs of samples and seeds; how it falls
with the width, and what it is at the largest, tells whether the limit is right.
"""

import itertools
import math
from collections import defaultdict
from functools import partial

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import exponent, rms
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, forward, gradient_factors, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2023relu as theory

D = 8
ANGLES = np.radians([10.0, 30.0, 60.0, 90.0, 120.0, 160.0])
PAIR = 0  # the pair whose deltas are compared
COPIES = 2  # networks for each seed of the setting, of which a deviation is the root mean square
DEVIATIONS = ("embedding_norm", "embedding_angle", "gradient_angle", "entries")
NOISY, NOISY_WIDTHS, DRAWS = 2.5, (32, 64, 128), 8000  # radians; networks for each seed


def networks(setting: Setting) -> Measurements:
    """Measure norms, angles and kernels of linear and ReLU networks at every width.

    Printed and corrected limits: of the gradient's norm by Theorems 3.1 and 4.4 and by Eqs. (21)
    and (39) of their proofs; of the kernel by Corollary 3.2, of a ReLU network its diagonal; and of
    the cosine of delta_1(x) and delta_1(z) of a pair by Eq. (36), whose product runs to l' = L + 1,
    and Eq. (37), to L - 1. The paper defines no theta^(L+1); here it is one more step of Eq. (9).
    """
    kinds = list(itertools.product(("linear", "relu"), setting.depths))
    values: dict[tuple[str, int, str, int], list[float]] = defaultdict(list)
    for width, seed, copy in itertools.product(setting.widths, setting.seeds, range(COPIES)):
        number = seed + 1000 * copy
        x, init = _pairs(number), generator(number, "init")
        # networks share their weights, of which the deepest have millions
        deepest = init_mlp(
            D, depth=max(setting.depths), width=width, activation="linear", generator=init
        ).weights
        for activation, depth in kinds:
            mlp = MLP((*deepest[:depth], deepest[-1]), activations.get(activation))
            for name, value in _measured(mlp, x).items():
                values[activation, depth, name, width].append(value)

    for activation, depth in kinds:
        row = partial(Measurement, activation=activation, depth=depth, d=D)
        for name, printed, right in (
            ("gradient_norm", depth + 1, math.sqrt(depth + 1)),
            ("kernel", (depth + 1) ** 2, depth + 1),
        ):
            for width in setting.widths:
                value = rms(values[activation, depth, name, width])
                yield row(f"{activation}_{name}", value, printed, right, width=width)
        for name in DEVIATIONS:
            deviations = [rms(values[activation, depth, name, width]) for width in setting.widths]
            for width, value in zip(setting.widths, deviations, strict=True):
                yield row(f"{activation}_{name}", value, width=width)
            yield row(f"{activation}_{name}_exponent", exponent(setting.widths, deviations))
        if activation == "relu":
            angle = ANGLES[PAIR]
            angles = [float(theory.embedding_angle(angle, layer)) for layer in range(depth + 2)]
            factors = 1 - np.array(angles) / np.pi
            row = partial(row, printed=np.prod(factors), corrected=np.prod(factors[:depth]))
            for width in setting.widths:
                mean = np.mean(values[activation, depth, "delta_cosine", width])
                yield row("delta_cosine", mean, width=width, at=math.degrees(angle))


def gradients(setting: Setting) -> Measurements:
    """Measure Eqs. (32) and (33) beside automatic differentiation, with two recursions of α̃.

    The signs of α̃ decide which units pass a gradient on. Section 2 defines α̃^(l) by α^(l-1); the
    proof of Theorem 4.4 recalls it as W^(l) α̃^(l-1), without the activation.
    """
    width, depth = 32, 3
    for seed in setting.seeds:
        init, x = generator(seed, "init"), _pairs(seed)[:1]
        mlp = init_mlp(D, depth=depth, width=width, activation="relu", generator=init)
        weights = tuple(weight.clone().requires_grad_() for weight in mlp.weights)
        output = forward(MLP(weights, mlp.activation), torch.from_numpy(x))
        exact = [slope.numpy() for slope in torch.autograd.grad(output.sum(), weights)]
        row = partial(Measurement, activation="relu", depth=depth, width=width, d=D, seed=seed)
        for name, rectified in (("gradient_formula", True), ("gradient_formula_printed", False)):
            formula = _outer_products([weight.numpy() for weight in mlp.weights], x[0], rectified)
            ours, right = (np.concatenate([*map(np.ravel, each)]) for each in (formula, exact))
            yield row(name, np.linalg.norm(ours - right) / np.linalg.norm(right))


def _outer_products(weights: list[Array], x: Array, rectified: bool) -> list[Array]:
    """Return the gradients by all weights of Eqs. (32) and (33)."""
    scale = math.sqrt(2 / len(weights[0]))
    alphas, before, signs = [x], x, []
    for weight in weights[:-1]:
        before = scale * weight @ (alphas[-1] if rectified else before)
        signs.append(before >= 0)
        alphas.append(np.maximum(scale * weight @ alphas[-1], 0))
    deltas = [np.ones(1)]
    for weight, sign in zip(weights[:0:-1], signs[::-1], strict=True):
        deltas.append(scale * (deltas[-1] @ weight) * sign)
    return [np.outer(delta, alpha) for delta, alpha in zip(deltas[::-1], alphas, strict=True)]


def noise(setting: Setting) -> Measurements:
    """Measure m times the mean, over networks, of <α^(l)(x), α^(l)(z)> less its limit.

    In the first layer the mean is the limit. The second layer's is taken exactly, given the first
    (Lemma D.2), so that few networks suffice.
    """
    first, second = (float(np.cos(theory.embedding_angle(NOISY, layer))) for layer in (1, 2))
    for seed in setting.seeds:
        rng, means = generator(seed, "init"), []
        for m in NOISY_WIDTHS:
            w = rng.standard_normal((2, DRAWS, m))
            a = np.maximum(w[0], 0)
            b = np.maximum(math.cos(NOISY) * w[0] + math.sin(NOISY) * w[1], 0)
            mixed, aa, bb = (2 / m * (u * v).sum(axis=1) for u, v in ((a, b), (a, a), (b, b)))
            norms = np.sqrt(aa * bb)
            theta = np.arccos(np.clip(mixed / norms, -1, 1))
            onward = norms * np.cos(theory.embedding_angle(theta, 1))
            row = partial(Measurement, width=m, n=DRAWS, d=2, seed=seed, at=NOISY)
            means.append(m * (onward.mean() - second))
            yield row("noise_mean", m * (mixed.mean() - first), depth=1)
            yield row("noise_mean", means[-1], depth=2)
        power = exponent(NOISY_WIDTHS, np.abs(means) / NOISY_WIDTHS)
        yield Measurement("noise_mean_exponent", power, depth=2, seed=seed, at=NOISY)


def _measured(mlp: MLP, x: Array) -> dict[str, float]:
    """Return the quantities of one network, each a root mean square over pairs."""
    linear, depth = mlp.activation.name == "linear", mlp.depth
    factors = gradient_factors(mlp, torch.from_numpy(x))
    k = ntk(mlp, torch.from_numpy(x)).numpy()
    embedding = factors.alphas[-1].numpy()
    norms, entries = np.linalg.norm(x, axis=1), np.diag(k, 1)[::2]
    theta = ANGLES if linear else theory.embedding_angle(ANGLES, depth)
    phi = ANGLES if linear else theory.gradient_angle(ANGLES, depth)
    quantities = {
        "embedding_norm": rms(np.linalg.norm(embedding, axis=1) / norms - 1),
        "embedding_angle": rms(_angles(embedding @ embedding.T) - theta),
        "gradient_angle": rms(_angles(k) - phi),
        "gradient_norm": rms(np.sqrt(np.diag(k)) / norms),
        "entries": rms(entries / (depth + 1) / (norms[::2] * norms[1::2]) - np.cos(phi)),
    }
    if linear:
        return quantities | {"kernel": float(np.linalg.norm(k) / np.linalg.norm(x @ x.T))}
    first = factors.deltas[0].numpy()
    one, other = first[2 * PAIR], first[2 * PAIR + 1]
    cosine = float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    return quantities | {"kernel": rms(np.diag(k) / norms**2), "delta_cosine": cosine}


def _pairs(seed: int) -> Array:
    """Return samples (2k, D) of various norms; samples 2i and 2i + 1 are at the i-th angle."""
    rng = generator(seed, "data")
    rows = []
    for angle in ANGLES:
        frame, _ = np.linalg.qr(rng.standard_normal((D, 2)))
        norms = rng.uniform(0.5, 2.0, size=2)
        rows += [norms[0] * frame[:, 0]]
        rows += [norms[1] * (np.cos(angle) * frame[:, 0] + np.sin(angle) * frame[:, 1])]
    return np.array(rows)


def _angles(k: Array) -> Array:
    """Return the angles of the pairs; none of them is near 0 or pi."""
    diagonal = np.sqrt(np.diag(k))
    return np.asarray(np.arccos(np.diag(k, 1)[::2] / (diagonal[::2] * diagonal[1::2])))
