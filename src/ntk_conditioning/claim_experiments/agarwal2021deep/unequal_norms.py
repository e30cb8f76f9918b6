"""Two samples of any norms under an odd activation: Lemma 41, Theorems 12 and 42."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap, correlation_of
from ntk_conditioning.claim_experiments.agarwal2021deep.norms import contraction
from ntk_conditioning.duals.length_map import length_map
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import gaussian_mean, gaussian_nodes
from ntk_conditioning.theory.agarwal2021deep import correlation_bound, separating_depth

Array = NDArray[np.float64]

ODD = ("tanh", "erf")
NORMS = (0.5, 0.8, 1.0, 1.5, 4.0)
"""Squared norms |x|² and |y|²."""
PAIRS = tuple(itertools.combinations_with_replacement(NORMS, 2))
DELTAS = (0.01, 0.1, 0.5, 0.9)
ROUNDING = 1e-8
"""Of correlations by quadrature; below it bounds are not compared."""


def one_layer(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemma 41: a layer's correlation over its bound, the largest over pairs of norms.

    And over |ρ| itself, which it is to fall below. ``at`` is δ = 1 - |ρ|.
    """
    q, q2 = np.array(PAIRS).T
    for name in ODD:
        mu, mu2 = nonlinearity(name, q), nonlinearity(name, q2)
        for delta in DELTAS:
            after = np.abs(correlation_of(name, q, q2, 1 - delta))
            if delta <= 0.5:
                bound = np.sqrt((1 - (1 + mu / 2) * delta) * (1 - (1 + mu2 / 2) * delta))
            else:
                bound = np.sqrt((1 - mu / 2) * (1 - mu2 / 2)) * (1 - delta)
            common: dict[str, Any] = {"activation": name, "at": delta}
            yield Measurement("lemma_41_over_bound", float(np.max(after / bound)), **common)
            yield Measurement("lemma_41_over_rho", float(np.max(after / (1 - delta))), **common)


def nonlinearity(activation: str, gamma: Array) -> Array:
    """Return μ of Lemma 41 at squared norms ``gamma``, by quadrature of a_1."""
    sigma = activations.get(activation)
    z = gaussian_nodes()
    a1 = gaussian_mean(z * sigma.values(np.sqrt(gamma)[:, None] * z))
    return np.asarray(1 - sigma.gain**2 * a1**2 / length_map(sigma, gamma))


def near_norm_one(setting: Setting) -> Iterator[Measurement]:
    """Measure Eq. (20): the least μ for squared norms within μ/4 of 1, over μ/2."""
    for name in ODD:
        mu = CorrelationMap(name).mu
        gamma = np.linspace(1 - mu / 4, 1 + mu / 4, 21)
        least = float(nonlinearity(name, gamma).min())
        yield Measurement("near_one_mu", least / (mu / 2), activation=name)


def many_layers(setting: Setting) -> Iterator[Measurement]:
    """Measure Theorems 42 and 12: correlations from layer L̂ on over their bound B_{μ/2}.

    L̂ is log(…)/α_σ in Theorem 42 and α_σ log(…) in Theorem 12. Also how far squared norms are from
    1 after L̂ layers, over the μ/4 that the proof wants. The largest over pairs of norms; ``at`` is
    δ.
    """
    for name in ODD:
        alpha, layer = contraction(name), CorrelationMap(name)
        mu = layer.mu
        distance = np.array([max(abs(a - 1), abs(b - 1), mu / 4) for a, b in PAIRS])
        logs = np.log(4 * distance / mu)
        starts = {"theorem_42": logs / alpha, "theorem_12": logs * alpha}
        for delta in DELTAS:
            last = math.ceil(starts["theorem_42"].max()) + separating_depth(delta, mu / 2) + 40
            rho, norms = _propagated(name, layer, 1 - delta, last)
            layers = np.arange(last + 1)[:, None]
            for statement, first in starts.items():
                common: dict[str, Any] = {"activation": name, "at": delta}
                beyond = layers >= first
                bound = correlation_bound(np.maximum(layers - first, 0), delta, mu / 2)
                ratio = np.where(beyond & (bound > ROUNDING), np.abs(rho) / bound, 0)
                yield Measurement(f"{statement}_over_bound", float(ratio.max()), **common)
                if delta == DELTAS[0]:
                    far = np.where(beyond, np.abs(norms - 1).max(axis=2), 0).max()
                    yield Measurement(f"{statement}_norms", float(far) / (mu / 4), activation=name)


def _propagated(name: str, layer: CorrelationMap, rho: float, last: int) -> tuple[Array, Array]:
    """Return correlations (L, pairs) and squared norms (L, pairs, 2) after 0, 1, … layers."""
    sigma = activations.get(name)
    norms, rhos = [np.array(PAIRS)], [np.full(len(PAIRS), rho)]
    for _ in range(last):
        q, q2 = norms[-1].T
        if np.abs(norms[-1] - 1).max() > ROUNDING / 10:
            rhos.append(correlation_of(name, q, q2, rhos[-1]))
        else:
            rhos.append(layer(rhos[-1]))
        norms.append(length_map(sigma, norms[-1]))
    return np.array(rhos), np.array(norms)
