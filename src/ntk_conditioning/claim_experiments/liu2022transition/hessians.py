"""Quadratic terms and Hessians: of sub-models that share no weights, of neurons, of deep networks.

Sub-models are neurons g = v σ(w·x/sqrt(d)), v fixed or free, in the assembly of Eq. (4) with s(m) =
sqrt(m). A quadratic term is what is left of it without its expansion to first order.
"""

import math
from functools import partial

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid
from ntk_conditioning.claim_experiments.liu2022transition.normals import ACTIVATIONS, network
from ntk_conditioning.claim_experiments.numerics import exponent, on_sphere, rms, second_slopes
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2022transition as theory
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network
from ntk_conditioning.transition.gradients import gradient_products, lanczos
from ntk_conditioning.transition.linearisation import Expansion, bounds, hessian_norm, largest_terms

SMOOTH = ("tanh", "sigmoid", "softplus", "erf", "gelu")
DRAWS = 20  # per seed, activation and kind of weights
SMALL = 0.02  # a radius at which sub-models are parabolas up to a percent or so
GRID = np.linspace(-4, 4, 8001)
TRIALS = 2000
MANY = [2**k for k in range(6, 17, 2)]  # sub-models where their Hessians are known one by one

D = 4  # dimension of a sample of deep networks
WIDTHS = (32, 64, 128, 256)
#: Of these the Hessian's norm has no factor of the largest weight, about sqrt(log m), as of tanh.
MILD = ("softplus", "sigmoid")
NEAR = 0.5  # radius in which the tangent planes of level sets are compared with the sets
rough_lanczos = partial(lanczos, tol=1e-2, ncv=10)
Weights = Array | float


def theorem_1(setting: Setting) -> Measurements:
    """Measure the largest |quadratic term| over its bound, Eq. (5), in random assemblies.

    Half of the changes move a single sub-model. Weights v are 1, ±1, or free from there. Also the
    least median over maximum of the |g_i|, of which Assumption 1 wants a bound.
    """
    kinds = ("ones", "signs", "free")
    for seed in setting.seeds:
        rng = generator(seed, "init")
        for row, name, kind in grid(activation=SMOOTH, kind=kinds, n=DRAWS, seed=seed):
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
    rise, c = change[:, d] if free else np.zeros(m), float(np.linalg.norm(x))
    term = quadratic_term(sigma, w @ x, v, change[:, :d] @ x, rise)
    fixed, sizes = theory.slope_bounds(sigma)[1] * c**2, np.abs(sigma.values(w @ x))
    beta = theory.two_layer_smoothness(sigma, c, 1 + radius) if free else fixed
    bound = theory.assembly_bound(beta, radius, math.sqrt(m))
    return abs(term) / bound, float(np.median(sizes) / (sizes.max() or 1.0))  # gelu underflows


def quadratic_term(sigma: Activation, z: Array, v: Weights, dz: Weights, dv: Weights) -> float:
    """Return that of sum v σ(z) / sqrt(m) at changes ``dz`` and ``dv``, (m,) or one number."""
    here = sigma.values(z)
    linear = v * sigma.slopes(z) * dz + here * dv
    rest = (v + dv) * sigma.values(z + dz) - v * here - linear
    return float(rest.sum()) / math.sqrt(len(z))


def tightness(setting: Setting) -> Measurements:
    """Measure the largest quadratic term in a small ball, of a neuron where it bends most."""
    for row, name in grid(activation=SMOOTH, at=SMALL):
        sigma = activations.get(name)
        first, second = sigma.slopes(GRID), np.gradient(sigma.slopes(GRID), GRID)
        bound = theory.assembly_bound(theory.slope_bounds(sigma)[1], SMALL, 1.0)
        term = quadratic_term(sigma, GRID[[np.argmax(np.abs(second))]], 1.0, SMALL, 0.0)
        yield row("theorem_1_tightness", abs(term) / bound)
        k = int(np.argmax(theory.block_norm(second, first)))
        _, vectors = np.linalg.eigh([[second[k], first[k]], [first[k], 0]])
        changes = SMALL * np.concatenate([vectors.T, -vectors.T])
        terms = [abs(quadratic_term(sigma, GRID[[k]], 1.0, dz, dv)) for dz, dv in changes]
        beta = theory.two_layer_smoothness(sigma, 1.0, 1.0 + SMALL)
        bound = theory.assembly_bound(beta, SMALL, 1.0)
        yield row("theorem_1_tightness_free", max(terms) / bound)


