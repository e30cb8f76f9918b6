"""Sub-models that share no weights: Theorem 1, Corollary 1, and normal weights of Appendix A.

Sub-models are neurons g = v σ(w·x/sqrt(d)), with v fixed or free, in the assembly of Eq. (4) with
s(m) = sqrt(m). The quadratic term is what is left of the assembly without its expansion to first
order, so that no Hessian is needed.
"""

import itertools
import math
from functools import partial

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import (
    exponent,
    on_sphere,
    rms,
    second_slopes,
)
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2022transition as theory
from ntk_conditioning.transition.feedforward import draw_network
from ntk_conditioning.transition.taylor import Expansion, hessian_norm

SMOOTH = ("tanh", "sigmoid", "softplus", "erf", "gelu")
DRAWS = 20  # per seed, activation and kind of weights
SMALL = 0.02  # a radius at which sub-models are parabolas up to a percent or so
GRID = np.linspace(-4, 4, 8001)

#: Normal variables, of which the largest is taken, and trials.
COUNTS, TRIALS = (2, 4, 8, 13, 16, 32, 128, 512), 2000
D = 8  # dimension of a sample
MANY = [2**k for k in range(6, 17, 2)]  # sub-models where their Hessians are known one by one


def theorem_1(setting: Setting) -> Measurements:
    """Measure the largest |quadratic term| over its bound, Eq. (5), in random assemblies.

    Half of the changes move a single sub-model. Weights v are 1, of ±1, or free from there, when β
    is that in the ball. Also the least median over maximum of the |g_i|, of which Assumption 1
    wants a bound.
    """
    for seed in setting.seeds:
        rng = generator(seed, "init")
        for name, kind in itertools.product(SMOOTH, ("ones", "signs", "free")):
            row = partial(Measurement, activation=name, n=DRAWS, seed=seed)
            pairs = [_over_bound(activations.get(name), kind, rng) for _ in range(DRAWS)]
            ratios, evenness = np.array(pairs).T
            yield row(f"theorem_1_{kind}", ratios.max())
            if kind == "signs":
                yield row("assumption_1", evenness.min())


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
    term = quadratic_term(sigma, w @ x, v, change[:, :d] @ x, rise)
    c = float(np.linalg.norm(x))
    if free:
        beta = theory.two_layer_smoothness(sigma, c, 1 + radius)
    else:
        beta = theory.slope_bounds(sigma)[1] * c**2
    sizes = np.abs(sigma.values(w @ x))
    bound = theory.assembly_bound(beta, radius, math.sqrt(m))
    return abs(term) / bound, float(np.median(sizes) / (sizes.max() or 1.0))  # gelu underflows


def quadratic_term(sigma: Activation, z: Array, v: Array, dz: Array, dv: Array) -> float:
    """Return that of sum v σ(z) / sqrt(m) at changes ``dz`` and ``dv``, all of shape (m,)."""
    here = sigma.values(z)
    linear = v * sigma.slopes(z) * dz + here * dv
    rest = (v + dv) * sigma.values(z + dz) - v * here - linear
    return float(rest.sum()) / math.sqrt(len(z))


def tightness(setting: Setting) -> Measurements:
    """Measure the largest quadratic term in a small ball, of a neuron where it bends most."""
    for name in SMOOTH:
        sigma, row = activations.get(name), partial(Measurement, activation=name, at=SMALL)

        def term(*numbers: float, sigma: Activation = sigma) -> float:
            return abs(quadratic_term(sigma, *np.array(numbers)[:, None]))

        first, second = sigma.slopes(GRID), np.gradient(sigma.slopes(GRID), GRID)
        best = GRID[np.argmax(np.abs(second))]
        bound = theory.assembly_bound(theory.slope_bounds(sigma)[1], SMALL, 1.0)
        yield row("theorem_1_tightness", term(best, 1.0, SMALL, 0.0) / bound)

        k = int(np.argmax(_block_norm(second, first)))
        _, vectors = np.linalg.eigh([[second[k], first[k]], [first[k], 0]])
        terms = [term(GRID[k], 1.0, *(sign * SMALL * v)) for v in vectors.T for sign in (-1, 1)]
        beta = theory.two_layer_smoothness(sigma, 1.0, 1.0 + SMALL)
        bound = theory.assembly_bound(beta, SMALL, 1.0)
        yield row("theorem_1_tightness_free", max(terms) / bound)


