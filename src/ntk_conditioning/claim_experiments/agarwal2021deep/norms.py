"""Samples of any norms: the length map σ̂_l(γ) = E σ(√γ z)², and correlations beside it.

Theorem 37, Lemmas 39 and 40, Eqs. (14) and (15), Appendix D.4; Lemma 41 and Theorem 42 on odd
activations; Theorem 59 on NormReLU.
"""

import itertools
import math
from functools import partial

import numpy as np

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.correlations import (
    CorrelationMap,
    correlation_of,
)
from ntk_conditioning.duals.closed_forms import angle_of, dual
from ntk_conditioning.duals.hermite import expand
from ntk_conditioning.duals.length_map import length_map, length_map_slope
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation, gaussian_mean, gaussian_nodes
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


def contraction(activation: str) -> float:
    """Return α_σ of Theorem 37, by quadrature of both of its expectations."""
    sigma = activations.get(activation)
    half, slope = float(length_map(sigma, 0.5)), float(length_map_slope(sigma, 1.0))
    return min(2 * half - 1, 1 - slope)


def convergence(setting: Setting) -> Measurements:
    """Measure Theorem 37: |k̄(x, x) - 1| after L layers, printed of squares; ``at`` is |x|²."""
    for name in CONVEX_CONCAVE:
        alpha, sigma = contraction(name), activations.get(name)
        yield Measurement("alpha", alpha, activation=name)
        for start in STARTS:
            gamma = start
            for depth in range(1, max(setting.depths) + 1):
                gamma = float(length_map(sigma, gamma))
                if depth in setting.depths:
                    row = partial(Measurement, activation=name, depth=depth, at=start)
                    shrunk = (1 - alpha) ** depth
                    yield row("length", abs(gamma - 1), None, shrunk * abs(start - 1))
                    yield row("length_squared", abs(gamma**2 - 1), shrunk * (start - 1) ** 2)


def shape(setting: Setting) -> Measurements:
    """Measure Lemma 39: the least slope of σ̂_l on R+ and its largest change, by differences.

    Also (σ'(z) z)² - σ(z) σ'(z) z, of which the proof prints >= 0 and then shows <= 0.
    """
    for name in (*CONVEX_CONCAVE, "sigmoid"):  # of which Appendix D.4 says so
        sigma, row = activations.get(name), partial(Measurement, activation=name)
        slopes = np.diff(length_map(sigma, GAMMA)) / np.diff(GAMMA)
        yield row("length_slope_min", slopes.min())
        yield row("length_bend_max", (np.diff(slopes) / slopes[:-1]).max())
        yield row("activation_at_zero", abs(sigma.values(np.zeros(1))[0]), 0.0)
        z = np.linspace(-4, 4, 401)
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
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    weights = np.outer(weights, weights) / (2 * math.pi)
    gamma, rho = 0.5, 0.6
    first = math.sqrt(gamma) * nodes[:, None]
    for other in (0.5, 1.0, 2.0):
        second = math.sqrt(other) * (rho * nodes[:, None] + math.sqrt(1 - rho**2) * nodes)
        for name, power in (("hermite_product_printed", 2), ("hermite_product", 1)):
            bases = _polynomials(first, gamma, power), _polynomials(second, other, power)
            for (i, h), (j, k) in itertools.product(*map(enumerate, bases)):
                exact = rho**j if i == j else 0
                yield Measurement(name, np.sum(weights * h * k), None, exact, n=i, d=j, at=other)
        exponential = np.sum(weights * np.exp(first + second))
        printed, right = (
            math.exp((gamma**power + other**power) / 2 + rho * math.sqrt(gamma * other))
            for power in (2, 1)
        )
        yield Measurement("generating_function", exponential, printed, right, at=other)
        for name in ("tanh", "gelu"):
            row, sigma = partial(Measurement, activation=name, at=other), activations.get(name)
            q = np.array([gamma, other])
            a, b = (sigma.gain * _coefficients(sigma, math.sqrt(each)) for each in q)
            squares = length_map(sigma, q)
            value = correlation_of(name, q[:1], q[1:], rho).item() * math.sqrt(squares.prod())
            yield row("equation_15", value, None, np.polynomial.polynomial.polyval(rho, a * b))
            yield row("equation_16", squares[1], None, np.sum(b**2))