def corollary_1(setting: Setting) -> Measurements:
    """Measure with which power of m the Hessian's norm falls in two-layer networks, Eq. (7)."""
    kinds = ("signs", "normal")
    for row, name, kind, seed in grid(activation=ACTIVATIONS, kind=kinds, seed=setting.seeds):
        sigma, rng = activations.get(name), generator(seed, "init")
        norms = [two_layer_norm(sigma, kind, m, rng) for m in MANY]
        yield row(f"corollary_1_{kind}", exponent(MANY, norms), -0.5)


def two_layer_norm(sigma: Activation, kind: str, m: int, rng: np.random.Generator) -> float:
    """Return the norm of the Hessian of a two-layer network of input 1, by its blocks."""
    z = rng.standard_normal(m)
    u = rng.standard_normal(m) if kind == "normal" else rng.choice([-1.0, 1.0], m)
    norms = theory.block_norm(u * second_slopes(sigma.slopes, z), sigma.slopes(z))
    return float(norms.max()) / math.sqrt(m)


def lemma_2(setting: Setting) -> Measurements:
    """Measure how often the largest of m normal variables is above log m, and its mean."""
    rng = generator(setting.seeds[0], "init")
    for row, count in grid(width=(2, 4, 8, 13, 16, 32, 128, 512), n=TRIALS):
        log = math.log(count)
        largest = np.abs(rng.standard_normal((TRIALS, count))).max(axis=1)
        yield row("lemma_2", np.mean(largest > log), 2 * math.exp(log - log**2 / 2))
        yield row("largest_weight", largest.mean(), log, math.sqrt(2 * math.log(2 * count)))


def hessian(setting: Setting) -> Measurements:
    """Measure the Hessian's norm by Lanczos, beside max |v_i| |H_gi| / sqrt(m) as ``corrected``."""
    d = 8
    for row, name, width in grid(activation=ACTIVATIONS, width=setting.widths[:2], d=d):
        sigma, rng = activations.get(name), generator(setting.seeds[0], "init")
        net = draw_network(d, [width], activation=sigma, generator=rng)
        x = torch.from_numpy(on_sphere(rng, 1, d)[0])
        bend = second_slopes(sigma.slopes, (net.weights[0] @ x / math.sqrt(d)).numpy()) / d
        exact = np.abs(net.weights[1].numpy() * bend).max() / math.sqrt(width)
        norm, *_ = hessian_norm(Expansion(net, x, last_fixed=True))
        yield row("gaussian_hessian", norm, None, exact)


def rate(setting: Setting) -> Measurements:
    """Measure max |v_i| |H_gi| over β log m and over β sqrt(2 log 2m), for z_i ~ N(0, 1)."""
    sigma = activations.get("tanh")
    for row, seed, width in grid(activation="tanh", seed=setting.seeds, width=MANY):
        v, z = generator(seed, "init").standard_normal((2, width))
        largest = np.abs(v * second_slopes(sigma.slopes, z)).max()
        value = float(largest) / theory.slope_bounds(sigma)[1]
        yield row("log_rate", value / math.log(width))
        yield row("root_log_rate", value / math.sqrt(2 * math.log(2 * width)))


