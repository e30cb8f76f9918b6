"""Networks of growing width against the limits of Theorems 3.1, 4.1 and 4.4.

At each width the deviation from the limit is taken over pairs of samples and seeds; how it falls
with the width, and what it is at the largest, tells whether the limit is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.fits import exponent, rms
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, gradient_factors, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2023relu as theory

Array = NDArray[np.float64]

D = 8
ANGLES = np.radians([10.0, 30.0, 60.0, 90.0, 120.0, 160.0])
COPIES = 2
"""Networks for each seed of the setting, of which a deviation is the root mean square."""
DEVIATIONS = ("embedding_norm", "embedding_angle", "gradient_angle", "entries")


def networks(setting: Setting) -> Iterator[Measurement]:
    """Measure norms, angles and kernels of linear and ReLU networks at every width."""
    networks = {width: list(_networks(setting, width)) for width in setting.widths}
    for activation in ("linear", "relu"):
        for depth in setting.depths:
            rows = {
                width: [each for key, each in pairs if key == (activation, depth)]
                for width, pairs in networks.items()
            }
            yield from _deviations(activation, depth, rows)
            if activation == "relu":
                yield from _delta_products(depth, rows)


def _networks(setting: Setting, width: int) -> Iterator[tuple[tuple[str, int], dict[str, float]]]:
    """Yield activation and depth of every network of a width, with its quantities.

    Networks of one seed share their weights, of which the deepest have millions.
    """
    for seed in setting.seeds:
        for copy in range(COPIES):
            number = seed + 1000 * copy
            x = _pairs(number)
            weights = init_mlp(
                D,
                depth=max(setting.depths),
                width=width,
                activation="linear",
                generator=generator(number, "init"),
            ).weights
            for activation in ("linear", "relu"):
                for depth in setting.depths:
                    mlp = MLP((*weights[:depth], weights[-1]), activations.get(activation))
                    yield (activation, depth), _measured(mlp, x)


def _deviations(
    activation: str, depth: int, rows: Mapping[int, list[dict[str, float]]]
) -> Iterator[Measurement]:
    """Yield each quantity's root mean square at every width, and how deviations fall with it."""
    common: dict[str, Any] = {"activation": activation, "depth": depth, "d": D}
    for name, (printed, corrected) in _expected(depth).items():
        for width, deviations in rows.items():
            value = rms([each[name] for each in deviations])
            yield Measurement(
                f"{activation}_{name}", value, printed, corrected, width=width, **common
            )
    for name in DEVIATIONS:
        values = [rms([each[name] for each in deviations]) for deviations in rows.values()]
        for width, value in zip(rows, values, strict=True):
            yield Measurement(f"{activation}_{name}", value, width=width, **common)
        falls = exponent(list(rows), values)
        yield Measurement(f"{activation}_{name}_exponent", falls, **common)


def _expected(depth: int) -> Mapping[str, tuple[float, float]]:
    """Return what is printed of a quantity, and what its proof gives.

    The norm: Theorems 3.1 and 4.4, and Eqs. (21) and (39). The kernel: Corollary 3.2; of a ReLU
    network its diagonal.
    """
    return {
        "gradient_norm": (depth + 1.0, float(theory.gradient_norm(1.0, depth))),
        "kernel": ((depth + 1.0) ** 2, depth + 1.0),
    }


def _measured(mlp: MLP, x: Array) -> dict[str, float]:
    """Return the quantities of one network, each a root mean square over pairs."""
    linear, depth = mlp.activation.name == "linear", mlp.depth
    factors = gradient_factors(mlp, torch.from_numpy(x))
    k = ntk(mlp, torch.from_numpy(x)).numpy()
    embedding = factors.alphas[-1].numpy()
    norms = np.linalg.norm(x, axis=1)
    theta = ANGLES if linear else theory.embedding_angle(ANGLES, depth)
    phi = ANGLES if linear else theory.gradient_angle(ANGLES, depth)
    gram = x @ x.T
    deviations = {
        "embedding_norm": rms(np.linalg.norm(embedding, axis=1) / norms - 1),
        "embedding_angle": rms(_angles(embedding @ embedding.T) - theta),
        "gradient_angle": rms(_angles(k) - phi),
        "gradient_norm": rms(np.sqrt(np.diag(k)) / norms),
        "kernel": float(np.linalg.norm(k) / np.linalg.norm(gram))
        if linear
        else rms(np.diag(k) / norms**2),
        "entries": rms(_entries(k) / (depth + 1) / (norms[::2] * norms[1::2]) - np.cos(phi)),
    }
    if not linear:
        first = factors.deltas[0].numpy()
        deviations["delta_product"] = float((first[0] * first[1]).sum())
    return deviations


def _delta_products(
    depth: int, rows: Mapping[int, list[dict[str, float]]]
) -> Iterator[Measurement]:
    """Compare <delta_1(x), delta_1(z)> of the first pair with Eqs. (36) and (37).

    Eq. (36) lets its product run to l' = L + 1, Eq. (37) to L - 1. The paper defines no angle
    theta^(L+1); it is taken as one more step of Eq. (9).
    """
    angles = [float(theory.embedding_angle(ANGLES[0], layer)) for layer in range(depth + 2)]
    factors = 1 - np.array(angles) / np.pi
    for width, deviations in rows.items():
        yield Measurement(
            "delta_product",
            float(np.mean([each["delta_product"] for each in deviations])),
            printed=float(np.prod(factors)),
            corrected=float(np.prod(factors[:depth])),
            activation="relu",
            depth=depth,
            width=width,
            d=D,
            at=math.degrees(ANGLES[0]),
        )


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


def _entries(k: Array) -> Array:
    """Return the entries of the pairs."""
    first = np.arange(0, len(k), 2)
    entries: Array = k[first, first + 1]
    return entries


def _angles(k: Array) -> Array:
    """Return the angles of the pairs; none of them is near 0 or pi."""
    diagonal = np.sqrt(np.diag(k))
    cosines = _entries(k) / (diagonal[::2] * diagonal[1::2])
    angles: Array = np.arccos(cosines)
    return angles
