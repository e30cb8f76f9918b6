"""Lemmas 19, 21, 26, 31, 32, 33 and 34: what one layer does to a correlation ρ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap

Array = NDArray[np.float64]

NORMALIZED = (
    "normalized_relu",
    "normalized_sigmoid",
    "normalized_softplus",
    "normalized_gelu",
    "normrelu",
    "selu",
    "tanh",
    "erf",
)
"""Activations of mean 0, as Eq. (2) wants them; all maps take them times their gain."""
UNCENTRED = ("relu", "leaky_relu", "gelu", "sigmoid", "softplus")
NEAR = np.geomspace(1e-9, 1e-2, 29)
DELTAS = np.concatenate([NEAR, np.linspace(1e-2, 1.0, 199)])
"""1 - ρ, from nearly equal samples to samples at right angles."""


def normalized_maps(setting: Setting) -> Iterator[Measurement]:
    """Measure μ, and what one layer takes from ρ over what Lemmas 21 and 26 promise.

    What is taken is 1 - σ̂(ρ), and 1 - σ̂'(ρ)/σ̂'(1), without cancellation near ρ = 1. The opposite
    correlation is that of -ρ.
    """
    for name in NORMALIZED:
        layer = CorrelationMap(name)
        yield Measurement("normalized_mu", layer.mu, activation=name)
        taken, falls = layer.cosine_distances(DELTAS)
        opposite, opposite_falls = layer.cosine_distances(2 - DELTAS)
        promised = np.where(
            DELTAS <= 0.5,
            (1 + layer.mu / 2) * DELTAS,
            1 - (1 - layer.mu / 2) * (1 - DELTAS),
        )
        below = DELTAS < 1  # at ρ = 0 both sides are 0
        for statement, ratio in (
            ("lemma_21_taken", np.min(taken / promised)),
            ("lemma_21_opposite", np.max(np.abs(1 - opposite[below]) / (1 - taken[below]))),
            ("lemma_26_taken", np.min(falls / (layer.mu * DELTAS))),
            ("lemma_26_opposite", np.min(opposite_falls / (layer.mu * DELTAS))),
        ):
            yield Measurement(statement, float(ratio), activation=name)
        yield from _series_of_slope(name, layer)


def _series_of_slope(name: str, layer: CorrelationMap) -> Iterator[Measurement]:
    """Compare σ̂'(ρ)/σ̂'(1) with the series in Lemma 26's proof, printed with ρ^i for ρ^(i-1)."""
    for rho in (0.25, 0.5, 0.75):
        value = float(layer.slope(rho)) / layer.slope_at_one
        a1 = layer.a1**2
        yield Measurement(
            "slope_series",
            value,
            printed=(a1 + rho * (value * layer.slope_at_one - a1)) / layer.slope_at_one,
            activation=name,
            at=rho,
        )


def convexity(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemma 31: the least slope of σ̂ on [0, 1] and the least change of its slope.

    Differences of σ̂ itself stand for its slope.
    """
    rho = np.linspace(0, 1, 401)
    for name in (*NORMALIZED, *UNCENTRED):
        steps = np.diff(CorrelationMap(name)(rho)) / np.diff(rho)
        yield Measurement("map_slope_min", float(steps.min()), activation=name)
        yield Measurement("map_slope_change_min", float(np.diff(steps).min()), activation=name)


def fixed_points(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemmas 30, 32, 33 and 34 for activations that need not have mean 0."""
    for name in (*NORMALIZED, *UNCENTRED):
        layer = CorrelationMap(name)
        at, mu = layer.fixed_point, layer.mu_tilde
        yield Measurement("mu_tilde", mu, activation=name)
        yield Measurement("fixed_point", at, activation=name)
        yield Measurement("fixed_point_slope", float(layer.slope(at)), activation=name, at=at)
        yield Measurement("fixed_points_below_one", _crossings(layer), activation=name)
        share = np.linspace(0, 1, 201)[1:-1]
        rho = share + (1 - share) * at
        gap = 1 - at
        if gap:
            margin = (rho - layer(rho)) / (share * (1 - share) * gap**2) - mu
            yield Measurement("lemma_32_margin", float(margin.min()), activation=name)
        for case, margins in _lemma_34(layer).items():
            if margins.size:
                least = float(margins.min())
                yield Measurement("lemma_34_margin", least, activation=name, at=float(case))


def _crossings(layer: CorrelationMap) -> float:
    """Count the changes of sign of σ̂(ρ) - ρ in (0, 1), with 0 itself if it is fixed."""
    rho = np.linspace(1e-6, 1 - 1e-6, 4001)
    above = layer(rho) > rho
    return float(np.count_nonzero(above[1:] != above[:-1]) + (layer.fixed_point == 0))


def _lemma_34(layer: CorrelationMap) -> dict[int, Array]:
    """Return by how much each case of Lemma 34 exceeds what it bounds, over the distance."""
    at, mu = layer.fixed_point, layer.mu_tilde
    middle = (1 + at) / 2
    common: dict[int, Array] = {}
    delta = (1 - middle) * np.concatenate([NEAR, np.linspace(0.02, 1, 99)])
    common[1] = (layer.cosine_distances(delta)[0] - delta * (1 + mu / 2 * (1 - at))) / (1 - at or 1)
    rho = np.linspace(at, middle, 101)[1:-1]
    slope = 1 - mu / 2 * (1 - at)
    common[2] = slope * np.abs(rho - at) - np.abs(layer(rho) - at)
    rho = np.linspace(0, at, 101)[:-1] if at else np.empty(0)
    common[3] = float(layer.slope(at)) * np.abs(rho - at) - np.abs(layer(rho) - at)
    rho = -np.linspace(0, 1, 101)[1:]
    after = layer(rho)
    bounds = np.minimum(layer(-rho) - np.abs(after), after - rho - float(layer(0.0)))
    common[4] = bounds
    return common