def scaling(setting: Setting) -> Measurements:
    """Measure with which power of m an assembly of weights ±1 goes, s(m) = sqrt(m): its RMS."""
    for row, seed in grid(activation="tanh", seed=setting.seeds):
        rng, sizes = generator(seed, "init"), []
        for m in MANY[:4]:
            neurons = np.tanh(rng.standard_normal(m))
            sizes.append(rms(rng.choice([-1.0, 1.0], (TRIALS // 10, m)) @ neurons / math.sqrt(m)))
        yield row("scaling", exponent(MANY[:4], sizes))


def remark_1(setting: Setting) -> Measurements:
    """Measure with which power of m the median of |σ(z_i)| over the largest goes, z_i normal."""
    for row, name, seed in grid(activation=SMOOTH, seed=setting.seeds):
        rng = generator(seed, "init")
        sizes = [np.abs(activations.get(name).values(rng.standard_normal(m))) for m in MANY]
        yield row("remark_1", exponent(MANY, [np.median(size) / size.max() for size in sizes]))


def level_sets(setting: Setting) -> Measurements:
    """Measure how straight a neuron's level sets are, and how near its Hessian is to c n n^T.

    ``hessian_slope`` is c over β, that of a linear z.
    """
    for row, name, depth, seed in grid(activation=MILD, depth=(2, 3), seed=setting.seeds):
        bends, rests = [], []
        for width in WIDTHS[:3]:
            net, x = network((*(width,) * (depth - 1), 1), name, seed, d=D)
            last = torch.ones_like(net.weights[-1])  # of one input: the output is the neuron
            neuron = Expansion(net.with_weights([*net.weights[:-1], last]), x, last_fixed=True)
            normal = torch.nn.functional.normalize(neuron.gradient, dim=0)
            c = float(normal @ neuron.hessian_product(normal))
            bends.append(_bend(neuron, normal))
            rests.append(_norm(neuron, c, normal) / float(neuron.gradient @ normal))
            *_, products = gradient_products(net, x)
            beta = theory.slope_bounds(net.activation)[1] * float(products)
            yield row("hessian_slope", c / beta, width=width)
        yield row("level_set_exponent", exponent(WIDTHS[:3], bends))
        yield row("hessian_rest_exponent", exponent(WIDTHS[:3], rests))


def _bend(neuron: Expansion, normal: Tensor) -> float:
    """Return how far the level set through w_0 is from its tangent plane, NEAR from w_0.

    In the direction in which the Hessian bends the set most; along the normal, by a root finder.
    """

    def flat(v: Tensor) -> Tensor:
        return v - normal * (normal @ v)

    def above(distance: float) -> float:
        return float(neuron.value(tangent + distance * normal) - level)

    _, vector = rough_lanczos(lambda v: flat(neuron.hessian_product(flat(v))), normal)
    tangent, level = NEAR * flat(vector), neuron.value(neuron.origin)
    return abs(float(brentq(above, -NEAR, NEAR)))


def _norm(expansion: Expansion, c: float = 0.0, n: Tensor | float = 0.0) -> float:
    """Return the norm of the Hessian less c n n^T."""

    def product(v: Tensor) -> Tensor:
        return expansion.hessian_product(v) - c * n * (n * v).sum()

    return abs(rough_lanczos(product, expansion.origin)[0])


def _network(kind: str, width: int, activation: str, seed: int) -> tuple[FeedforwardNet, Tensor]:
    layouts = {"two_layer": (width,), "narrow": (width, 4, width), "sequential": (1024, width)}
    hidden = layouts.get(kind, (width, width))
    return network(hidden, activation, seed, d=D, dense=kind == "dense")


def theorem_4(setting: Setting) -> Measurements:
    """Measure the largest |quadratic term| found with the last layer fixed.

    Over the bound of Eq. (19), with R, and over that with R². ``at`` is the radius.
    """
    for kind, width in (("two_layer", 64), ("deep", 64), ("sequential", 16)):
        for row, name, seed in grid(activation=ACTIVATIONS, width=width, seed=setting.seeds):
            net, x = _network(kind, width, name, seed)
            x *= 0.2  # so small that a ball of radius 4 is within a parabola's reach
            expansion = Expansion(net, x, last_fixed=True)
            *_, vector = hessian_norm(expansion)
            search = partial(largest_terms, expansion, eigenvector=vector, directions=4)
            for radius in (0.25, 4.0):
                term = max(search(radius, generator=generator(seed, "batch")).values())
                ratio = term / (bounds(net, x, radius)[1] or math.nan)
                yield row(f"theorem_4_printed_{kind}", ratio * radius, at=radius)
                yield row(f"theorem_4_{kind}", ratio, at=radius)


def rates(setting: Setting) -> Measurements:
    """Measure with which power of m the Hessian's norm falls, all weights free."""
    for kind in ("two_layer", "deep", "dense", "narrow"):
        for row, seed in grid(activation=MILD[0], d=D, seed=setting.seeds):
            norms = [_norm(Expansion(*_network(kind, width, MILD[0], seed))) for width in WIDTHS]
            yield row(f"hessian_exponent_{kind}", exponent(WIDTHS, norms))
