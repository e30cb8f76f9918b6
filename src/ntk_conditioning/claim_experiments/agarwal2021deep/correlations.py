"""Correlations ρ after one layer (Lemmas 19 to 34) and after many (Theorem 11, Lemmas 35, 36)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap
from ntk_conditioning.claim_experiments.numerics import exponent
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.theory.agarwal2021deep import convergence_depth

#: Activations of mean 0, as Eq. (2) wants them; all maps take them times their gain.
NORMALIZED = (
    *("normalized_relu", "normalized_sigmoid", "normalized_softplus", "normalized_gelu"),
    *("normrelu", "selu", "tanh", "erf"),
)
ACTIVATIONS = (*NORMALIZED, "relu", "leaky_relu", "gelu", "sigmoid", "softplus")
#: 1 - ρ, from nearly equal samples to samples at right angles.
NEAR = np.geomspace(1e-9, 1e-2, 29)
DELTAS = np.concatenate([NEAR, np.linspace(1e-2, 1.0, 199)])

SEPARATIONS = (0.5, 0.1, 1e-2, 1e-4)
LAYERS = 1000
#: Correlations are iterated until they change by less; rounding moves them by that.
SETTLED = 1e-12
EPSILONS = (0.4, 0.1, 0.03, 0.01, 5e-3)
STEPS_OF_RHO = 21
#: σ = (h_0 + √2 h_1 + h_2) / 2, with which σ̂(ρ) = (1 + ρ)²/4: smooth, of slope 1 at ρ = 1.
QUADRATIC = Activation(
    "quadratic",
    function=lambda z: (1 + math.sqrt(2) * z + (z.square() - 1) / math.sqrt(2)) / 2,
    derivative=lambda z: (math.sqrt(2) + math.sqrt(2) * z) / 2,
    exact_gain=1.0,
)


def normalized_maps(setting: Setting) -> Measurements:
    """Measure μ, and what one layer takes from ρ over what Lemmas 21 and 26 promise.

    What is taken is 1 - σ̂(ρ), and 1 - σ̂'(ρ)/σ̂'(1), without cancellation near ρ = 1. The opposite
    correlation is that of -ρ. Also the series of σ̂'(ρ)/σ̂'(1) in Lemma 26's proof, printed with
    ρ^i for ρ^(i-1).
    """
    for name in NORMALIZED:
        layer, row = CorrelationMap(name), partial(Measurement, activation=name)
        mu = layer.mu
        yield row("normalized_mu", mu)
        taken, falls = layer.cosine_distances(DELTAS)
        opposite, opposite_falls = layer.cosine_distances(2 - DELTAS)
        far = 1 - (1 - mu / 2) * (1 - DELTAS)
        promised = np.where(DELTAS <= 0.5, (1 + mu / 2) * DELTAS, far)
        below = DELTAS < 1  # at ρ = 0 both sides are 0
        yield row("lemma_21_taken", np.min(taken / promised))
        ratios = np.abs(1 - opposite[below]) / (1 - taken[below])
        yield row("lemma_21_opposite", np.max(ratios))
        yield row("lemma_26_taken", np.min(falls / (mu * DELTAS)))
        yield row("lemma_26_opposite", np.min(opposite_falls / (mu * DELTAS)))
        for rho in (0.25, 0.5, 0.75):
            value, a1 = float(layer.slope(rho)) / layer.slope_at_one, layer.a1**2
            printed = (a1 + rho * (value * layer.slope_at_one - a1)) / layer.slope_at_one
            yield row("slope_series", value, printed, at=rho)


def convexity(setting: Setting) -> Measurements:
    """Measure Lemma 31: the least slope of σ̂ on [0, 1] and its least change, by differences."""
    rho = np.linspace(0, 1, 401)
    for name in ACTIVATIONS:
        steps = np.diff(CorrelationMap(name)(rho)) / np.diff(rho)
        yield Measurement("map_slope_min", steps.min(), activation=name)
        yield Measurement("map_slope_change_min", np.diff(steps).min(), activation=name)


def fixed_points(setting: Setting) -> Measurements:
    """Measure Lemmas 30, 32, 33 and 34 for activations that need not have mean 0."""
    for name in ACTIVATIONS:
        layer, row = CorrelationMap(name), partial(Measurement, activation=name)
        at, mu = layer.fixed_point, layer.mu_tilde
        yield row("mu_tilde", mu)
        yield row("fixed_point", at)
        yield row("fixed_point_slope", layer.slope(at), at=at)
        rho = np.linspace(1e-6, 1 - 1e-6, 4001)
        above = layer(rho) > rho
        crossings = np.count_nonzero(above[1:] != above[:-1])
        yield row("fixed_points_below_one", crossings + (at == 0))  # with 0 itself if it is fixed
        share = np.linspace(0, 1, 201)[1:-1]
        rho = share + (1 - share) * at
        if gap := 1 - at:
            margin = (rho - layer(rho)) / (share * (1 - share) * gap**2) - mu
            yield row("lemma_32_margin", margin.min())
        for case, margins in enumerate(_lemma_34(layer), start=1):
            if margins.size:
                yield row("lemma_34_margin", margins.min(), at=case)


def _lemma_34(layer: CorrelationMap) -> Iterator[Array]:
    """Yield by how much each case of Lemma 34 exceeds what it bounds, over the distance."""
    at, mu = layer.fixed_point, layer.mu_tilde
    middle = (1 + at) / 2
    delta = (1 - middle) * np.concatenate([NEAR, np.linspace(0.02, 1, 99)])
    yield (layer.cosine_distances(delta)[0] - delta * (1 + mu / 2 * (1 - at))) / (1 - at or 1)
    rho = np.linspace(at, middle, 101)[1:-1]
    yield (1 - mu / 2 * (1 - at)) * np.abs(rho - at) - np.abs(layer(rho) - at)
    rho = np.linspace(0, at, 101)[:-1] if at else np.empty(0)
    yield float(layer.slope(at)) * np.abs(rho - at) - np.abs(layer(rho) - at)
    rho = -np.linspace(0, 1, 101)[1:]
    after = layer(rho)
    yield np.minimum(layer(-rho) - np.abs(after), after - rho - float(layer(0.0)))


def convergence(setting: Setting) -> Measurements:
    """Measure Lemma 35: |σ̂^(L)(ρ) - ρ̄| over its bound, the largest over ρ and layers from L_0 on.

    Also Theorem 11's limit, and the rate at which ρ_L approaches it, beside σ̂'(ρ̄).
    """
    rho = np.concatenate([np.linspace(-1 + gap, 1 - gap, STEPS_OF_RHO) for gap in SEPARATIONS])
    for name in ACTIVATIONS:
        layer, row = CorrelationMap(name), partial(Measurement, activation=name)
        at, slope = layer.fixed_point, float(layer.slope(layer.fixed_point))
        path = np.abs(_path(layer, rho) - at)
        for delta, part in zip(SEPARATIONS, np.split(path, len(SEPARATIONS), axis=1), strict=True):
            distance = part.max(axis=1)
            yield row("deep_distance", distance[-1], at=delta)
            if layer.a0 > 1e-9 and slope < 1 - 1e-9:
                beyond = distance[convergence_depth(delta, at, layer.mu_tilde, layer.a0**2) :]
                base = max(1 - layer.mu_tilde * (1 - at) / 2, slope)
                bound = np.maximum(base ** np.arange(len(beyond)) * (1 + at) / 2, SETTLED)
                yield row("lemma_35_over_bound", np.max(beyond / bound, initial=0.0), at=delta)
        if slope < 1 - 1e-9:
            last = path[:, -1]
            inside = np.flatnonzero((last < 1e-4) & (last > 1e-8))
            start, end = inside[0], inside[-1]
            yield row("deep_rate", (last[end] / last[start]) ** (1 / (end - start)), None, slope)


def _path(layer: CorrelationMap, rho: Array) -> Array:
    """Return ρ after 0, 1, … layers, until nothing changes or LAYERS are done."""
    w = [1 - rho]
    for _ in range(LAYERS):
        w.append(layer.cosine_distances(w[-1])[0])
        if np.abs(w[-1] - w[-2]).max() < SETTLED / 10:
            break
    return np.asarray(1 - np.array(w))


def slow_convergence(setting: Setting) -> Measurements:
    """Measure Lemma 36: how many layers take every ρ to 1 - ε if σ̂'(1) = 1, over its L_0.

    ``layers_to_one_exponent`` is that of 1/ε; the lemma gives O(log(1/ε)/ε).
    """
    for activation in ("relu", "leaky_relu", QUADRATIC):
        name = activation if isinstance(activation, str) else activation.name
        layer, row = CorrelationMap(activation), partial(Measurement, activation=name)
        yield row("slope_at_one", layer.slope_at_one, 1.0)
        path = _path(layer, np.linspace(-1, 1, STEPS_OF_RHO)).min(axis=1)
        counts = [int(np.argmax(path >= 1 - epsilon)) for epsilon in EPSILONS]
        for epsilon, count in zip(EPSILONS, counts, strict=True):
            for statement, mu in (("lemma_36", layer.mu), ("lemma_36_proof", layer.mu_tilde)):
                near = math.ceil(math.log(2 / epsilon) / -math.log1p(-epsilon * mu / 2))
                promised = max(near, math.ceil(1 / layer.a0**2))
                yield row(f"{statement}_layers", count / promised, at=epsilon)
        power = exponent(1 / np.array(EPSILONS[2:]), counts[2:])
        yield row("layers_to_one_exponent", power)


EXPERIMENTS = (normalized_maps, convexity, fixed_points, convergence, slow_convergence)
