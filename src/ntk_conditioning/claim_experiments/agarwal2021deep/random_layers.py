"""Correlations of two samples in random networks of finite width: Section 5 and Theorem 52.

Embeddings are scaled to norm 1 after every layer, by the paper's Π. A unit sees of two unit vectors
two normal variables of their correlation: those are drawn, for many networks, in place of matrices.
"""

import itertools
import math
from functools import cache, partial

import numpy as np

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import exponent
from ntk_conditioning.duals.closed_forms import dual, pair_cosine_distances
from ntk_conditioning.duals.hermite import Expansion, expand
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator

START = 0.7
WIDTHS = (32, 128)
#: Layers of a network, and after how many the correlations no longer remember the start.
LAYERS, SETTLED = 64, 32
UNITS = 2**14  # of a layer of all networks that are drawn at a time
#: Activations, and the norm of what a layer gives the next; erf(3z) is far from linear.
KINDS = {"odd": ("erf", 3.0), "uneven": ("normalized_relu", 1.0)}

#: Separations δ, scales s of erf(s z), whose μ grows with s, and depths L for Theorem 52's width.
SEPARATIONS, SCALES, DEPTHS = (0.05, 0.15, 0.4), (1.0, 2.0, 4.0), (2, 3, 4, 6)
#: Separations from which correlations follow their limit in networks of one width.
CLOSE = (0.1, 1e-3, 1e-6)


def decay(setting: Setting) -> Measurements:
    """Measure m E ρ_h, m E (2/π) arcsin ρ_h and √m E|ρ_h| in deep layers, beside their limits.

    Theorem 52 bounds |E ρ_h| by e^(-Ω(h)), and the proof of Theorem 15 takes that for E|ρ_h|. What
    it needs is the mean agreement of signs, E sgn u sgn v = 2/π E arcsin ρ_h. A layer of width m
    gives ρ' = (1 - μ) ρ + a_2² ρ² + …, and noise of variance 1/m. So m E ρ_h² tends to
    1/(μ(2 - μ)), and m E ρ_h to a_2²/μ of that; ρ_h is nearly normal.
    """
    for kind, (name, scale) in KINDS.items():
        series, limit = _series(name, scale), _limit(name, scale)
        mu = series.non_linearity
        square = 1 / (mu * (2 - mu))
        mean = series.coefficients[2] ** 2 / series.square / mu * square
        for width, seed in itertools.product(WIDTHS, setting.seeds):
            row = partial(Measurement, activation=name, width=width, seed=seed)
            rngs = [generator(seed, "init", number) for number in (1, 2)]
            paths = _paths(name, width, rngs, scale=scale)
            deep = paths[SETTLED:]
            signs = 2 / math.pi * np.arcsin(deep)
            yield row(f"{kind}_mean", width * deep.mean(), 0.0, mean)
            yield row(f"{kind}_signs", width * signs.mean(), 0.0, 2 / math.pi * mean)
            size = math.sqrt(2 / math.pi * square)
            yield row(f"{kind}_size", math.sqrt(width) * np.abs(deep).mean(), 0.0, size)
            if width == max(WIDTHS):
                early = np.abs(paths.mean(axis=1))
                yield row(f"{kind}_decay", _factor(early), None, _factor(limit))


@cache
def _series(name: str, scale: float) -> Expansion:
    """Return the Hermite expansion of σ(scale z)."""
    sigma = activations.get(name)
    return expand(lambda z: sigma.values(scale * z), kinks=sigma.kinks, count=3)


def _factor(means: Array) -> float:
    """Return by what factor a layer shrinks the mean correlation, from 0.5 on to 0.1."""
    first, last = int(np.argmax(means < 0.5)), int(np.argmax(means < 0.1))
    return float((means[last] / means[first]) ** (1 / (last - first)))


