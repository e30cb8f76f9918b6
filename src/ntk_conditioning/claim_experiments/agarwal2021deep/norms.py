"""Samples of any norms: the length map σ̂_l(γ) = E σ(√γ z)², and correlations beside it."""

import math
from functools import cache, partial

import numpy as np
from numpy.polynomial import hermite_e, polynomial
from numpy.typing import ArrayLike
from scipy.special import factorial

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid, measurement
from ntk_conditioning.claim_experiments.agarwal2021deep.correlations import CorrelationMap
from ntk_conditioning.duals.closed_forms import angle_of, dual
from ntk_conditioning.duals.hermite import Expansion, expand
from ntk_conditioning.duals.length_maps import length_map, length_map_slope
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.theory.agarwal2021deep import correlation_bound, separating_depth

#: Concave on R+, convex on R-, and 0 at 0, as Theorem 37 and Lemma 39 want them.
CONVEX_CONCAVE = ("tanh", "erf", "relu", "leaky_relu", "selu")
GAMMA = np.geomspace(1e-3, 1e3, 401)
SHIFTED = Activation(
    "shifted_relu", lambda z: z.clamp(min=0) - 1, lambda z: (z > 0).to(z.dtype), kinks=(0.0,)
)

ODD = ("tanh", "erf")
SQUARES = np.array([0.5, 0.8, 1.0, 1.5, 4.0])  # squared norms of samples, all pairs of them
DELTAS = np.array([0.01, 0.1, 0.5, 0.9])
ROUNDING = 1e-8  # of correlations by quadrature; below it bounds are not compared


def paths(
    activation: str, squares: Array, deltas: ArrayLike, layers: int, *, equal: float
) -> tuple[Array, Array]:
    """Return 1 - ρ of all pairs after 0, 1, … layers, (layers + 1, k, n, n), and squared norms.

    Of n samples of squared norms ``squares``, with 1 - ρ each of the k ``deltas`` at first. Norms
    that are as near to 1 as ``equal`` count as 1.
    """
    sigma, limit = activations.get(activation), CorrelationMap(activation)
    n, every = len(squares), slice(0, len(squares))
    norms, distances = [squares], [np.tile(np.reshape(deltas, (-1, 1, 1)), (1, n, n))]
    for _ in range(layers):
        q, w = norms[-1], distances[-1]
        if np.abs(q - 1).max() > equal:
            layer = dual(sigma, q)
            w = np.stack([layer.cosine_distances(every, every, z, angle_of(z))[0] for z in w])
            q = layer.variances
        else:
            w, _ = limit.cosine_distances(w)
        norms.append(q)
        distances.append(w)
    return np.array(distances), np.array(norms)


def contraction(activation: str) -> float:
    """Return α_σ of Theorem 37, by quadrature of both of its expectations."""
    sigma = activations.get(activation)
    return float(min(2 * length_map(sigma, 0.5) - 1, 1 - length_map_slope(sigma, 1.0)))


