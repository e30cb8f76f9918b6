"""Samples of any norms: the length map σ̂_l(γ) = E σ(√γ z)², and correlations beside it.

Theorem 37, Lemmas 39 and 40, Eqs. (14) and (15), Appendix D.4; Lemma 41 and Theorem 42 on odd
activations; Theorem 59 on NormReLU.
"""

import itertools
import math
from functools import cache, partial

import numpy as np
from numpy.polynomial import hermite_e, polynomial
from numpy.typing import ArrayLike
from scipy.special import factorial

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting, grid
from ntk_conditioning.claim_experiments.agarwal2021deep.correlations import CorrelationMap
from ntk_conditioning.duals.closed_forms import angle_of, dual
from ntk_conditioning.duals.hermite import Expansion, expand
from ntk_conditioning.duals.length_maps import length_map, length_map_slope
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.calculus import gaussian_rule
from ntk_conditioning.theory.agarwal2021deep import correlation_bound, separating_depth

#: Concave on R+, convex on R-, and 0 at 0, as Theorem 37 and Lemma 39 want them.
CONVEX_CONCAVE = ("tanh", "erf", "relu", "leaky_relu", "selu")
GAMMA = np.geomspace(1e-3, 1e3, 401)
STARTS = (0.5, 0.6, 0.8, 0.95, 1.05, 1.25, 2.0, 4.0, 16.0)
SHIFTED = Activation(
    "shifted_relu",
    function=lambda z: z.clamp(min=0) - 1,
    derivative=lambda z: (z > 0).to(z.dtype),
    kinks=(0.0,),
)
#: Variances of weights with which Poole et al.'s length map of the shifted ReLU is looked at.
VARIANCES = (2.1, 2.5, 2.9, 3.5)

ODD = ("tanh", "erf")
#: Squared norms |x|² and |y|².
PAIRS = np.array(list(itertools.combinations_with_replacement((0.5, 0.8, 1.0, 1.5, 4.0), 2)))
DELTAS = (0.01, 0.1, 0.5, 0.9)
ROUNDING = 1e-8  # of correlations by quadrature; below it bounds are not compared

ALPHA, DELTA = 0.0798, 0.0185  # α' and δ' as Theorem 59 prints them
#: Squared norms of samples for NormReLU, all pairs of which are taken.
NORMS = np.array([0.5, 1.0, 2.0])
SEPARATIONS = (0.02, 0.05, 0.2, 1.0, 1.9)
EPSILONS = (1e-2, 1e-4)
#: Layers after which squared norms are 1 up to 2e-4, and after L̂ at which bounds are compared.
EQUAL, BEYOND = 50, 500


def correlation_of(activation: str, q: ArrayLike, q2: ArrayLike, rho: ArrayLike) -> Array:
    """Return σ̂_c(x, y) over the root of σ̂_c(x, x) σ̂_c(y, y), for any norms and a smooth σ.

    ``q`` and ``q2`` are squared norms and ``rho`` correlations, all (n,). By Gauss and Hermite's
    rule, right to 1e-9 for squared norms up to 4.
    """
    sigma = activations.get(activation)
    u, v, mass = _plane()
    correlations = []
    for first, second, cosine in np.broadcast(q, q2, rho):
        one = sigma.values(np.sqrt(first) * u)
        two = sigma.values(np.sqrt(second) * (cosine * u + np.sqrt(1 - cosine**2) * v))
        squares = (one**2 @ mass) * (two**2 @ mass)
        correlations.append((one * two) @ mass / np.sqrt(squares))
    return np.array(correlations)


@cache
def _plane() -> tuple[Array, Array, Array]:
    """Return nodes and weights of two independent normal variables."""
    nodes, weights = hermite_e.hermegauss(90)
    u, v = np.meshgrid(nodes, nodes)
    mass = np.outer(weights, weights) / (2 * np.pi)
    near = mass > 1e-17  # corners that weigh nothing
    return u[near], v[near], mass[near]


