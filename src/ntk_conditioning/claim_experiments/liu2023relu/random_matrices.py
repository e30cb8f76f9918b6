"""Gaussian matrices of growing size: Lemmas C.1, D.1, D.2 and D.3, and Eqs. (46) and (47)."""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from ntk_conditioning.claim_experiments import Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import exponent, rms
from ntk_conditioning.seeds import generator

SIZES = (256, 1024, 4096)
TRIALS = 4000
COPIES, GRAMS = 8, 100  # matrices of each size for each seed
HEIGHTS, COLUMNS = (128, 512, 2048), 32  # of Gaussian matrices


def _generators(setting: Setting, copies: int) -> Iterator[np.random.Generator]:
    for seed in setting.seeds:
        for copy in range(copies):
            yield generator(seed + 1000 * copy, "init")


def gaussian_gram(setting: Setting) -> Measurements:
    """Measure how A^T A / m of Lemma C.1 approaches the identity, entry by entry.

    And the probability that Eq. (47) bounds, of a diagonal entry and eps of 1, 1.5 and 2 of its
    standard deviations: Chebyshev's inequality divides the variance by eps², Eq. (47) by eps.
    """
    deviations = []
    identity = np.eye(COLUMNS)
    off = identity == 0
    for m in HEIGHTS:
        row = partial(Measurement, width=m, d=COLUMNS)
        samples = (rng.standard_normal((m, COLUMNS)) for rng in _generators(setting, GRAMS))
        entries = np.array([a.T @ a / m - identity for a in samples])
        deviations.append(rms(entries))
        yield row("gaussian_gram", deviations[-1])
        yield row("gaussian_gram_diagonal_variance", rms(entries[:, ~off]) ** 2, 2 / m)
        yield row("gaussian_gram_off_diagonal_variance", rms(entries[:, off]) ** 2, 1 / m)
    yield Measurement("gaussian_gram_exponent", exponent(HEIGHTS, deviations), d=COLUMNS)
    m = 256
    variance = 2 / m
    ratios = generator(setting.seeds[0], "init").chisquare(m, size=TRIALS) / m
    for deviations_away in (1.0, 1.5, 2.0):
        eps = deviations_away * math.sqrt(variance)
        row = partial(Measurement, width=m, n=TRIALS, at=eps)
        beyond = np.mean(np.abs(ratios - 1) >= eps)
        yield row("chebyshev", beyond, variance / eps, variance / eps**2)


def lemmas(setting: Setting) -> Measurements:
    """Measure the limits of Lemmas D.1 to D.3 and how they are approached."""
    for degrees in (10.0, 60.0, 120.0):
        theta = math.radians(degrees)
        v1, v2 = np.array([2.0, 0.0]), np.array([math.cos(theta), math.sin(theta)])
        limits = {
            "lemma_d1": 0.5 - theta / (2 * math.pi),
            "lemma_d2": 2 * ((math.pi - theta) * math.cos(theta) + math.sin(theta)) / math.pi,
            "lemma_d3": (math.pi - theta) / math.pi,
            "lemma_d3_off_diagonal": 0.0,
        }
        deviations: dict[str, list[float]] = {name: [] for name in limits}
        for q in SIZES:
            draws = []
            for rng in _generators(setting, COPIES):
                w, u = rng.standard_normal((q, 2)), rng.standard_normal((4, q))
                z1, z2 = w @ v1, w @ v2
                both = (z1 >= 0) & (z2 >= 0)
                product = 2 / q * np.maximum(z1, 0) @ np.maximum(z2, 0)
                a = 2 / q * (u * both) @ u.T
                draws.append(
                    (both.mean(), product, np.trace(a) / 4, rms(a[~np.eye(4, dtype=bool)]))
                )
            for (name, limit), values in zip(limits.items(), np.transpose(draws), strict=True):
                deviations[name].append(rms(values - limit))
                yield Measurement(name, values.mean(), limit, width=q, at=degrees)
        for name, falls in deviations.items():
            yield Measurement(f"{name}_exponent", exponent(SIZES, falls), at=degrees)