def convergence(setting: Setting) -> Measurements:
    """Measure Theorem 37: |k̄(x, x) - 1| after L layers, printed of squares; ``at`` is |x|²."""
    starts = np.array([0.5, 0.6, 0.8, 0.95, 1.05, 1.25, 2.0, 4.0, 16.0])
    for row, name in grid(activation=CONVEX_CONCAVE):
        alpha, q = contraction(name), starts
        yield row("alpha", alpha)
        for depth in range(1, max(setting.depths) + 1):
            q, shrunk = length_map(activations.get(name), q), (1 - alpha) ** depth
            if depth in setting.depths:
                right, printed = shrunk * np.abs(starts - 1), shrunk * (starts - 1) ** 2
                right = np.maximum(right, 1e-12)  # below is rounding
                yield row("length", np.abs(q - 1), None, right, depth=depth, at=starts)
                yield row("length_squared", np.abs(q**2 - 1), printed, depth=depth, at=starts)


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

    ``n`` is i, ``d`` is j, ``at`` is γ', and γ is 1/2. Eq. (14) and the proof print γ² for γ, with
    which h_j^γ(√γ u) is s^j H_j(u/s)/√j!, s = √γ, and not H_j(u)/√j!.
    """
    nodes, weights = hermite_e.hermegauss(90)
    weights = np.outer(weights, weights) / (2 * math.pi)
    gamma, rho, j = 0.5, 0.6, np.arange(5)
    normal = nodes[:, None], rho * nodes[:, None] + math.sqrt(1 - rho**2) * nodes
    for row, other in grid(at=(0.5, 1.0, 2.0)):
        roots = math.sqrt(gamma), math.sqrt(other)
        first, second = (root * u for root, u in zip(roots, normal, strict=True))
        for name, scales in (("hermite_product_printed", roots), ("hermite_product", (1.0, 1.0))):
            one, two = (
                hermite_e.hermevander(u / s, 4) * s**j / np.sqrt(factorial(j))
                for u, s in zip(normal, scales, strict=True)
            )
            products = np.einsum("xy,xyi,xyj->ij", weights, one, two)
            yield row(name, products, None, np.diag(rho**j), n=j[:, None], d=j)
        printed, right = (
            math.exp((gamma**power + other**power) / 2 + rho * math.sqrt(gamma * other))
            for power in (2, 1)
        )
        yield row("generating_function", np.sum(weights * np.exp(first + second)), printed, right)
        for name in ("tanh", "gelu"):
            sigma = activations.get(name)
            a, b = (sigma.gain * scaled(name, root).coefficients for root in roots)
            value = sigma.gain**2 * np.sum(weights * sigma.values(first) * sigma.values(second))
            series, square = polynomial.polyval(rho, a * b), length_map(sigma, other)
            yield row("equation_15", value, None, series, activation=name)
            yield row("equation_16", square, None, np.sum(b**2), activation=name)


@cache
def scaled(activation: str, scale: float) -> Expansion:
    """Return the Hermite expansion of σ(scale z)."""
    sigma = activations.get(activation)
    return expand(lambda z: sigma.values(scale * z), kinks=sigma.kinks)


def shifted_relu(setting: Setting) -> Measurements:
    """Count fixed points of the length map of max(x, 0) - 1, Appendix D.4's counter-example.

    At E σ² = 1, which the paper assumes, and in Poole et al.'s setting of any variance, ``at``.
    """
    gamma = np.geomspace(1e-3, 1e9, 250)  # 1 is not among them
    ratios = length_map(SHIFTED, gamma) / gamma
    row = partial(measurement, activation=SHIFTED.name)
    variances = np.array([SHIFTED.gain**2, 2.1, 2.5, 2.9, 3.5])
    signs = np.sign(variances[:, None] / SHIFTED.gain**2 * ratios - 1)
    yield row("length_fixed_points", np.count_nonzero(np.diff(signs), axis=1), at=variances)
    slopes = np.diff(length_map(SHIFTED, GAMMA)) / np.diff(GAMMA)
    yield row("shifted_slope_min", slopes.min())
    gamma = GAMMA[::40]
    for _ in range(400):
        gamma = length_map(SHIFTED, gamma)
    yield row("shifted_distance", np.abs(gamma - 1).max(), depth=400)


def one_layer(setting: Setting) -> Measurements:
    """Measure Lemma 41: the largest correlation after a layer over its bound, and over 1 - δ.

    And Eq. (20): the least μ for squared norms within μ/4 of 1, over μ/2.
    """
    for row, name in grid(activation=ODD):
        mu = CorrelationMap(name).mu
        least = nonlinearity(name, np.linspace(1 - mu / 4, 1 + mu / 4, 21)).min()
        yield row("near_one_mu", least / (mu / 2))
        w, _ = paths(name, SQUARES, DELTAS, 1, equal=0.0)
        rho, delta, mu = np.abs(1 - w[1]), DELTAS[:, None, None], nonlinearity(name, SQUARES)
        near, far = 1 - (1 + mu / 2) * delta, (1 - mu / 2) * (1 - delta)
        of_one = np.where(delta <= 0.5, near, far)  # the bound is a geometric mean over the two
        bound = np.sqrt(of_one * of_one.swapaxes(1, 2))
        yield row("lemma_41_over_bound", np.max(rho / bound, axis=(1, 2)), at=DELTAS)
        yield row("lemma_41_over_rho", np.max(rho / (1 - delta), axis=(1, 2)), at=DELTAS)


def nonlinearity(activation: str, gamma: Array) -> Array:
    """Return μ of Lemma 41, of an odd activation, at squared norms ``gamma``."""
    return np.array([scaled(activation, root).non_linearity for root in np.sqrt(gamma)])


def many_layers(setting: Setting) -> Measurements:
    """Measure Theorem 42: correlations beyond layer L̂ = log(…)/α_σ over their bound B_{μ/2}.

    And how far squared norms are from 1, from there on and from Theorem 12's α_σ log(…), over μ/4.
    """
    off = np.abs(SQUARES - 1)
    for row, name, delta in grid(activation=ODD, at=DELTAS):
        alpha, mu = contraction(name), CorrelationMap(name).mu
        logs = np.log(4 * np.maximum(np.maximum.outer(off, off), mu / 4) / mu)
        first = logs / alpha
        last = math.ceil(first.max()) + separating_depth(delta, mu / 2) + 40
        w, norms = paths(name, SQUARES, [delta], last, equal=ROUNDING / 10)
        layers = np.arange(last + 1)[:, None, None]
        bound = correlation_bound(np.maximum(layers - first, 0), delta, mu / 2)
        compared = (layers > first) & (bound > ROUNDING)
        yield row("theorem_42_over_bound", np.max(np.abs(1 - w[:, 0])[compared] / bound[compared]))
        if delta == DELTAS[0]:
            for statement, start in (("theorem_42", first), ("theorem_12", alpha * logs)):
                far = np.maximum(np.abs(norms - 1)[:, :, None], np.abs(norms - 1)[:, None])
                largest = far[layers >= start].max()
                yield row(f"{statement}_norms", largest / (mu / 4), at=None)


def normrelu(setting: Setting) -> Measurements:
    """Measure Theorem 59: correlations from layer L̂ on over their bound, the largest over pairs."""
    alpha, delta, mu = 0.0798, 0.0185, CorrelationMap("normrelu").mu  # α' and δ' as printed
    separations = (0.02, 0.05, 0.2, 1.0, 1.9)
    firsts = {eps: math.ceil(2 / alpha * math.log(3 / min(eps, mu / 4))) for eps in (1e-2, 1e-4)}
    squares, last = np.array([0.5, 1.0, 2.0]), max(firsts.values()) + 500
    w, _ = paths("normrelu", squares, separations, last, equal=2e-4)
    rho = np.moveaxis(1 - w, 1, 0)
    for (row, apart), path in zip(grid(activation="normrelu", at=separations), rho, strict=True):
        for epsilon, first in firsts.items():
            # the bound is one-sided: of samples more than a right angle apart it is that of δ = 1
            layers = np.arange(len(path) - first)
            bound = correlation_bound(layers, min(apart, 1.0) - delta, mu / 2)
            ratios = path[first:].max(axis=(1, 2)) / (bound + delta * epsilon)
            yield row(f"theorem_59_epsilon_{epsilon:g}", ratios.max(), depth=first)
        yield row("normrelu_rise", np.abs(path).max() - abs(1 - apart), delta)
