"""Correlations of two samples in random networks of finite width: Section 5 and Theorem 52.

Embeddings are scaled to norm 1 after every layer, by the paper's Π. The rows of W are independent,
so a unit sees of two unit vectors only two normal variables of their correlation: those are drawn,
many networks at a time, in place of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap
from ntk_conditioning.claim_experiments.fits import exponent
from ntk_conditioning.duals.closed_forms import angle_of, dual
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator

Array = NDArray[np.float64]

START = 0.7
WIDTHS = (32, 128, 512)
LAYERS, SETTLED = 64, 32
"""Layers of a network, and after how many the correlations no longer remember the start."""
UNITS = 2**14
"""Of a layer of all networks that are drawn at a time."""
KINDS = {"odd": ("erf", 3.0), "uneven": ("normalized_relu", 1.0)}
"""Activations, and the norm of what a layer gives the next; erf(3z) is far from linear."""


def decay(setting: Setting) -> Iterator[Measurement]:
    """Measure E|ρ_h| and |E ρ_h| in deep layers, and how they fall with the width.

    Theorem 52 bounds |E ρ_h| by e^(-Ω(h)), and the proof of Theorem 15 takes that for E|ρ_h|. The
    mean and its standard error are over networks and layers beyond SETTLED, whose correlations
    hang together for a few layers.
    """
    for kind, (name, scale) in KINDS.items():
        sizes, means, limit = [], [], _limit(name, scale)
        for width in WIDTHS:
            paths = np.concatenate(
                [
                    _paths(name, width, generator(seed, "init", number), LAYERS, scale=scale)
                    for seed in setting.seeds
                    for number in range(1, 3)
                ],
                axis=1,
            )
            deep = paths[SETTLED:]
            each = deep.mean(axis=0)
            size, mean = float(np.abs(deep).mean()), float(each.mean())
            error = float(each.std() / math.sqrt(len(each)))
            common: dict[str, Any] = {"activation": name, "width": width, "depth": LAYERS}
            yield Measurement(f"{kind}_mean_size", size, float(limit[SETTLED]), **common)
            yield Measurement(f"{kind}_mean_over_error", abs(mean) / error, **common)
            yield Measurement(f"{kind}_mean", abs(mean), **common)
            sizes.append(size)
            means.append(abs(mean))
        early = np.abs(paths.mean(axis=1))
        yield Measurement(
            f"{kind}_decay",
            _factor(early),
            corrected=_factor(limit),
            activation=name,
            width=WIDTHS[-1],
        )
        yield Measurement(f"{kind}_size_exponent", exponent(WIDTHS, sizes), activation=name)
        if kind == "uneven":
            yield Measurement(f"{kind}_mean_exponent", exponent(WIDTHS, means), activation=name)


def _factor(means: Array) -> float:
    """Return by what factor a layer shrinks the mean correlation, from 0.5 on to 0.1."""
    first, last = int(np.argmax(means < 0.5)), int(np.argmax(means < 0.1))
    return float((means[last] / means[first]) ** (1 / (last - first)))


def _limit(name: str, scale: float) -> Array:
    """Return the correlations after 0, 1, … layers of infinite width."""
    layer = dual(activations.get(name), np.array([scale**2]))
    path = [np.full((1, 1), 1 - START)]
    for _ in range(LAYERS):
        path.append(
            layer.cosine_distances(slice(0, 1), slice(0, 1), path[-1], angle_of(path[-1]))[0]
        )
    return 1 - np.array(path).ravel()


def scaling(setting: Setting) -> Iterator[Measurement]:
    """Measure Eq. (3) as printed, with 1/√m between Π and the next W, beside the proof's.

    The proof takes ‖x^(h)‖² as (1/m) Σ σ²(w · x̂), with x̂ of norm 1. With another 1/√m a unit sees
    variables of 1/m of that variance, where σ is a line: correlations of an odd σ then stay.
    """
    for name, norm in KINDS.values():
        for statement, scale in (("printed", norm / math.sqrt(WIDTHS[-1])), ("proof", norm)):
            paths = np.concatenate(
                [
                    _paths(name, WIDTHS[-1], generator(seed, "init"), LAYERS, scale=scale)
                    for seed in setting.seeds
                ],
                axis=1,
            )
            value = float(np.abs(paths[-1]).mean())
            yield Measurement(
                f"equation_3_{statement}", value, activation=name, depth=LAYERS, width=WIDTHS[-1]
            )


def concentration(setting: Setting) -> Iterator[Measurement]:
    """Measure in how many layers ρ moves as its limit does, up to the δμ/4 of Theorem 52's proof.

    With a width of L/(μ²δ²), as in that theorem, and of Lμ²/δ², as Theorem 15 prints it.
    """
    name, delta, layers = "tanh", 0.1, 8
    layer = CorrelationMap(name)
    for statement, power in (("theorem_15_width", 2), ("theorem_52_width", -2)):
        width = math.ceil(layers * layer.mu**power / delta**2)
        within = []
        for seed in setting.seeds[:2]:
            rng = generator(seed, "init")
            paths = _paths(name, width, rng, layers, start=1 - delta)
            moved = np.abs(paths[1:] - layer(np.clip(paths[:-1], -1, 1)))
            within.append(np.mean(moved <= delta * layer.mu / 4))
        value = float(np.mean(within))
        yield Measurement(statement, value, activation=name, depth=layers, width=width, at=delta)


def _paths(
    name: str,
    width: int,
    rng: np.random.Generator,
    layers: int,
    *,
    scale: float = 1.0,
    start: float = START,
) -> Array:
    """Return the correlations (layers + 1, networks) of two samples, at random initialisation."""
    sigma = activations.get(name)
    networks = max(4, UNITS // width)
    rho = np.full(networks, start)
    path = [rho]
    for _ in range(layers):
        u, v = rng.standard_normal((2, networks, width))
        across = np.sqrt(np.maximum(1 - rho**2, 0))
        v = rho[:, None] * u + across[:, None] * v
        one, two = sigma.values(scale * u), sigma.values(scale * v)
        products = np.einsum("nm,nm->n", one, two)
        squares = np.einsum("nm,nm->n", one, one) * np.einsum("nm,nm->n", two, two)
        rho = np.clip(products / np.sqrt(squares), -1, 1)  # rounding may leave the range
        path.append(rho)
    return np.array(path)
