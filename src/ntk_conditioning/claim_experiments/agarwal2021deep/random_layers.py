"""Correlations of two samples in random networks of finite width: Section 5 and Theorem 52.

Embeddings are scaled to norm 1 after every layer, by the paper's Π. A unit sees of two unit vectors
two normal variables of their correlation: those are drawn, for many networks, in place of matrices.
"""

import math
from functools import partial

import numpy as np

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.correlations import CorrelationMap
from ntk_conditioning.claim_experiments.numerics import exponent
from ntk_conditioning.duals.closed_forms import angle_of, dual
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator

START = 0.7
WIDTHS = (32, 128, 512)
#: Layers of a network, and after how many the correlations no longer remember the start.
LAYERS, SETTLED = 64, 32
UNITS = 2**14  # of a layer of all networks that are drawn at a time
#: Activations, and the norm of what a layer gives the next; erf(3z) is far from linear.
KINDS = {"odd": ("erf", 3.0), "uneven": ("normalized_relu", 1.0)}


def decay(setting: Setting) -> Measurements:
    """Measure E|ρ_h|, |E ρ_h| and |E arcsin ρ_h| in deep layers, and how they fall with the width.

    Theorem 52 bounds |E ρ_h| by e^(-Ω(h)), and the proof of Theorem 15 takes that for E|ρ_h|. What
    it needs is the mean agreement of signs, E sgn u sgn v = 2/π E arcsin ρ_h.
    """
    for kind, (name, scale) in KINDS.items():
        sizes, means, limit = [], [], _limit(name, scale)
        for width in WIDTHS:
            row = partial(Measurement, activation=name, width=width)
            rngs = [generator(seed, "init", number) for seed in setting.seeds for number in (1, 2)]
            paths = _paths(name, width, rngs, scale=scale)
            deep = paths[SETTLED:]
            signs = 2 / math.pi * np.arcsin(deep)
            each, agreeing = deep.mean(axis=0), signs.mean(axis=0)
            sizes.append(float(np.abs(deep).mean()))
            means.append(abs(float(each.mean())))
            for what, values in (("mean", each), ("signs", agreeing)):
                error = values.std() / math.sqrt(len(values))
                yield row(f"{kind}_{what}_over_error", abs(values.mean()) / error, depth=LAYERS)
            yield row(f"{kind}_mean", means[-1], depth=LAYERS)
        early = np.abs(paths.mean(axis=1))
        yield row(f"{kind}_decay", _factor(early), None, _factor(limit))
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
    one, w = slice(0, 1), np.full((1, 1), 1 - START)
    path = [w]
    for _ in range(LAYERS):
        w, _ = layer.cosine_distances(one, one, w, angle_of(w))
        path.append(w)
    return 1 - np.array(path).ravel()


def scaling(setting: Setting) -> Measurements:
    """Measure Eq. (3) as printed, with 1/√m between Π and the next W, beside the proof's.

    The proof takes ‖x^(h)‖² as (1/m) Σ σ²(w · x̂), with x̂ of norm 1. With another 1/√m a unit sees
    variables of 1/m of that variance, where σ is a line: correlations of an odd σ then stay.
    """
    width = WIDTHS[-1]
    for name, norm in KINDS.values():
        row = partial(Measurement, activation=name, depth=LAYERS, width=width)
        for statement, scale in (("printed", norm / math.sqrt(width)), ("proof", norm)):
            rngs = [generator(seed, "init") for seed in setting.seeds]
            last = _paths(name, width, rngs, scale=scale)[-1]
            yield row(f"equation_3_{statement}", np.abs(last).mean())


def concentration(setting: Setting) -> Measurements:
    """Measure in how many layers ρ moves as its limit does, up to the δμ/4 of Theorem 52's proof.

    With its width of L/(μ²δ²), and of Lμ²/δ², as Theorem 15 prints it.
    """
    name, delta, layers = "tanh", 0.1, 8
    layer = CorrelationMap(name)
    for statement, power in (("theorem_15_width", 2), ("theorem_52_width", -2)):
        width = math.ceil(layers * layer.mu**power / delta**2)
        within = []
        for seed in setting.seeds[:2]:
            paths = _paths(name, width, [generator(seed, "init")], layers, start=1 - delta)
            moved = np.abs(paths[1:] - layer(np.clip(paths[:-1], -1, 1)))
            within.append(np.mean(moved <= delta * layer.mu / 4))
        row = partial(Measurement, activation=name, depth=layers, width=width)
        yield row(statement, np.mean(within), at=delta)


def _paths(
    name: str,
    width: int,
    rngs: list[np.random.Generator],
    layers: int = LAYERS,
    *,
    scale: float = 1.0,
    start: float = START,
) -> Array:
    """Return the correlations (layers + 1, networks) of two samples, at random initialisation."""
    sigma, networks = activations.get(name), max(4, UNITS // width)
    path = [np.full((len(rngs), networks), start)]
    for _ in range(layers):
        rho = path[-1]
        u, v = np.stack([rng.standard_normal((2, networks, width)) for rng in rngs], axis=1)
        v = rho[..., None] * u + np.sqrt(np.maximum(1 - rho**2, 0))[..., None] * v
        one, two = sigma.values(scale * u), sigma.values(scale * v)
        product, square, square2 = (
            np.einsum("rnm,rnm->rn", *pair) for pair in ((one, two), (one, one), (two, two))
        )
        # rounding may leave the range
        path.append(np.clip(product / np.sqrt(square * square2), -1, 1))
    return np.array(path).reshape(layers + 1, -1)
