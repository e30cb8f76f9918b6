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
from ntk_conditioning.networks.mlp import MLP, gradient_factors, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2023relu as theory

D = 8
ANGLES = np.radians([10.0, 30.0, 60.0, 90.0, 120.0, 160.0])
COPIES = 2  # networks for each seed of the setting, of which a deviation is the root mean square
DEVIATIONS = ("embedding_norm", "embedding_angle", "gradient_angle", "entries")


def networks(setting: Setting) -> Measurements:
    """Measure norms, angles and kernels of linear and ReLU networks at every width.

    Printed and corrected limits: of the gradient's norm by Theorems 3.1 and 4.4 and by Eqs. (21)
    and (39) of their proofs; of the kernel by Corollary 3.2, of a ReLU network its diagonal; and of
    <delta_1(x), delta_1(z)> of the first pair by Eq. (36), whose product runs to l' = L + 1, and
    Eq. (37), to L - 1. The paper defines no theta^(L+1); it is taken as one more step of Eq. (9).
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
            angles = [float(theory.embedding_angle(ANGLES[0], layer)) for layer in range(depth + 2)]
            factors = 1 - np.array(angles) / np.pi
            row = partial(row, printed=np.prod(factors), corrected=np.prod(factors[:depth]))
            for width in setting.widths:
                mean = np.mean(values[activation, depth, "delta_product", width])
                yield row("delta_product", mean, width=width, at=math.degrees(ANGLES[0]))


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
    product = float((first[0] * first[1]).sum())
    return quantities | {"kernel": rms(np.diag(k) / norms**2), "delta_product": product}


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
