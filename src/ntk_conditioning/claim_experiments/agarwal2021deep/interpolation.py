"""Minimum-norm interpolation with the top layer's kernel: Theorem 16, Lemmas 54 and 55.

Samples are uniform on the sphere in D dimensions, so that covariance operators and best predictors
follow from means over one correlation t, by Gauss and Jacobi's rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap
from ntk_conditioning.claim_experiments.fits import exponent
from ntk_conditioning.claim_experiments.samples import on_sphere
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.agarwal2021deep import separating_depth

Array = NDArray[np.float64]

D = 8
GAMMA = 0.1
ACTIVATION = "normalized_relu"
SIZES = (8, 16, 32, 64)
COVARIANCE_SIZES = (1, 2, 4, 16, 64, 256, 1024)
SIGNAL, NOISE = 0.25, 0.25
"""Targets are SIGNAL √D x_1 plus or minus NOISE, at most 1 in absolute value."""
LESS_DEEP = (1, 8)
"""Depths at which interpolation is looked at beside the theorem's."""
TESTS = 256


def covariance(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemma 54: ‖Σ‖ at the depth that it asks for, over 8 ln(N)/N; ``n`` is N."""
    layer = CorrelationMap(ACTIVATION)
    for n in COVARIANCE_SIZES:
        depth = interpolation_depth(n, layer.mu)
        bound = 8 * math.log(n) / n
        norm = max(_operator_eigenvalues(layer, depth))
        common: dict[str, Any] = {"activation": ACTIVATION, "depth": depth, "n": n, "d": D}
        yield Measurement("covariance_norm", norm, printed=bound, **common)


def interpolation_depth(n: int, mu: float) -> int:
    """Return the depth that Lemma 54 asks for with ``n`` samples; Theorem 16 asks it with n².

    Δ(n, GAMMA) is bounded from below by a union bound over pairs, whose cosines' squares follow a
    beta distribution. So the depth may be a few layers more than needed.
    """
    pairs = n * (n - 1) / 2
    far = 0.0
    if pairs:
        far = math.sqrt(stats.beta.isf(min(GAMMA / pairs, 1.0), 0.5, (D - 1) / 2))
    return math.ceil(math.log(n) / -math.log1p(-mu / 2)) + separating_depth(1 - far, mu)


def _operator_eigenvalues(layer: CorrelationMap, depth: int) -> list[float]:
    """Return the eigenvalues of Σ for harmonics of degree 0 to 4, E k(t) C_k(t) / C_k(1)."""
    order = (D - 3) / 2
    t, weights = special.roots_jacobi(60, order, order)
    values = weights / weights.sum() * layer.iterated(t, depth)
    index = D / 2 - 1
    return [
        float(values @ special.eval_gegenbauer(k, index, t) / special.eval_gegenbauer(k, index, 1))
        for k in range(5)
    ]


def excess_risk(setting: Setting) -> Iterator[Measurement]:
    """Measure Theorem 16: the excess risk of the interpolating predictor, at the depth it asks for.

    Targets are a linear function of x and noise, or noise alone, whose best predictor v* is 0.
    Printed beside it is log(n/γ)/n · |v*|², corrected the bound that the proof comes to,
    2 ‖Σ‖ |v*|² + 8n (1 + |v*|²) ‖Σ‖ with ‖Σ‖ <= 16 ln(n)/n² and |ε|² <= 2n (1 + |v*|²).
    ``…_over_zero`` are over the excess risk of predicting 0, SIGNAL².
    """
    layer = CorrelationMap(ACTIVATION)
    excesses = []
    for n in SIZES:
        depth = interpolation_depth(n**2, layer.mu)
        norm = SIGNAL**2 / _operator_eigenvalues(layer, depth)[1]
        common: dict[str, Any] = {"activation": ACTIVATION, "n": n, "d": D, "depth": depth}
        yield Measurement(
            "interpolation_bound_over_zero", math.log(n / GAMMA) / n * norm / SIGNAL**2, **common
        )
        risks = []
        for seed in setting.seeds:
            linear, noise, least, _ = _excess_risks(layer, seed, n, depth)
            risks.append(noise)
            yield Measurement("interpolation_lambda_min", least, seed=seed, **common)
            for name, value, size in (("linear", linear, norm), ("noise", noise, 0.0)):
                yield Measurement(
                    f"interpolation_excess_{name}",
                    value,
                    printed=math.log(n / GAMMA) / n * size,
                    corrected=(2 * size + 8 * n * (1 + size)) * 16 * math.log(n) / n**2,
                    seed=seed,
                    **common,
                )
            yield Measurement("interpolation_over_zero", linear / SIGNAL**2, seed=seed, **common)
            for less in LESS_DEEP:
                other: dict[str, Any] = {**common, "depth": less, "seed": seed}
                linear, _, _, bound = _excess_risks(layer, seed, n, less)
                yield Measurement("less_deep_over_zero", linear / SIGNAL**2, **other)
                yield Measurement("lemma_55_over_bound", linear / bound, **other)
        excesses.append(np.mean(risks))
    power = exponent(SIZES, excesses)
    yield Measurement("interpolation_noise_exponent", power, printed=-1.0, activation=ACTIVATION)


def _excess_risks(
    layer: CorrelationMap, seed: int, n: int, depth: int
) -> tuple[float, float, float, float]:
    """Return excess risks for linear targets with noise and for noise, λ_min of K̄, and a bound.

    Risks are means over fresh samples, of squared distances from the best predictors; the bound is
    Lemma 55's on the first, 2 v*ᵀBv* of the targets without noise and 2 εᵀCε of the noise.
    """
    rng = generator(seed, "data")
    x, fresh = (on_sphere(rng, count, D) for count in (n, TESTS))
    noise = rng.choice([-NOISE, NOISE], size=n)
    best, best_fresh = (SIGNAL * math.sqrt(D) * rows[:, 0] for rows in (x, fresh))
    gram = x @ x.T
    np.fill_diagonal(gram, 1.0)
    kernel = layer.iterated(gram, depth)
    weights = np.linalg.solve(kernel, np.stack([best, noise], axis=1))
    learned, spoilt = (layer.iterated(np.clip(fresh @ x.T, -1, 1), depth) @ weights).T
    missed, alone, linear = (
        float(np.mean(each**2))
        for each in (learned - best_fresh, spoilt, learned + spoilt - best_fresh)
    )
    # the mean of best_fresh² is SIGNAL² but for the draw
    scale = SIGNAL**2 / float(np.mean(best_fresh**2))
    least = float(np.linalg.eigvalsh(kernel)[0])
    return linear * scale, alone, least, 2 * (missed + alone) * scale