def contraction(activation: str) -> float:
    """Return α_σ of Theorem 37, by quadrature of both of its expectations."""
    sigma = activations.get(activation)
    half, slope = float(length_map(sigma, 0.5)), float(length_map_slope(sigma, 1.0))
    return min(2 * half - 1, 1 - slope)


def convergence(setting: Setting) -> Measurements:
    """Measure Theorem 37: |k̄(x, x) - 1| after L layers, printed of squares; ``at`` is |x|²."""
    for row, name in grid(activation=CONVEX_CONCAVE):
        alpha, gamma, start = contraction(name), np.array(STARTS), np.array(STARTS)
        yield row("alpha", alpha)
        for depth in range(1, max(setting.depths) + 1):
            gamma = length_map(activations.get(name), gamma)
            shrunk = (1 - alpha) ** depth
            if depth in setting.depths:
                for q, q_0 in zip(gamma, start, strict=True):
                    right, printed = shrunk * abs(q_0 - 1), shrunk * (q_0 - 1) ** 2
                    yield row("length", abs(q - 1), None, right, depth=depth, at=q_0)
                    yield row("length_squared", abs(q**2 - 1), printed, depth=depth, at=q_0)


def shape(setting: Setting) -> Measurements:
    """Measure Lemma 39: the least slope of σ̂_l on R+ and its largest change, by differences.

    Also (σ'(z) z)² - σ(z) σ'(z) z, of which the proof prints >= 0 and then shows <= 0.
    """
    for row, name in grid(activation=(*CONVEX_CONCAVE, "sigmoid")):  # as Appendix D.4 says
        sigma, z = activations.get(name), np.linspace(-4, 4, 401)
        slopes = np.diff(length_map(sigma, GAMMA)) / np.diff(GAMMA)
        yield row("length_slope_min", slopes.min())
        yield row("length_bend_max", (np.diff(slopes) / slopes[:-1]).max())
        yield row("activation_at_zero", abs(sigma.values(np.zeros(1))[0]), 0.0)
        value, slope = sigma.values(z), sigma.slopes(z)
        sign = slope**2 * z**2 - value * slope * z
        yield row("lemma_39_least", sign.min())
        yield row("lemma_39_largest", sign.max())


def hermite_basis(setting: Setting) -> Measurements:
    """Measure Lemma 40: E h_i^γ(z) h_j^γ'(z') of correlated variables of variances γ and γ'.

    The lemma gives ρ^j for i = j, else 0; ``n`` is i and ``d`` is j. Eq. (14) prints
    exp(tz - γ² t²/2), whose H_2 is z² - γ²; with γ for γ² it is z² - γ. Its proof prints ‖u‖ = γ
    for ‖u‖² = γ, in E exp(sz + tz'). Eqs. (15) and (16) sum an activation's coefficients. ``at`` is
    γ', and γ is 1/2.
    """
    nodes, weights = hermite_e.hermegauss(24)
    weights = np.outer(weights, weights) / (2 * math.pi)
    gamma, rho = 0.5, 0.6
    first = math.sqrt(gamma) * nodes[:, None]
    for row, other in grid(at=(0.5, 1.0, 2.0)):
        second = math.sqrt(other) * (rho * nodes[:, None] + math.sqrt(1 - rho**2) * nodes)
        for name, power in (("hermite_product_printed", 2), ("hermite_product", 1)):
            bases = _polynomials(first, gamma, power), _polynomials(second, other, power)
            for (i, h), (j, k) in itertools.product(*map(enumerate, bases)):
                product = np.sum(weights * h * k)
                yield row(name, product, None, rho**j if i == j else 0, n=i, d=j)
        printed, right = (
            math.exp((gamma**power + other**power) / 2 + rho * math.sqrt(gamma * other))
            for power in (2, 1)
        )
        mean = np.sum(weights * np.exp(first + second))
        yield row("generating_function", mean, printed, right)
        q = np.array([gamma, other])
        for name in ("tanh", "gelu"):
            sigma = activations.get(name)
            a, b = (sigma.gain * scaled(name, math.sqrt(each)).coefficients for each in q)
            squares = length_map(sigma, q)
            value = correlation_of(name, q[:1], q[1:], rho).item() * math.sqrt(squares.prod())
            series = polynomial.polyval(rho, a * b)
            yield row("equation_15", value, None, series, activation=name)
            yield row("equation_16", squares[1], None, np.sum(b**2), activation=name)


