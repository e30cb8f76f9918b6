"""The length map σ̂_l(γ) = E σ(√γ z)²: Theorem 37, Lemma 39, Eq. (14) and Appendix D.4."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.duals.length_map import length_map, length_map_slope
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation

Array = NDArray[np.float64]

CONVEX_CONCAVE = ("tanh", "erf", "relu", "leaky_relu", "selu")
"""Concave on R+, convex on R-, and 0 at 0, as Theorem 37 and Lemma 39 want them."""
NAMED = (*CONVEX_CONCAVE, "sigmoid")
"""Those of which Appendix D.4 says so."""
GAMMA = np.geomspace(1e-3, 1e3, 401)
STARTS = (0.5, 0.6, 0.8, 0.95, 1.05, 1.25, 2.0, 4.0, 16.0)
SHIFTED = Activation(
    "shifted_relu",
    function=lambda z: z.clamp(min=0) - 1,
    derivative=lambda z: (z > 0).to(z.dtype),
    kinks=(0.0,),
)
VARIANCES = (2.1, 2.5, 2.9, 3.5)
"""Variances of weights with which Poole et al.'s length map of the shifted ReLU is looked at."""


def contraction(activation: str) -> float:
    """Return α_σ of Theorem 37, by quadrature of both of its expectations."""
    sigma = activations.get(activation)
    half, slope = float(length_map(sigma, 0.5)), float(length_map_slope(sigma, 1.0))
    return min(2 * half - 1, 1 - slope)


def convergence(setting: Setting) -> Iterator[Measurement]:
    """Measure Theorem 37: |k̄(x, x) - 1| after L layers, over its bound.

    ``length_squared`` is |k̄(x, x)² - 1|, printed beside ||x|² - 1|². ``at`` is |x|².
    """
    for name in CONVEX_CONCAVE:
        alpha = contraction(name)
        yield Measurement("alpha", alpha, activation=name)
        sigma = activations.get(name)
        for start in STARTS:
            gamma = start
            for depth in range(1, max(setting.depths) + 1):
                gamma = float(length_map(sigma, gamma))
                if depth in setting.depths:
                    shrunk = (1 - alpha) ** depth
                    common: dict[str, Any] = {"activation": name, "depth": depth, "at": start}
                    shrunk = (1 - alpha) ** depth
                    yield Measurement(
                        "length", abs(gamma - 1), corrected=shrunk * abs(start - 1), **common
                    )
                    squared = shrunk * (start - 1) ** 2
                    yield Measurement("length_squared", abs(gamma**2 - 1), squared, **common)


def shape(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemma 39: the least slope of σ̂_l on R+ and the largest change of its slope.

    Differences stand for derivatives, relative to the slope. Also what the proof says of
    (σ'(z) z)² - σ(z) σ'(z) z: it prints >= 0 and then shows <= 0.
    """
    for name in NAMED:
        sigma = activations.get(name)
        values = length_map(sigma, GAMMA)
        slopes = np.diff(values) / np.diff(GAMMA)
        bends = np.diff(slopes) / slopes[:-1]
        yield Measurement("length_slope_min", float(slopes.min()), activation=name)
        yield Measurement("length_bend_max", float(bends.max()), activation=name)
        zero = float(sigma.values(np.zeros(1))[0])
        yield Measurement("activation_at_zero", abs(zero), printed=0.0, activation=name)
        z = np.linspace(-4, 4, 401)
        value, slope = sigma.values(z), sigma.slopes(z)
        sign = slope**2 * z**2 - value * slope * z
        yield Measurement("lemma_39_least", float(sign.min()), activation=name)
        yield Measurement("lemma_39_largest", float(sign.max()), activation=name)


def hermite_basis(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemma 40: E h_2^γ(z) h_2^γ'(z') of correlated variables of variances γ and γ'.

    The lemma gives ρ². Eq. (14) prints exp(tz - γ² t²/2), whose H_2 is z² - γ²; with γ for γ² it is
    z² - γ. ``at`` is γ', and γ is 1/2.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    weights = np.outer(weights, weights) / (2 * math.pi)
    gamma, rho = 0.5, 0.6
    first = math.sqrt(gamma) * nodes[:, None]
    for other in (0.5, 1.0, 2.0):
        mixed = rho * nodes[:, None] + math.sqrt(1 - rho**2) * nodes
        second = math.sqrt(other) * mixed
        for name, power in (("hermite_product_printed", 2), ("hermite_product", 1)):
            h = (first**2 - gamma**power) / (gamma * math.sqrt(2))
            k = (second**2 - other**power) / (other * math.sqrt(2))
            value = float(np.sum(weights * h * k))
            yield Measurement(name, value, corrected=rho**2, at=other)


def shifted_relu(setting: Setting) -> Iterator[Measurement]:
    """Count fixed points of the length map of max(x, 0) - 1, Appendix D.4's counter-example.

    At E σ² = 1, which the paper assumes throughout, and, ``at`` being the weights' variance, in
    Poole et al.'s setting of any variance. With one fixed point, the largest distance from 1 after
    many layers is measured too, and the least slope of the map.
    """
    common: dict[str, Any] = {"activation": SHIFTED.name}
    scale = SHIFTED.gain**2
    yield Measurement("length_fixed_points", _fixed_points(1.0), at=scale, **common)
    slopes = np.diff(length_map(SHIFTED, GAMMA)) / np.diff(GAMMA)
    yield Measurement("shifted_slope_min", float(slopes.min()), **common)
    gamma = GAMMA[::40]
    for _ in range(400):
        gamma = length_map(SHIFTED, gamma)
    yield Measurement("shifted_distance", float(np.abs(gamma - 1).max()), depth=400, **common)
    for variance in VARIANCES:
        count = _fixed_points(variance / scale)
        yield Measurement("length_fixed_points", count, at=variance, **common)


def _fixed_points(factor: float) -> float:
    """Count the γ at which ``factor`` times the length map meets γ, each found as a root."""

    def rise(log: float) -> float:
        return factor * float(length_map(SHIFTED, math.exp(log))) / math.exp(log) - 1

    grid = np.linspace(math.log(1e-3), math.log(1e9), 250)  # 1 is not among them
    signs = np.sign([rise(float(log)) for log in grid])
    roots = [
        brentq(rise, float(grid[k]), float(grid[k + 1]))
        for k in np.flatnonzero(signs[1:] != signs[:-1])
    ]
    return float(len(roots))
