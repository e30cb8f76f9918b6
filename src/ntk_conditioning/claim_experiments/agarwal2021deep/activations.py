"""Activations: the table of Appendix C.4, NormReLU of Section 7, its norms of Appendix I.

What is printed is compared with quadrature, and where a function has no derivative with the power
series that its Hermite coefficients make.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.duals.closed_forms import dual, pair_cosine_distances
from ntk_conditioning.duals.hermite import expand, expansion
from ntk_conditioning.duals.length_map import bias, length_map, length_map_slope
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.theory.agarwal2021deep import NormReLU

Array = NDArray[np.float64]

# Within, 65 terms of a power series leave 1e-20.
COSINES = (-0.5, -0.25, 0.25, 0.5)
KINKS = (-3.0, -1.5975, -0.5, 0.0, 1.0)
CHOSEN = -1.5975
# The squared norms of Appendix I.1: a grid, and some of its points.
GAMMAS = np.linspace(0.5, 2, 151)
SOME = (0.5, 0.75, 1.0, 1.5, 2.0)
LAYERS = 2000  # after which norms are 1 in floats


@dataclass(frozen=True)
class Row:
    """A row of the table in Appendix C.4, and its dual activation where that is misprinted."""

    function: Callable[[Array], NDArray[Any]]
    dual: Callable[[float], float]
    mu: float
    corrected: Callable[[float], float] | None = None


def _relu_dual(rho: float) -> float:
    return (math.sqrt(1 - rho**2) + (math.pi - math.acos(rho)) * rho) / (2 * math.pi)


C4 = {
    "identity": Row(lambda z: z, lambda rho: rho, 0.0),
    "hermite_2": Row(lambda z: (z**2 - 1) / math.sqrt(2), lambda rho: rho**2, 1.0),
    "relu": Row(lambda z: np.maximum(z, 0), _relu_dual, (math.pi - 2) / (2 * math.pi - 2)),
    "step": Row(
        lambda z: 1.0 * (z >= 0),
        lambda rho: (math.pi - math.acos(rho)) / (2 * math.pi),
        (math.pi - 2) / math.pi,
    ),
    "exponential": Row(
        np.exp,
        lambda rho: math.exp(rho + 3),
        (math.e - 2) / (math.e - 1),
        corrected=lambda rho: math.exp(rho + 1),
    ),
}
# The first terms of their power series, as far as they are printed.
SERIES = {
    "relu": np.array([2, math.pi, 2, 0, 1 / 12]) / (4 * math.pi),
    "step": np.array([math.pi, 2, 0, 1 / 3, 0, 3 / 20]) / (4 * math.pi),
    "exponential": np.exp(3) / np.array([1, 1, 2, 6]),
}
SERIES_CORRECTED = {
    "relu": np.array([2, math.pi, 1, 0, 1 / 12]) / (4 * math.pi),
    "step": SERIES["step"],
    "exponential": np.exp(1) / np.array([1, 1, 2, 6]),
}


def closed_forms(setting: Setting) -> Iterator[Measurement]:
    """Measure duals, their coefficients and μ of the functions in Appendix C.4."""
    for name, row in C4.items():
        series = expand(row.function)
        yield Measurement("non_linearity", series.non_linearity, printed=row.mu, activation=name)
        for rho in COSINES:
            right = row.corrected or row.dual
            yield Measurement(
                "dual_activation",
                float(series.dual(rho)),
                printed=row.dual(rho),
                corrected=right(rho),
                activation=name,
                at=rho,
            )
        for k, printed in enumerate(SERIES.get(name, ())):
            yield Measurement(
                "dual_coefficient",
                float(series.coefficients[k] ** 2),
                printed=float(printed),
                corrected=float(SERIES_CORRECTED[name][k]),
                activation=name,
                at=float(k),
            )


def non_linearity(setting: Setting) -> Iterator[Measurement]:
    """Measure μ = 1 - σ̂'(0) / (σ̂(1) - σ̂(0)), Appendix C.4, by duals, beside its definition."""
    for name in activations.names():
        sigma = activations.get(name)
        layer = dual(sigma, np.ones(1))
        w, h = pair_cosine_distances(layer, np.ones(1))  # at a right angle
        slope = float(layer.slopes[0]) * (1 - h.item())
        spread = float(layer.variances[0]) * w.item()
        yield Measurement(
            "non_linearity_by_dual",
            1 - slope / spread,
            printed=expansion(sigma).non_linearity,
            activation=name,
        )