def _limit(name: str, scale: float, start: float = START) -> Array:
    """Return the correlations after 0, 1, … layers of infinite width."""
    layer = dual(activations.get(name), np.array([scale**2]))
    path = [np.array(1 - start)]
    for _ in range(LAYERS):
        path.append(pair_cosine_distances(layer, path[-1])[0])
    return 1 - np.array(path)


def scaling(setting: Setting) -> Measurements:
    """Measure Eq. (3) as printed, with 1/√m between Π and the next W, beside the proof's.

    The proof takes ‖x^(h)‖² as (1/m) Σ σ²(w · x̂), with x̂ of norm 1. With another 1/√m a unit sees
    variables of 1/m of that variance, where σ is a line: correlations of an odd σ then stay.
    """
    width = WIDTHS[-1]
    for name, norm in KINDS.values():
        row = partial(Measurement, activation=name, depth=LAYERS, width=width)
        for statement, scale in (("printed", norm / math.sqrt(width)), ("proof", norm)):
            rng = generator(setting.seeds[0], "init")
            last = _paths(name, width, [rng], scale=scale)[-1]
            yield row(f"equation_3_{statement}", np.abs(last).mean())


def concentration(setting: Setting) -> Measurements:
    """Measure how the width that Theorem 52's proof needs depends on μ, δ and L.

    It wants |ρ_h - σ̂(ρ_(h-1))| <= δμ/4 in all of L layers, but for a probability of e^-L. As these
    distances fall as 1/√m, a quantile q of them at one width m gives the width, m (4q/δμ)².
    """
    for seed in setting.seeds:
        row = partial(Measurement, activation="erf", seed=seed)
        widths = [_needed(seed, 3.0, delta) for delta in SEPARATIONS]
        yield row("width_delta_exponent", exponent(SEPARATIONS, widths), None, -2.0)
        mus = [_series("erf", scale).non_linearity for scale in SCALES]
        widths = [_needed(seed, scale, SEPARATIONS[-1]) for scale in SCALES]
        yield row("width_mu_exponent", exponent(mus, widths), 2.0, -2.0)
        widths = [_needed(seed, 3.0, 1.0, depth) for depth in DEPTHS]
        yield row("width_depth_exponent", exponent(DEPTHS, widths), None, 1.0)


def _needed(seed: int, scale: float, delta: float, depth: int | None = None) -> float:
    """Return the width that keeps layers near their limits: all of ``depth``, or most of many."""
    layer = dual(activations.get("erf"), np.array([scale**2]))
    width = 32 if depth else 512  # many networks for rare events, else correlations near 0
    rngs = [generator(seed, "init", number) for number in range(1, 5 if depth else 2)]
    paths = _paths("erf", width, rngs, depth or SETTLED, scale=scale, start=1 - delta)
    moved = np.abs(paths[1:] - 1 + pair_cosine_distances(layer, 1 - paths[:-1])[0])
    at = np.quantile(moved.max(axis=0), 1 - math.exp(-depth)) if depth else np.quantile(moved, 0.9)
    return float(width * (4 * at / (delta * _series("erf", scale).non_linearity)) ** 2)


def narrow(setting: Setting) -> Measurements:
    """Measure how many layers take E ρ_h from 1 - δ to 1/4, over those of infinite width.

    In networks of one width, whatever δ is; Theorem 52 asks for L/(μ²δ²). ``at`` is δ.
    """
    for delta in CLOSE:
        limit = _limit("erf", 3.0, 1 - delta)
        needed = int(np.argmax(limit < 0.25))
        for seed in setting.seeds:
            rngs = [generator(seed, "init")]
            paths = _paths("erf", WIDTHS[-1], rngs, 2 * needed, scale=3.0, start=1 - delta)
            ratio = np.count_nonzero(paths.mean(axis=1) >= 0.25) / needed
            row = partial(Measurement, activation="erf", depth=needed, width=WIDTHS[-1], seed=seed)
            yield row("narrow_layers", ratio, at=delta)


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
