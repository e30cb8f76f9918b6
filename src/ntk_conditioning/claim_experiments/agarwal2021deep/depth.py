"""Theorem 11 and Lemmas 35 and 36: correlations after many layers of any activation."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.correlations import NORMALIZED, UNCENTRED
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap
from ntk_conditioning.claim_experiments.fits import exponent
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.theory.agarwal2021deep import convergence_depth

Array = NDArray[np.float64]

SEPARATIONS = (0.5, 0.1, 1e-2, 1e-4)
LAYERS = 1000
SETTLED = 1e-12
"""Correlations are iterated until they change by less; rounding moves them by that."""
EPSILONS = (0.4, 0.1, 0.03, 0.01, 5e-3)
STEPS_OF_RHO = 21

#: σ = (h_0 + √2 h_1 + h_2) / 2, with which σ̂(ρ) = (1 + ρ)²/4: smooth, of slope 1 at ρ = 1.
QUADRATIC = Activation(
    "quadratic",
    function=lambda z: (1 + math.sqrt(2) * z + (z.square() - 1) / math.sqrt(2)) / 2,
    derivative=lambda z: (math.sqrt(2) + math.sqrt(2) * z) / 2,
    exact_gain=1.0,
)


def convergence(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemma 35: |σ̂^(L)(ρ) - ρ̄| over its bound, the largest over ρ and layers from L_0 on.

    Also Theorem 11's limit, and the rate at which ρ_L approaches it, beside σ̂'(ρ̄).
    """
    rho = np.concatenate(
        [np.linspace(-1 + delta, 1 - delta, STEPS_OF_RHO) for delta in SEPARATIONS]
    )
    for name in (*NORMALIZED, *UNCENTRED):
        layer = CorrelationMap(name)
        at, slope = layer.fixed_point, float(layer.slope(layer.fixed_point))
        path = np.abs(_path(layer, rho) - at)
        for delta, part in zip(SEPARATIONS, np.split(path, len(SEPARATIONS), axis=1), strict=True):
            distance = part.max(axis=1)
            yield Measurement("deep_distance", float(distance[-1]), activation=name, at=delta)
            if layer.a0 > 1e-9 and slope < 1 - 1e-9:
                first = convergence_depth(delta, at, layer.mu_tilde, layer.a0**2)
                base = max(1 - layer.mu_tilde * (1 - at) / 2, slope)
                beyond = distance[first:]
                bound = np.maximum(base ** np.arange(len(beyond)) * (1 + at) / 2, SETTLED)
                worst = float(np.max(beyond / bound, initial=0.0))
                yield Measurement("lemma_35_over_bound", worst, activation=name, at=delta)
        if slope < 1 - 1e-9:
            rate = _rate(path[:, -1])
            yield Measurement("deep_rate", rate, corrected=slope, activation=name)


def _path(layer: CorrelationMap, rho: Array) -> Array:
    """Return ρ after 0, 1, … layers, until nothing changes or LAYERS are done."""
    w = [1 - rho]
    for _ in range(LAYERS):
        w.append(layer.cosine_distances(w[-1])[0])
        if np.abs(w[-1] - w[-2]).max() < SETTLED / 10:
            break
    return np.asarray(1 - np.array(w))


def _rate(distance: Array) -> float:
    """Return by what factor a layer shrinks a small distance, between 1e-4 and 1e-8."""
    inside = np.flatnonzero((distance < 1e-4) & (distance > 1e-8))
    first, last = inside[0], inside[-1]
    return float((distance[last] / distance[first]) ** (1 / (last - first)))


def slow_convergence(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemma 36: how many layers take every ρ to 1 - ε if σ̂'(1) = 1, over its L_0.

    ``layers_to_one_exponent`` is that of 1/ε; the lemma gives O(log(1/ε)/ε).
    """
    maps = {"relu": CorrelationMap("relu"), "leaky_relu": CorrelationMap("leaky_relu")}
    for name, layer in {**maps, "quadratic": CorrelationMap(QUADRATIC)}.items():
        yield Measurement("slope_at_one", layer.slope_at_one, printed=1.0, activation=name)
        path = _path(layer, np.linspace(-1, 1, STEPS_OF_RHO)).min(axis=1)
        counts = []
        for epsilon in EPSILONS:
            needed = int(np.argmax(path >= 1 - epsilon))
            counts.append(needed)
            for statement, mu in (("lemma_36", layer.mu), ("lemma_36_proof", layer.mu_tilde)):
                promised = max(
                    math.ceil(math.log(2 / epsilon) / -math.log1p(-epsilon * mu / 2)),
                    math.ceil(1 / layer.a0**2),
                )
                yield Measurement(
                    f"{statement}_layers", needed / promised, activation=name, at=epsilon
                )
        power = exponent(1 / np.array(EPSILONS[2:]), counts[2:])
        yield Measurement("layers_to_one_exponent", power, activation=name)