def _polynomials(z: Array, gamma: float, power: int) -> list[Array]:
    """Return h_0 to h_4, the H_j of exp(tz - γ^power t²/2) over sqrt(γ^j j!)."""
    h = [np.ones_like(z), z]
    for j in range(1, 4):
        h.append(z * h[j] - j * gamma**power * h[j - 1])
    return [each / math.sqrt(gamma**j * math.factorial(j)) for j, each in enumerate(h)]


def _coefficients(sigma: Activation, factor: float) -> Array:
    """Return the Hermite coefficients of σ(factor z)."""
    return expand(lambda z: sigma.values(factor * z), kinks=sigma.kinks).coefficients


def shifted_relu(setting: Setting) -> Measurements:
    """Count fixed points of the length map of max(x, 0) - 1, Appendix D.4's counter-example.

    At E σ² = 1, which the paper assumes throughout, where the map's least slope and the largest
    distance from 1 after many layers follow, and in Poole et al.'s setting of any variance, ``at``.
    """
    row, scale = partial(Measurement, activation=SHIFTED.name), SHIFTED.gain**2
    yield row("length_fixed_points", _fixed_points(1.0), at=scale)
    slopes = np.diff(length_map(SHIFTED, GAMMA)) / np.diff(GAMMA)
    yield row("shifted_slope_min", slopes.min())
    gamma = GAMMA[::40]
    for _ in range(400):
        gamma = length_map(SHIFTED, gamma)
    yield row("shifted_distance", np.abs(gamma - 1).max(), depth=400)
    for variance in VARIANCES:
        yield row("length_fixed_points", _fixed_points(variance / scale), at=variance)


def _fixed_points(factor: float) -> int:
    """Count the γ at which ``factor`` times the length map crosses γ."""
    logs = np.linspace(math.log(1e-3), math.log(1e9), 250)  # 1 is not among them
    signs = [
        np.sign(factor * float(length_map(SHIFTED, math.exp(log))) / math.exp(log) - 1)
        for log in logs
    ]
    return int(np.count_nonzero(np.diff(signs)))


def one_layer(setting: Setting) -> Measurements:
    """Measure Lemma 41: the largest correlation after a layer over its bound, and over 1 - δ."""
    q, q2 = PAIRS.T
    for name in ODD:
        mu, mu2 = nonlinearity(name, q), nonlinearity(name, q2)
        for delta in DELTAS:
            row = partial(Measurement, activation=name, at=delta)
            after = np.abs(correlation_of(name, q, q2, 1 - delta))
            if delta <= 0.5:
                bound = np.sqrt((1 - (1 + mu / 2) * delta) * (1 - (1 + mu2 / 2) * delta))
            else:
                bound = np.sqrt((1 - mu / 2) * (1 - mu2 / 2)) * (1 - delta)
            yield row("lemma_41_over_bound", np.max(after / bound))
            yield row("lemma_41_over_rho", np.max(after / (1 - delta)))


def nonlinearity(activation: str, gamma: Array) -> Array:
    """Return μ of Lemma 41 at squared norms ``gamma``, by quadrature of a_1."""
    sigma, z = activations.get(activation), gaussian_nodes()
    a1 = gaussian_mean(z * sigma.values(np.sqrt(gamma)[:, None] * z))
    return np.asarray(1 - sigma.gain**2 * a1**2 / length_map(sigma, gamma))


def near_norm_one(setting: Setting) -> Measurements:
    """Measure Eq. (20): the least μ for squared norms within μ/4 of 1, over μ/2."""
    for name in ODD:
        mu = CorrelationMap(name).mu
        least = nonlinearity(name, np.linspace(1 - mu / 4, 1 + mu / 4, 21)).min()
        yield Measurement("near_one_mu", least / (mu / 2), activation=name)


