"""NormReLU on samples of any norm: Theorem 59 and its proof."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap
from ntk_conditioning.duals.closed_forms import angle_of, dual
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.agarwal2021deep import correlation_bound

Array = NDArray[np.float64]

NAME = "normrelu"
ALPHA, DELTA = 0.0798, 0.0185
"""α' and δ' as Theorem 59 prints them."""
NORMS = np.array([0.5, 1.0, 2.0])
"""Squared norms of samples, all pairs of which are taken."""
SEPARATIONS = (0.02, 0.05, 0.2, 1.0, 1.9)
EPSILONS = (1e-2, 1e-4)
EQUAL = 50
"""Layers after which squared norms are 1 up to 2e-4."""
BEYOND = 500
"""Layers after L̂ at which bounds are compared."""


def many_layers(setting: Setting) -> Iterator[Measurement]:
    """Measure Theorem 59: correlations from layer L̂ on over their bound, the largest over pairs.

    And the largest rise of |ρ| above its start in any layer, which the proof bounds by
    δ'. ``at`` is δ = 1 - ρ.
    """
    layer = CorrelationMap(NAME)
    firsts = {
        epsilon: math.ceil(2 / ALPHA * math.log(3 / min(epsilon, layer.mu / 4)))
        for epsilon in EPSILONS
    }
    rho = 1 - _cosine_distances(layer, max(firsts.values()) + BEYOND)
    for delta, path in zip(SEPARATIONS, rho.T, strict=True):
        common: dict[str, Any] = {"activation": NAME, "at": delta}
        for epsilon, first in firsts.items():
            layers = np.arange(len(rho) - first)
            # the bound is one-sided: of samples more than a right angle apart it is that of δ = 1
            bound = correlation_bound(layers, min(delta, 1.0) - DELTA, layer.mu / 2)
            largest = path[:, :, first:].max(axis=(0, 1))
            ratio = float(np.max(largest / (bound + DELTA * epsilon)))
            yield Measurement(f"theorem_59_epsilon_{epsilon:g}", ratio, depth=first, **common)
        rise = float(np.abs(path).max() - abs(1 - delta))
        yield Measurement("normrelu_rise", rise, printed=DELTA, **common)


def _cosine_distances(layer: CorrelationMap, layers: int) -> Array:
    """Return 1 - ρ after 0, 1, … layers (L, n, n, separations), of all pairs of NORMS."""
    sigma, q, every = activations.get(NAME), NORMS, slice(0, len(NORMS))
    path = [np.broadcast_to(SEPARATIONS, (len(q), len(q), len(SEPARATIONS)))]
    for number in range(layers):
        if number < EQUAL:
            step = dual(sigma, q)
            before = np.moveaxis(path[-1], -1, 0)
            after = [step.cosine_distances(every, every, w, angle_of(w))[0] for w in before]
            path.append(np.stack(after, axis=-1))
            q = step.variances
        else:
            path.append(layer.cosine_distances(path[-1])[0])
    return np.array(path)
