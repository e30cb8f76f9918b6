"""Gaussian matrices of growing size: Lemmas C.1, D.1, D.2 and D.3, and Eqs. (46) and (47)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.fits import exponent, rms
from ntk_conditioning.seeds import generator

SIZES = (256, 1024, 4096)
DEGREES = (10.0, 60.0, 120.0)
TRIALS = 4000
COPIES = 40
"""Matrices of each size for each seed."""


def _generators(setting: Setting) -> Iterator[np.random.Generator]:
    for seed in setting.seeds:
        for copy in range(COPIES):
            yield generator(seed + 1000 * copy, "init")


def gaussian_gram(setting: Setting) -> Iterator[Measurement]:
    """Measure how A^T A / m of Lemma C.1 approaches the identity, entry by entry."""
    deviations = []
    for m in SIZES:
        grams = []
        for rng in _generators(setting):
            a = rng.standard_normal((m, 16))
            grams.append(a.T @ a / m - np.eye(16))
        entries = np.array(grams)
        off = ~np.eye(16, dtype=bool)
        deviations.append(rms(entries))
        yield Measurement("gaussian_gram", deviations[-1], width=m, d=16)
        for name, mask, variance in (("diagonal", ~off, 2.0), ("off_diagonal", off, 1.0)):
            yield Measurement(
                f"gaussian_gram_{name}_variance",
                rms(entries[:, mask]) ** 2,
                printed=variance / m,
                width=m,
                d=16,
            )
    yield Measurement("gaussian_gram_exponent", exponent(SIZES, deviations), d=16)
    yield from _chebyshev(setting)


def _chebyshev(setting: Setting) -> Iterator[Measurement]:
    """Measure the probability that Eq. (47) bounds, of a diagonal entry and eps of its spread.

    Chebyshev's inequality divides the variance by eps², Eq. (47) by eps.
    """
    m = 256
    variance = 2 / m
    eps = math.sqrt(variance)
    ratios = generator(setting.seeds[0], "init").chisquare(m, size=TRIALS) / m
    yield Measurement(
        "chebyshev",
        float(np.mean(np.abs(ratios - 1) >= eps)),
        printed=variance / eps,
        corrected=variance / eps**2,
        width=m,
        n=TRIALS,
        at=eps,
    )


def lemmas(setting: Setting) -> Iterator[Measurement]:
    """Measure the limits of Lemmas D.1 to D.3 and how they are approached."""
    for degrees in DEGREES:
        theta = math.radians(degrees)
        v1, v2 = np.array([2.0, 0.0]), np.array([math.cos(theta), math.sin(theta)])
        limits = {
            "lemma_d1": 0.5 - theta / (2 * math.pi),
            "lemma_d2": 2 * ((math.pi - theta) * math.cos(theta) + math.sin(theta)) / math.pi,
            "lemma_d3": (math.pi - theta) / math.pi,
        }
        deviations: dict[str, list[float]] = {name: [] for name in limits}
        for q in SIZES:
            drawn: dict[str, list[float]] = {name: [] for name in limits}
            for rng in _generators(setting):
                w, u = rng.standard_normal((q, 2)), rng.standard_normal((4, q))
                z1, z2 = w @ v1, w @ v2
                both = (z1 >= 0) & (z2 >= 0)
                drawn["lemma_d1"].append(float(both.mean()))
                drawn["lemma_d2"].append(float(2 / q * np.maximum(z1, 0) @ np.maximum(z2, 0)))
                drawn["lemma_d3"].append(float(np.trace(2 / q * (u * both) @ u.T) / 4))
            for name, limit in limits.items():
                deviations[name].append(rms(np.array(drawn[name]) - limit))
                yield Measurement(
                    name,
                    float(np.mean(drawn[name])),
                    printed=limit,
                    width=q,
                    at=degrees,
                )
        for name, values in deviations.items():
            yield Measurement(f"{name}_exponent", exponent(SIZES, values), at=degrees)
