"""Sub-models that share no weights: Theorem 1 and Corollary 1.

Sub-models are neurons g = v σ(w·x/sqrt(d)), with v fixed or free, in the assembly of Eq. (4) with
s(m) = sqrt(m). The quadratic term is what is left of the assembly without its expansion to first
order, so that no Hessian is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.fits import exponent
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.liu2022transition import (
    assembly_bound,
    slope_bounds,
    two_layer_smoothness,
)

Array = NDArray[np.float64]

SMOOTH = ("tanh", "sigmoid", "softplus", "erf", "gelu")
DRAWS = 40
"""Per seed, activation and kind of weights."""
WIDTHS = tuple(2**k for k in range(6, 17, 2))
SMALL = 0.02
"""A radius at which sub-models are parabolas up to a percent or so."""
GRID = np.linspace(-4, 4, 8001)


def theorem_1(setting: Setting) -> Iterator[Measurement]:
    """Measure the largest |quadratic term| over its bound, Eq. (5), in random assemblies.

    Number and size of sub-models, sample, start, radius and change are drawn; half of the changes
    move a single sub-model. Weights v are 1, of ±1, or free from there, when β is that in the
    ball. Also the least median over maximum of the |g_i|, of which Assumption 1 wants a bound.
    """
    for seed in setting.seeds:
        rng = generator(seed, "init")
        for name in SMOOTH:
            sigma = activations.get(name)
            over_bounds = {
                kind: [_over_bound(sigma, kind, rng) for _ in range(DRAWS)]
                for kind in ("ones", "signs", "free")
            }
            for kind, pairs in over_bounds.items():
                ratios, evenness = np.array(pairs).T
                common: dict[str, Any] = {"activation": name, "n": DRAWS, "seed": seed}
                yield Measurement(f"theorem_1_{kind}", float(ratios.max()), **common)
                if kind == "signs":
                    yield Measurement("assumption_1", float(evenness.min()), **common)


def _over_bound(sigma: Activation, kind: str, rng: np.random.Generator) -> tuple[float, float]:
    """Return |quadratic term| over its bound, and median over maximum of the |g_i|."""
    m, d = int(2 ** rng.uniform(0, 11)), int(rng.integers(1, 9))
    radius = 10 ** rng.uniform(-1, 1)
    x = rng.standard_normal(d) * 10 ** rng.uniform(-1, 0.5) / math.sqrt(d)
    w = rng.standard_normal((m, d)) * rng.uniform(0, 3)
    v = rng.choice([-1.0, 1.0], m) if kind != "ones" else np.ones(m)
    free = kind == "free"
    change = rng.standard_normal((m, d + free))
    if rng.random() < 0.5:
        change[1:] = 0
    change *= radius / np.linalg.norm(change)
    rise = change[:, d] if free else np.zeros(m)
    c = float(np.linalg.norm(x))
    term = quadratic_term(sigma, w @ x, v, change[:, :d] @ x, rise)
    largest = 1 + radius
    beta = two_layer_smoothness(sigma, c, largest) if free else slope_bounds(sigma).second * c**2
    sizes = np.abs(sigma.values(w @ x))
    return (
        abs(term) / assembly_bound(beta, radius, math.sqrt(m)),
        float(np.median(sizes) / sizes.max()),
    )


def quadratic_term(sigma: Activation, z: Array, v: Array, dz: Array, dv: Array) -> float:
    """Return that of sum v σ(z) / sqrt(m) at changes ``dz`` and ``dv``, all of shape (m,)."""
    here = sigma.values(z)
    linear = v * sigma.slopes(z) * dz + here * dv
    rest = (v + dv) * sigma.values(z + dz) - v * here - linear
    return float(rest.sum()) / math.sqrt(len(z))


def tightness(setting: Setting) -> Iterator[Measurement]:
    """Measure the largest quadratic term over its bound, of all in a small ball.

    One sub-model moves, where it bends most and in that direction; it is looked for on a grid.
    """
    for name in SMOOTH:
        sigma = activations.get(name)
        first, second = sigma.slopes(GRID), np.gradient(sigma.slopes(GRID), GRID)
        best = GRID[np.argmax(np.abs(second))]
        fixed = quadratic_term(sigma, *_alone(best, 1.0), *_alone(SMALL, 0.0))
        bound = assembly_bound(slope_bounds(sigma).second, SMALL, 1.0)
        yield Measurement("theorem_1_tightness", abs(fixed) / bound, activation=name, at=SMALL)

        norms = _block_norm(second, first)
        k = int(np.argmax(norms))
        _, vectors = np.linalg.eigh([[second[k], first[k]], [first[k], 0]])
        terms = []
        for move in SMALL * vectors.T:
            for sign in (-1, 1):
                dz, dv = sign * move
                changes = _alone(dz, dv)
                terms.append(abs(quadratic_term(sigma, *_alone(GRID[k], 1.0), *changes)))
        bound = assembly_bound(two_layer_smoothness(sigma, 1.0, 1.0 + SMALL), SMALL, 1.0)
        yield Measurement("theorem_1_tightness_free", max(terms) / bound, activation=name, at=SMALL)


def _alone(z: float, v: float) -> tuple[Array, Array]:
    return np.array([z]), np.array([v])


def _block_norm(bend: Array, slope: Array) -> Array:
    """Return the norms of [[bend, slope], [slope, 0]]."""
    size = np.abs(bend)
    return (size + np.hypot(size, 2 * slope)) / 2


def corollary_1(setting: Setting) -> Iterator[Measurement]:
    """Measure with which power of m the Hessian's norm falls in two-layer networks, Eq. (7).

    All weights are free, at a start with outer weights of ±1 and at a standard normal one. The
    Hessian has blocks of two dimensions besides zeros, by which its norm is exact for every m.
    """
    for name in ("tanh", "softplus"):
        sigma = activations.get(name)
        for kind in ("signs", "normal"):
            slopes = []
            for seed in setting.seeds:
                rng = generator(seed, "init")
                norms = [_hessian_norm(sigma, kind, m, rng) for m in WIDTHS]
                slopes.append(exponent(WIDTHS, norms))
            value = float(np.mean(slopes))
            yield Measurement(f"corollary_1_{kind}", value, printed=-0.5, activation=name)


def _hessian_norm(sigma: Activation, kind: str, m: int, rng: np.random.Generator) -> float:
    z, step = rng.standard_normal(m), 1e-4
    u = rng.standard_normal(m) if kind == "normal" else rng.choice([-1.0, 1.0], m)
    bend = (sigma.slopes(z + step) - sigma.slopes(z - step)) / (2 * step)
    return float(_block_norm(u * bend, sigma.slopes(z)).max()) / math.sqrt(m)
