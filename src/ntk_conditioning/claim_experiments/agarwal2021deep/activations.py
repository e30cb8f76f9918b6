"""Activations of Appendix C.4, NormReLU (Section 7, Appendix I), normalisation, Appendix H."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid, measurement
from ntk_conditioning.claim_experiments.agarwal2021deep import correlations
from ntk_conditioning.claim_experiments.agarwal2021deep.correlations import CorrelationMap
from ntk_conditioning.claim_experiments.numerics import exponent, on_sphere
from ntk_conditioning.duals.hermite import expand, expansion
from ntk_conditioning.duals.length_maps import bias, length_map, length_map_slope
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import draw_weights
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.agarwal2021deep import NormReLU

CHOSEN = -1.5975  # the kink of Section 7
N, D = 64, 8  # samples that are normalised, and their dimension
ACTIVATIONS = ("relu", "gelu", "sigmoid")
DELTAS = np.array([1e-2, 3e-3, 1e-3, 3e-4, 1e-4])  # separations of samples in Appendix H


def _relu_dual(rho: Array) -> Array:
    return np.asarray(np.sqrt(1 - rho**2) + (math.pi - np.arccos(rho)) * rho) / (2 * math.pi)


#: Functions, their duals and μ, as printed in Appendix C.4.
C4: dict[str, tuple[Any, Callable[[Array], Array], float]] = {
    "identity": (lambda z: z, lambda rho: rho, 0.0),
    "hermite_2": (lambda z: (z**2 - 1) / math.sqrt(2), lambda rho: rho**2, 1.0),
    "relu": (lambda z: np.maximum(z, 0), _relu_dual, (math.pi - 2) / (2 * math.pi - 2)),
    "step": (lambda z: z >= 0, lambda rho: 0.5 - np.arccos(rho) / (2 * math.pi), 1 - 2 / math.pi),
    "exponential": (np.exp, lambda rho: np.exp(rho + 3), (math.e - 2) / (math.e - 1)),
}
#: The first terms of duals' power series, as far as they are printed; and what is right.
SERIES = {
    "relu": [np.array([2, math.pi, third, 0, 1 / 12]) / (4 * math.pi) for third in (2, 1)],
    "step": [np.array([math.pi, 2, 0, 1 / 3, 0, 3 / 20]) / (4 * math.pi)] * 2,
    "exponential": [np.exp(power) / np.array([1, 1, 2, 6]) for power in (3, 1)],
}


def closed_forms(setting: Setting) -> Measurements:
    """Measure duals, their coefficients and μ in Appendix C.4, and μ of all activations by duals.

    That is 1 - σ̂'(0) / (σ̂(1) - σ̂(0)), beside its definition.
    """
    rho = np.array([-0.5, -0.25, 0.25, 0.5])  # 65 terms of a power series leave 1e-20
    for name, (function, printed, mu) in C4.items():
        row, series = partial(measurement, activation=name), expand(function)
        yield row("non_linearity", series.non_linearity, mu)
        right = np.exp(rho + 1) if name == "exponential" else printed(rho)
        yield row("dual_activation", series.dual(rho), printed(rho), right, at=rho)
        for k, terms in enumerate(zip(*SERIES.get(name, ()), strict=True)):
            yield row("dual_coefficient", series.coefficients[k] ** 2, *terms, at=k)
    for row, name in grid(activation=activations.names()):
        layer = CorrelationMap(name)
        by_dual, series = 1 - layer.slope(0.0) / (1 - layer(0.0)), expansion(activations.get(name))
        yield row("non_linearity_by_dual", by_dual, series.non_linearity)


def normrelu(setting: Setting) -> Measurements:
    """Measure λ, b, a_1 and μ of NormReLU beside the closed forms of Section 7 and Appendix C.4."""
    for row, kink in grid(at=(-3.0, CHOSEN, -0.5, 0.0, 1.0)):
        formula, series = NormReLU(kink), expand(partial(np.maximum, kink), kinks=(kink,))
        mean, a1 = series.coefficients[:2]
        scale, offset, mu = 1 / math.sqrt(series.bend + a1**2), kink - mean, series.non_linearity
        yield row("normrelu_scale", scale, formula.scale)
        yield row("normrelu_offset", offset, formula.offset)
        yield row("normrelu_non_linearity", mu, formula.non_linearity)
        if kink == CHOSEN:
            selu = activations.get("selu").slopes(np.ones(1)).item()
            yield row("chosen_scale", scale, 1.05)
            yield row("chosen_scale_over_selus", scale / selu, 1.0)
            yield row("chosen_offset", offset, -1.6209)
            yield row("chosen_mass_below", 1 - a1, 0.0551)  # E z σ = E σ' = 1 - Φ


def lengths(setting: Setting) -> Measurements:
    """Measure norms and bias of NormReLU, Appendix I.1, beside closed forms and constants."""
    sigma, formula = activations.normrelu(CHOSEN), NormReLU(CHOSEN)
    gamma = np.array([0.5, 0.75, 1.0, 1.5, 2.0])
    row, means = partial(measurement, at=gamma), [sigma.expectation(np.asarray, q=q) for q in gamma]
    squares, slopes = length_map(sigma, gamma), length_map_slope(sigma, gamma)
    yield row("normrelu_mean", means, formula.mean(gamma))
    yield row("normrelu_length_map", squares, formula.length_map(gamma))
    yield row("normrelu_length_map_slope", slopes, formula.length_map_slope(gamma))
    yield row("normrelu_bias", biases := bias(sigma, gamma), formula.bias(gamma))

    (half, *_, two), (low, *_, high), above = squares, biases, 1 - slopes[2]
    below = 2 * half - 1
    yield measurement("fact_1_length_map_at_half", half, 0.5399)
    yield measurement("fact_1_length_map_slope_at_one", 1 - above, 0.8428)
    yield measurement("fact_1_bias_at_half", low, 0.00086)
    yield measurement("fact_1_bias_at_two", high, 0.0029)
    yield measurement("fact_1_rate_below", below, 0.0798)
    yield measurement("fact_1_rate_above", above, 0.1572)
    yield measurement("fact_1_separation_needed", max(low / below, high / above), 0.0185)
    # the normalisation makes the mean 0 at γ = 1, which is printed as 1 and for every γ
    yield measurement("fact_1_mean_at_one", means[2], 1.0, 0.0)
    # γ_1⁺ from γ_0⁺ = 2, of which γ⁻ is printed, which begins at 1/2
    yield measurement("fact_1_norm_bound", two, 1 - (1 - above) / 2, 2 - above)

    gamma = np.linspace(0.5, 2, 151)
    squares, biases = length_map(sigma, gamma), bias(sigma, gamma)
    yield measurement("length_map_rise_min", np.diff(squares).min())
    yield measurement("length_map_bend_max", np.diff(squares, 2).max())
    yield measurement("bias_bend_min", np.diff(biases, 2).min())
    yield measurement("bias_argmin", gamma[np.argmin(biases)], 1.0)
    beside = np.abs(gamma - 1) > 1e-9
    gamma, squares, biases = gamma[beside], squares[beside], biases[beside]
    away, under = np.abs(gamma - 1), gamma < 1
    chords, limits = away * np.where(under, [[2 * low], [1 - below]], [[high], [1 - above]])
    yield measurement("bias_over_chord_max", np.max(biases / chords))
    yield measurement("length_map_over_bound_max", np.max(np.abs(squares - 1) / limits))

    gamma, total = np.array([0.5, 2.0]), np.zeros(2)
    for _ in range(2000):  # then norms are 1 in floats
        gamma, total = formula.length_map(gamma), total + formula.bias(gamma)
    yield measurement("bias_sum", total, 0.0185, at=[0.5, 2.0])


def same_output(setting: Setting) -> Measurements:
    """Measure Lemma 1: the difference of two networks' outputs, relative to the outputs.

    The networks share all parameters; one has σ, the other (σ - c)/s. ``at`` is added to variances.
    """
    width = min(setting.widths)
    depths = sorted({min(depth, 20) for depth in setting.depths})  # deeper, rounding decides
    keys = {"seed": setting.seeds, "depth": depths, "width": width, "n": N, "d": D}
    keys |= {"place": ("batch", "batch_and_output", "layer_after", "layer_before")}
    keys |= {"activation": ACTIVATIONS, "at": (0.0, 1e-5)}  # as the paper, and as torch
    for row, seed, depth, place, name, eps in grid(**keys):
        x = generator(seed, "data").standard_normal((N, D))
        init = generator(seed, "init")
        drawn = draw_weights(D, depth=depth, width=width, outputs=1, generator=init)
        weights = [weight.numpy() for weight in drawn]
        affine = init.uniform(0.5, 1.5, (depth, 2, width))
        one, other = (
            _output(x, weights, affine, activation, place, eps)
            for activation in (name, f"normalized_{name}")
        )
        yield row(f"same_output_{place}", np.linalg.norm(one - other) / np.linalg.norm(one))


def _output(
    x: Array, weights: list[Array], affine: Array, name: str, place: str, eps: float
) -> Array:
    """Return the outputs (n, 1) of a network with normalisation in a place."""
    axis = 0 if place.startswith("batch") else 1

    def standard(v: Array) -> Array:
        root = np.sqrt(v.var(axis, keepdims=True) + eps)
        return np.asarray((v - v.mean(axis, keepdims=True)) / root)

    alpha, activation = x, activations.get(name)
    for weight, (gain, shift) in zip(weights[:-1], affine, strict=True):
        z, root = alpha @ weight.T, math.sqrt(len(weight))
        if place != "layer_after":
            z = standard(z) * gain + shift
        alpha = activation.values(z) / root
        if place == "layer_after":  # gains of size 1/√m keep the next pre-activations of size 1
            alpha = (standard(alpha) * gain + shift) / root
    out = alpha @ weights[-1].T
    return standard(out) if place == "batch_and_output" else out


def proof(setting: Setting) -> Measurements:
    """Measure the means and deviations that the proof of Lemma 17 compares."""
    width = min(setting.widths)
    root = math.sqrt(width)
    for row, seed, name in grid(seed=setting.seeds, activation=ACTIVATIONS, width=width, n=N):
        x = generator(seed, "data").standard_normal((width, N))
        w = generator(seed, "init").standard_normal(width)
        sigma, tilde = activations.get(name), activations.get(f"normalized_{name}")
        c = sigma.expectation(np.asarray)
        s = math.sqrt(sigma.expectation(np.square) - c**2)
        v, other = (w @ activation.values(x) / root for activation in (sigma, tilde))
        mean, deviation = float(v.mean()), math.sqrt(np.mean((other - v.mean()) ** 2))
        right = (mean - c * float(w.sum()) / root) / s
        yield row("batch_mean", other.mean(), (mean - c) / s, right)
        yield row("batch_deviation", other.std(), deviation, v.std() / s)
        one, normed = (activation.values(x[:, 0]) / root for activation in (sigma, tilde))
        mean = float(one.mean())
        yield row("layer_mean", normed.mean(), (mean - c) / s, (mean - c / root) / s)


def one_layer(setting: Setting) -> Measurements:
    """Measure λ_min over δ^(3/2)/n³, Theorem 56, and rank and odd coefficients, Theorem 58.

    Of E ReLU(w·x)ReLU(w·x'); the rank is that of samples in a plane, and Σ a_k² over odd k >= 3.
    """
    layer, row = CorrelationMap("relu"), partial(measurement, activation="relu")

    def least(count: int, spacing: float) -> float:
        return float(np.linalg.eigvalsh(layer(_on_arc(count, spacing)) / 2)[0])  # E ReLU(z)² = 1/2

    for n, power in ((2, 1.0), (3, 1.5)):
        smallest = [least(n, math.acos(1 - delta)) for delta in DELTAS]
        yield row("features_over_bound", smallest / (DELTAS**1.5 / n**3), n=n, at=DELTAS)
        yield measurement("features_delta_exponent", exponent(DELTAS, smallest), 1.5, power, n=n)
    sizes, spacing = np.array([4, 8, 16, 32]), 0.05  # of neighbours
    smallest = [least(n, spacing) for n in sizes]
    bound = (1 - math.cos(spacing)) ** 1.5 / sizes**3
    yield row("features_over_bound", smallest / bound, n=sizes, at=spacing)
    yield measurement("features_n_exponent", exponent(sizes, smallest), -3.0, at=spacing)
    # Hermite coefficients: infinitely many of both parities, of one, and three in all
    names, n = ("normrelu", "selu", "relu", "gelu", "softplus", "tanh", correlations.QUADRATIC), 8
    for sigma in map(activations.get, names):
        row = partial(measurement, activation=sigma.name, n=n, d=2)
        kernel = CorrelationMap(sigma)(_on_arc(n, math.pi / n))  # no two of them opposite
        rank = np.linalg.matrix_rank(kernel, rtol=10 * n * np.finfo(float).eps, hermitian=True)
        yield row("one_layer_rank", rank)
        yield row("odd_coefficients", np.sum(expansion(sigma).coefficients[3::2] ** 2))


def _on_arc(n: int, spacing: float) -> Array:
    """Return the Gram matrix of samples on an arc, neighbours ``spacing`` radians apart."""
    angles = spacing * np.arange(n)
    return np.asarray(np.cos(np.subtract.outer(angles, angles)))


def good_event(setting: Setting) -> Measurements:
    """Measure Lemma 57 for random samples, and what the proof of Theorem 56 says of its event E.

    The event G is that |w·x_1| <= √δ/(10n) while all other |w·x_i| > √δ/(4n); its probability is
    that of the first, times the frequency of the rest given it. E is that θ|z| lies in [√δ/(9n),
    √δ/(5n)]. ``at`` is δ.
    """
    n, d, draws = 16, 8, 20_000
    for row, seed in grid(n=n, d=d, seed=setting.seeds):
        rng = generator(seed, "data")
        x = on_sphere(rng, n, d)
        delta = 1 - float(np.abs(x @ x.T - np.eye(n)).max())
        edge = math.sqrt(delta) / (10 * n)
        first = 2 * stats.norm.cdf(edge) - 1
        w = rng.standard_normal((draws, d))
        w -= (w @ x[0])[:, None] * x[0]  # the first event makes w·x_1 as good as 0
        rest = np.mean((np.abs(w @ x[1:].T) > 2.5 * edge).all(axis=1))
        yield row("good_event_over_bound", first * rest / (math.sqrt(delta) / (50 * n)))
        yield row("equation_27_over_bound", first / (math.sqrt(delta) / (25 * n)))
    z = np.abs(generator(setting.seeds[0], "data").standard_normal(draws))
    for row, delta in grid(at=(0.5, *DELTAS)):
        root = math.sqrt(delta)
        for name, theta in (("event_e", root / 5), ("event_e_lemma", delta**0.25 / 5)):
            yield row(name, np.mean((theta * z >= root / 9) & (theta * z <= root / 5)), 0.2)