@cache
def scaled(activation: str, scale: float) -> Expansion:
    """Return the Hermite expansion of σ(scale z)."""
    sigma = activations.get(activation)
    return expand(lambda z: sigma.values(scale * z), kinks=sigma.kinks)


def _polynomials(z: Array, gamma: float, power: int) -> Array:
    """Return h_0 to h_4 (5, ...), the H_j of exp(tz - γ^power t²/2) over sqrt(γ^j j!)."""
    j, deviation = np.arange(5), gamma ** (power / 2)
    h = hermite_e.hermevander(z / deviation, 4) * deviation**j
    return np.asarray(np.moveaxis(h / np.sqrt(gamma**j * factorial(j)), -1, 0))


def shifted_relu(setting: Setting) -> Measurements:
    """Count fixed points of the length map of max(x, 0) - 1, Appendix D.4's counter-example.

    At E σ² = 1, which the paper assumes throughout, where the map's least slope and the largest
    distance from 1 after many layers follow, and in Poole et al.'s setting of any variance, ``at``.
    """
    gamma = np.geomspace(1e-3, 1e9, 250)  # 1 is not among them
    ratios = length_map(SHIFTED, gamma) / gamma
    row = partial(Measurement, activation=SHIFTED.name)
    for variance in (scale := SHIFTED.gain**2, *VARIANCES):
        count = np.count_nonzero(np.diff(np.sign(variance / scale * ratios - 1)))
        yield row("length_fixed_points", count, at=variance)
    slopes = np.diff(length_map(SHIFTED, GAMMA)) / np.diff(GAMMA)
    yield row("shifted_slope_min", slopes.min())
    gamma = GAMMA[::40]
    for _ in range(400):
        gamma = length_map(SHIFTED, gamma)
    yield row("shifted_distance", np.abs(gamma - 1).max(), depth=400)


def one_layer(setting: Setting) -> Measurements:
    """Measure Lemma 41: the largest correlation after a layer over its bound, and over 1 - δ."""
    q, q2 = PAIRS.T
    for row, name, delta in grid(activation=ODD, at=DELTAS):
        mu, mu2 = nonlinearity(name, q), nonlinearity(name, q2)
        after = np.abs(correlation_of(name, q, q2, 1 - delta))
        if delta <= 0.5:
            bound = np.sqrt((1 - (1 + mu / 2) * delta) * (1 - (1 + mu2 / 2) * delta))
        else:
            bound = np.sqrt((1 - mu / 2) * (1 - mu2 / 2)) * (1 - delta)
        yield row("lemma_41_over_bound", np.max(after / bound))
        yield row("lemma_41_over_rho", np.max(after / (1 - delta)))


def nonlinearity(activation: str, gamma: Array) -> Array:
    """Return μ of Lemma 41 at squared norms ``gamma``, by quadrature of a_1."""
    sigma, (z, weights) = activations.get(activation), gaussian_rule()
    a1 = (z * sigma.values(np.sqrt(gamma)[:, None] * z)) @ weights
    return np.asarray(1 - sigma.gain**2 * a1**2 / length_map(sigma, gamma))