def many_layers(setting: Setting) -> Measurements:
    """Measure Theorem 42: correlations beyond layer L̂ = log(…)/α_σ over their bound B_{μ/2}.

    Also how far squared norms are from 1 from L̂ on, over the μ/4 that the proof wants; and from
    the α_σ log(…) that Theorem 12 prints. ``at`` is δ.
    """
    for name in ODD:
        alpha, layer = contraction(name), CorrelationMap(name)
        mu = layer.mu
        logs = np.log(4 * np.maximum(np.abs(PAIRS - 1).max(axis=1), mu / 4) / mu)
        first = logs / alpha
        for delta in DELTAS:
            last = math.ceil(first.max()) + separating_depth(delta, mu / 2) + 40
            rho, norms = _propagated(name, layer, 1 - delta, last)
            layers = np.arange(last + 1)[:, None]
            bound = correlation_bound(np.maximum(layers - first, 0), delta, mu / 2)
            compared = (layers > first) & (bound > ROUNDING)
            worst = np.where(compared, np.abs(rho) / bound, 0).max()
            yield Measurement("theorem_42_over_bound", worst, activation=name, at=delta)
            if delta == DELTAS[0]:
                for statement, start in (("theorem_42", first), ("theorem_12", alpha * logs)):
                    far = np.where(layers >= start, np.abs(norms - 1).max(axis=2), 0).max()
                    yield Measurement(f"{statement}_norms", far / (mu / 4), activation=name)


def _propagated(name: str, layer: CorrelationMap, rho: float, last: int) -> tuple[Array, Array]:
    """Return correlations (L, pairs) and squared norms (L, pairs, 2) after 0, 1, … layers."""
    sigma = activations.get(name)
    norms, rhos = [PAIRS], [np.full(len(PAIRS), rho)]
    for _ in range(last):
        (q, q2), before = norms[-1].T, rhos[-1]
        unequal = np.abs(norms[-1] - 1).max() > ROUNDING / 10
        rhos.append(correlation_of(name, q, q2, before) if unequal else layer(before))
        norms.append(length_map(sigma, norms[-1]))
    return np.array(rhos), np.array(norms)


def normrelu(setting: Setting) -> Measurements:
    """Measure Theorem 59: correlations from layer L̂ on over their bound, the largest over pairs.

    And the largest rise of |ρ| above its start, which the proof bounds by δ'. ``at`` is 1 - ρ.
    """
    layer = CorrelationMap("normrelu")
    firsts = [math.ceil(2 / ALPHA * math.log(3 / min(each, layer.mu / 4))) for each in EPSILONS]
    rho = 1 - _cosine_distances(layer, max(firsts) + BEYOND)
    for delta, path in zip(SEPARATIONS, rho.T, strict=True):
        row = partial(Measurement, activation="normrelu", at=delta)
        for epsilon, first in zip(EPSILONS, firsts, strict=True):
            # the bound is one-sided: of samples more than a right angle apart it is that of δ = 1
            layers = np.arange(len(rho) - first)
            bound = correlation_bound(layers, min(delta, 1.0) - DELTA, layer.mu / 2)
            ratios = path[:, :, first:].max(axis=(0, 1)) / (bound + DELTA * epsilon)
            yield row(f"theorem_59_epsilon_{epsilon:g}", ratios.max(), depth=first)
        yield row("normrelu_rise", np.abs(path).max() - abs(1 - delta), DELTA)


def _cosine_distances(layer: CorrelationMap, layers: int) -> Array:
    """Return 1 - ρ after 0, 1, … layers (L, n, n, separations), of all pairs of NORMS."""
    sigma, q, every = activations.get("normrelu"), NORMS, slice(0, len(NORMS))
    path = [np.broadcast_to(SEPARATIONS, (len(q), len(q), len(SEPARATIONS)))]
    for _ in range(EQUAL):
        step = dual(sigma, q)
        before = np.moveaxis(path[-1], -1, 0)
        after = [step.cosine_distances(every, every, w, angle_of(w))[0] for w in before]
        path.append(np.stack(after, axis=-1))
        q = step.variances
    for _ in range(EQUAL, layers):
        path.append(layer.cosine_distances(path[-1])[0])
    return np.array(path)