def normrelu(setting: Setting) -> Iterator[Measurement]:
    """Measure λ, b, a_1 and μ of NormReLU beside the closed forms of Section 7 and Appendix C.4."""
    for kink in KINKS:
        formula, series = NormReLU(kink), expansion(_shifted_relu(kink))
        scale = 1 / math.sqrt(series.bend + series.coefficients[1] ** 2)
        for statement, value, printed in (
            ("normrelu_scale", scale, formula.scale),
            ("normrelu_offset", -float(series.coefficients[0]), formula.offset),
            ("normrelu_non_linearity", series.non_linearity, formula.non_linearity),
        ):
            yield Measurement(statement, value, printed=printed, at=kink)
    series = expansion(_shifted_relu(CHOSEN))
    scale = 1 / math.sqrt(series.bend + series.coefficients[1] ** 2)
    selu = activations.get("selu").slopes(np.ones(1)).item()
    for statement, value, printed in (
        ("chosen_scale", scale, 1.05),
        ("chosen_scale_over_selus", scale / selu, 1.0),
        ("chosen_offset", -float(series.coefficients[0]), -1.6209),
        ("chosen_mass_below", 1 - float(series.coefficients[1]), 0.0551),  # E z σ = E σ' = 1 - Φ
        ("chosen_non_linearity", series.non_linearity, 0.0156),
    ):
        yield Measurement(statement, value, printed=printed, at=CHOSEN)


def lengths(setting: Setting) -> Iterator[Measurement]:
    """Measure norms and bias of NormReLU, Appendix I.1, beside closed forms and constants."""
    sigma, formula = activations.normrelu(CHOSEN), NormReLU(CHOSEN)
    squares, biases = length_map(sigma, GAMMAS), bias(sigma, GAMMAS)
    for gamma in SOME:
        square, share = float(length_map(sigma, gamma)), float(bias(sigma, gamma))
        mean = sigma.expectation(lambda values: values, q=gamma)
        slope = float(length_map_slope(sigma, gamma))
        for statement, measured, closed_form in (
            ("normrelu_mean", mean, formula.mean),
            ("normrelu_length_map", square, formula.length_map),
            ("normrelu_length_map_slope", slope, formula.length_map_slope),
            ("normrelu_bias", share, formula.bias),
        ):
            yield Measurement(statement, measured, printed=float(closed_form(gamma)), at=gamma)

    half, two = float(length_map(sigma, 0.5)), float(length_map(sigma, 2.0))
    below, above = 2 * half - 1, 1 - float(length_map_slope(sigma, 1.0))
    low, high = float(bias(sigma, 0.5)), float(bias(sigma, 2.0))
    constants = {
        "length_map_at_half": (half, 0.5399, 0.5400),
        "length_map_slope_at_one": (1 - above, 0.8428, None),
        "bias_at_half": (low, 0.00086, None),
        "bias_at_two": (high, 0.0029, None),
        "rate_below": (below, 0.0798, 0.0800),
        "rate_above": (above, 0.1572, None),
        "separation_needed": (max(low / below, high / above), 0.0185, None),
        # the normalisation makes the mean 0 at γ = 1, which is printed as 1 and for every γ
        "mean_at_one": (sigma.expectation(lambda values: values), 1.0, 0.0),
        # γ_1⁺ from γ_0⁺ = 2, of which γ⁻ is printed, which begins at 1/2
        "norm_bound": (two, 1 + (1 - above) * (0.5 - 1), 1 + (1 - above) * (2 - 1)),
    }
    for name, (value, printed, corrected) in constants.items():
        yield Measurement(f"fact_1_{name}", value, printed=printed, corrected=corrected)

    yield Measurement("length_map_rise_min", float(np.diff(squares).min()))
    yield Measurement("length_map_bend_max", float(np.diff(squares, 2).max()))
    yield Measurement("bias_bend_min", float(np.diff(biases, 2).min()))
    yield Measurement("bias_argmin", float(GAMMAS[np.argmin(biases)]), printed=1.0)
    chords = np.where(GAMMAS < 1, 2 * low * (1 - GAMMAS), high * (GAMMAS - 1))
    away = np.abs(GAMMAS - 1) > 1e-9
    yield Measurement("bias_over_chord_max", float((biases[away] / chords[away]).max()))
    rates = np.where(GAMMAS < 1, 1 - below, 1 - above)
    kept = np.abs(squares - 1)[away] / (rates * np.abs(GAMMAS - 1))[away]
    yield Measurement("length_map_over_bound_max", float(kept.max()))
    for start in (0.5, 2.0):
        total, gamma = 0.0, start
        for _ in range(LAYERS):
            total += float(formula.bias(gamma))
            gamma = float(formula.length_map(gamma))
        yield Measurement("bias_sum", total, printed=0.0185, at=start)


def _shifted_relu(kink: float) -> Activation:
    """Return max(z - c, 0), without the constants that are to be found."""
    return Activation(
        "shifted_relu",
        function=lambda z: (z - kink).clamp(min=0),
        derivative=lambda z: (z > kink).to(z.dtype),
        kinks=(kink,),
    )