def near_norm_one(setting: Setting) -> Measurements:
    """Measure Eq. (20): the least μ for squared norms within μ/4 of 1, over μ/2."""
    for row, name in grid(activation=ODD):
        mu = CorrelationMap(name).mu
        least = nonlinearity(name, np.linspace(1 - mu / 4, 1 + mu / 4, 21)).min()
        yield row("near_one_mu", least / (mu / 2))


def many_layers(setting: Setting) -> Measurements:
    """Measure Theorem 42: correlations beyond layer L̂ = log(…)/α_σ over their bound B_{μ/2}.

    Also how far squared norms are from 1 from L̂ on, over the μ/4 that the proof wants; and from
    the α_σ log(…) that Theorem 12 prints. ``at`` is δ.
    """
    for row, name, delta in grid(activation=ODD, at=DELTAS):
        alpha, layer = contraction(name), CorrelationMap(name)
        mu = layer.mu
        logs = np.log(4 * np.maximum(np.abs(PAIRS - 1).max(axis=1), mu / 4) / mu)
        first = logs / alpha
        last = math.ceil(first.max()) + separating_depth(delta, mu / 2) + 40
        norms, rhos = [PAIRS], [np.full(len(PAIRS), 1 - delta)]
        for _ in range(last):
            q, rho = norms[-1], rhos[-1]
            unequal = np.abs(q - 1).max() > ROUNDING / 10
            rhos.append(correlation_of(name, q[:, 0], q[:, 1], rho) if unequal else layer(rho))
            norms.append(length_map(activations.get(name), q))
        layers = np.arange(last + 1)[:, None]
        bound = correlation_bound(np.maximum(layers - first, 0), delta, mu / 2)
        compared = (layers > first) & (bound > ROUNDING)
        yield row("theorem_42_over_bound", np.where(compared, np.abs(rhos) / bound, 0).max())
        if delta == DELTAS[0]:
            for statement, start in (("theorem_42", first), ("theorem_12", alpha * logs)):
                far = np.where(layers >= start, np.abs(np.array(norms) - 1).max(axis=2), 0).max()
                yield row(f"{statement}_norms", far / (mu / 4), at=None)


def normrelu(setting: Setting) -> Measurements:
    """Measure Theorem 59: correlations from layer L̂ on over their bound, the largest over pairs.

    And the largest rise of |ρ| above its start, which the proof bounds by δ'. ``at`` is 1 - ρ.
    """
    layer = CorrelationMap("normrelu")
    firsts = [math.ceil(2 / ALPHA * math.log(3 / min(each, layer.mu / 4))) for each in EPSILONS]
    sigma, q, every = activations.get("normrelu"), NORMS, slice(0, len(NORMS))
    # 1 - ρ of all pairs of NORMS, at first of different norms: (layers, separations, n, n)
    w = [np.broadcast_to(np.array(SEPARATIONS)[:, None, None], (len(SEPARATIONS), len(q), len(q)))]
    for _ in range(EQUAL):
        step = dual(sigma, q)
        w.append(np.stack([step.cosine_distances(every, every, z, angle_of(z))[0] for z in w[-1]]))
        q = step.variances
    for _ in range(EQUAL, max(firsts) + BEYOND):
        w.append(layer.cosine_distances(w[-1])[0])
    rho = np.moveaxis(1 - np.array(w), 1, 0)
    for (row, delta), path in zip(grid(activation="normrelu", at=SEPARATIONS), rho, strict=True):
        for epsilon, first in zip(EPSILONS, firsts, strict=True):
            # the bound is one-sided: of samples more than a right angle apart it is that of δ = 1
            layers = np.arange(len(path) - first)
            bound = correlation_bound(layers, min(delta, 1.0) - DELTA, layer.mu / 2)
            ratios = path[first:].max(axis=(1, 2)) / (bound + DELTA * epsilon)
            yield row(f"theorem_59_epsilon_{epsilon:g}", ratios.max(), depth=first)
        yield row("normrelu_rise", np.abs(path).max() - abs(1 - delta), DELTA)