def _block_norm(bend: Array, slope: Array) -> Array:
    """Return the norms of [[bend, slope], [slope, 0]]."""
    size = np.abs(bend)
    return (size + np.hypot(size, 2 * slope)) / 2


def corollary_1(setting: Setting) -> Measurements:
    """Measure with which power of m the Hessian's norm falls in two-layer networks, Eq. (7)."""
    for name, kind, seed in itertools.product(
        ("tanh", "softplus"), ("signs", "normal"), setting.seeds
    ):
        sigma, rng = activations.get(name), generator(seed, "init")
        norms = [two_layer_norm(sigma, kind, m, rng) for m in MANY]
        power = exponent(MANY, norms)
        yield Measurement(f"corollary_1_{kind}", power, -0.5, activation=name, seed=seed)


def two_layer_norm(sigma: Activation, kind: str, m: int, rng: np.random.Generator) -> float:
    """Return the norm of the Hessian of a two-layer network of input 1, by its blocks."""
    z = rng.standard_normal(m)
    u = rng.standard_normal(m) if kind == "normal" else rng.choice([-1.0, 1.0], m)
    norms = _block_norm(u * second_slopes(sigma.slopes, z), sigma.slopes(z))
    return float(norms.max()) / math.sqrt(m)


def lemma_2(setting: Setting) -> Measurements:
    """Measure how often the largest of m normal variables is above log m, and its mean."""
    rng = generator(setting.seeds[0], "init")
    for count in COUNTS:
        row, log = partial(Measurement, width=count, n=TRIALS), math.log(count)
        largest = np.abs(rng.standard_normal((TRIALS, count))).max(axis=1)
        allowed = 1 - theory.largest_gaussian_probability(count)
        yield row("lemma_2", np.mean(largest > log), allowed)
        yield row("largest_weight", largest.mean(), log, theory.largest_gaussian_mean(count))


def hessian(setting: Setting) -> Measurements:
    """Measure the Hessian's norm by Lanczos, beside max |v_i| |H_gi| / sqrt(m) as ``corrected``."""
    for name, width in itertools.product(("tanh", "softplus"), setting.widths[:2]):
        sigma, rng = activations.get(name), generator(setting.seeds[0], "init")
        network = draw_network(D, [width], activation=sigma, generator=rng)
        x = torch.from_numpy(on_sphere(rng, 1, D)[0])
        z = (network.weights[0] @ x / math.sqrt(D)).numpy()
        bend = second_slopes(sigma.slopes, z) / D
        exact = np.abs(network.weights[1].numpy() * bend).max() / math.sqrt(width)
        norm = hessian_norm(Expansion(network, x, last_fixed=True)).norm
        yield Measurement("gaussian_hessian", norm, None, exact, activation=name, width=width, d=D)


def rate(setting: Setting) -> Measurements:
    """Measure max |v_i| |H_gi| over β log m and over β sqrt(2 log 2m), for z_i ~ N(0, 1)."""
    sigma = activations.get("tanh")
    for seed, width in itertools.product(setting.seeds, MANY):
        v, z = generator(seed, "init").standard_normal((2, width))
        largest = np.abs(v * second_slopes(sigma.slopes, z)).max()
        value = float(largest) / theory.slope_bounds(sigma)[1]
        row = partial(Measurement, activation="tanh", width=width, seed=seed)
        yield row("log_rate", value / math.log(width))
        yield row("root_log_rate", value / theory.largest_gaussian_mean(width))


def scaling(setting: Setting) -> Measurements:
    """Measure with which power of m an assembly of weights ±1 goes, s(m) = sqrt(m): its RMS."""
    for seed in setting.seeds:
        rng, sizes = generator(seed, "init"), []
        for m in MANY[:4]:
            neurons = np.tanh(rng.standard_normal(m))
            sizes.append(rms(rng.choice([-1.0, 1.0], (TRIALS // 10, m)) @ neurons / math.sqrt(m)))
        yield Measurement("scaling", exponent(MANY[:4], sizes), activation="tanh", seed=seed)


def remark_1(setting: Setting) -> Measurements:
    """Measure with which power of m the median of |σ(z_i)| over the largest goes, z_i normal."""
    for name, seed in itertools.product(SMOOTH, setting.seeds):
        rng = generator(seed, "init")
        sizes = [np.abs(activations.get(name).values(rng.standard_normal(m))) for m in MANY]
        power = exponent(MANY, [np.median(each) / each.max() for each in sizes])
        yield Measurement("remark_1", power, activation=name, seed=seed)
