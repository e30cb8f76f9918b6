"""Features of one layer of plain ReLUs: Theorem 56 and Lemma 57."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap
from ntk_conditioning.claim_experiments.fits import exponent
from ntk_conditioning.claim_experiments.samples import on_sphere
from ntk_conditioning.seeds import generator

Array = NDArray[np.float64]

DELTAS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
SIZES = (4, 8, 16, 32)
SPACING = 0.05
"""Of neighbours on an arc, in radians."""
N, D, DRAWS = 16, 8, 20_000


def smallest_eigenvalue(setting: Setting) -> Iterator[Measurement]:
    """Measure Theorem 56 at infinite width: λ_min of E ReLU(w·x)ReLU(w·x'), unnormalised.

    For two samples, and for three in one plane, that come closer: over δ^(3/2)/n³, and with which
    power of δ it falls. For more samples on an arc at equal distances: with which power of n.
    """
    layer = CorrelationMap("relu")
    for count in (2, 3):
        smallest = []
        for delta in DELTAS:
            smallest.append(_least(layer, count, math.acos(1 - delta)))
            ratio = smallest[-1] / (delta**1.5 / count**3)
            yield Measurement("features_over_bound", ratio, activation="relu", n=count, at=delta)
        power = exponent(DELTAS, smallest)
        yield Measurement("features_delta_exponent", power, printed=1.5, n=count)
    smallest = [_least(layer, count, SPACING) for count in SIZES]
    for count, value in zip(SIZES, smallest, strict=True):
        ratio = value / ((1 - math.cos(SPACING)) ** 1.5 / count**3)
        yield Measurement("features_over_bound", ratio, n=count, activation="relu", at=SPACING)
    yield Measurement("features_n_exponent", exponent(SIZES, smallest), printed=-3.0, at=SPACING)


def _least(layer: CorrelationMap, count: int, spacing: float) -> float:
    """Return λ_min for samples on an arc, neighbours ``spacing`` apart."""
    angles = spacing * np.arange(count)
    gaps = np.abs(np.subtract.outer(angles, angles))
    after, _ = layer.cosine_distances(2 * np.sin(gaps / 2) ** 2)
    return float(np.linalg.eigvalsh((1 - after) / 2)[0])  # E ReLU(z)² = 1/2


def good_event(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemma 57 for random samples, and what the proof of Theorem 56 says of its event E.

    The event G is that |w·x_1| <= √δ/(10n) while all other |w·x_i| > √δ/(4n); its probability is
    that of the first, times the frequency of the rest given it, over √δ/(50n). E is that
    θ|z| lies in [√δ/(9n), √δ/(5n)], with probability at least 0.2: ``corrected`` with the proof's
    θ = √δ/(5n), ``printed`` with Lemma 57's θ = δ^(1/4)/(5n). ``at`` is δ.
    """
    for seed in setting.seeds:
        rng = generator(seed, "data")
        x = on_sphere(rng, N, D)
        delta = 1 - float(np.abs(x @ x.T - np.eye(N)).max())
        edge, theta = math.sqrt(delta) / (10 * N), math.sqrt(delta) / (5 * N)
        sd = math.sqrt(1 - theta**2)
        first = 2 * norm.cdf(edge / sd) - 1
        along = sd * norm.ppf(0.5 + first * (rng.random(DRAWS) - 0.5))
        across = rng.standard_normal((DRAWS, D))
        across -= (across @ x[0])[:, None] * x[0]
        others = (along[:, None] * x[0] + across) @ x[1:].T
        rest = float(np.mean((np.abs(others) > 2.5 * edge).all(axis=1)))
        value = first * rest / (math.sqrt(delta) / (50 * N))
        yield Measurement("good_event_over_bound", value, n=N, d=D, seed=seed)
    for delta in (0.5, *DELTAS):
        proof, lemma = (
            2 * float(norm.cdf(math.sqrt(delta) / 5 / t) - norm.cdf(math.sqrt(delta) / 9 / t))
            for t in (math.sqrt(delta) / 5, delta**0.25 / 5)
        )
        yield Measurement("event_e", proof, printed=0.2, at=delta)
        yield Measurement("event_e_lemma", lemma, printed=0.2, at=delta)
