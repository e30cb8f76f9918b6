"""Minimum-norm interpolation with the top layer's kernel, and features of one layer.

Samples are uniform on the sphere in D dimensions: covariance operators and best predictors follow
from means over one correlation t, by Gauss and Jacobi's rule.
"""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy import special, stats

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid, measurement
from ntk_conditioning.claim_experiments.agarwal2021deep import correlations
from ntk_conditioning.claim_experiments.agarwal2021deep.correlations import CorrelationMap
from ntk_conditioning.claim_experiments.numerics import exponent, gram_matrix, on_sphere
from ntk_conditioning.duals.hermite import expansion
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.agarwal2021deep import separating_depth

D = 8
GAMMA = 0.1
ACTIVATION = "normalized_relu"
SIZES = (8, 16, 32, 64)
#: Targets are SIGNAL √D x_1 plus or minus NOISE, at most 1 in absolute value.
SIGNAL, NOISE = 0.25, 0.25
TESTS = 128

DELTAS = np.array([1e-2, 3e-3, 1e-3, 3e-4, 1e-4])
N, DRAWS = 16, 20_000


def covariance(setting: Setting) -> Measurements:
    """Measure Lemma 54: ‖Σ‖ at the depth that it asks for, over 8 ln(N)/N; ``n`` is N."""
    layer = CorrelationMap(ACTIVATION)
    for row, n in grid(activation=ACTIVATION, n=(1, 2, 4, 16, 64, 256, 1024), d=D):
        depth = interpolation_depth(n, layer.mu)
        norm = max(_operator_eigenvalues(layer, depth))
        yield row("covariance_norm", norm, 8 * math.log(n) / n, depth=depth)


def interpolation_depth(n: int, mu: float) -> int:
    """Return the depth that Lemma 54 asks for with ``n`` samples; Theorem 16 asks it with n².

    By a union bound over pairs, whose cosines' squares follow a beta distribution.
    """
    pairs = n * (n - 1) / 2
    tail = min(GAMMA / pairs, 1.0) if pairs else 1.0
    far = math.sqrt(stats.beta.isf(tail, 0.5, (D - 1) / 2))
    return math.ceil(math.log(n) / -math.log1p(-mu / 2)) + separating_depth(1 - far, mu)


def _operator_eigenvalues(layer: CorrelationMap, depth: int) -> Array:
    """Return the eigenvalues (5,) of Σ for harmonics of degree 0 to 4, E k(t) C_k(t) / C_k(1)."""
    t, weights = special.roots_jacobi(60, (D - 3) / 2, (D - 3) / 2)
    at_t, at_one = (special.eval_gegenbauer(np.arange(5)[:, None], D / 2 - 1, z) for z in (t, 1.0))
    return np.asarray(at_t / at_one @ (weights / weights.sum() * layer(t, depth)))


def excess_risk(setting: Setting) -> Measurements:
    """Measure the excess risk of interpolation at Theorem 16's depth, and |ε|² of Eq. (26).

    In less deep networks also Lemma 55 and Eqs. (25) and (26), of vᵀBv of the function v alone and
    εᵀCε of the noise alone.
    """
    layer, excesses = CorrelationMap(ACTIVATION), []
    for n in SIZES:
        deep, of_noise = interpolation_depth(n**2, layer.mu), []
        keys: dict[str, Any] = {"activation": ACTIVATION, "n": n, "d": D}
        for row, depth, seed in grid(**keys, depth=(deep, 1, 8), seed=setting.seeds):
            eigenvalues = _operator_eigenvalues(layer, depth)
            norm, slope = eigenvalues.max(), eigenvalues[1]
            rng = generator(seed, "data")
            x, fresh = (on_sphere(rng, count, D) for count in (n, TESTS))
            noise, fresh_noise = (rng.choice([-NOISE, NOISE], count) for count in (n, TESTS))
            v, fresh_v = (SIGNAL * math.sqrt(D) * samples[:, 0] for samples in (x, fresh))
            kernel = layer(gram_matrix(x), depth)
            weights = np.linalg.solve(kernel, np.column_stack([v, noise]))
            answers = layer(np.clip(fresh @ x.T, -1, 1), depth) @ weights
            missed, spoilt = answers[:, 0] - fresh_v, answers[:, 1]
            vbv, ece, zero = (np.mean(errors**2) for errors in (missed, spoilt, fresh_v))
            over_zero = np.mean((missed + spoilt) ** 2) / zero
            if depth == deep:
                of_noise.append(ece)
                yield row("interpolation_excess_noise", ece, 0.0)
                yield row("interpolation_over_zero", over_zero)
                continue
            excess = np.mean((missed + spoilt - fresh_noise) ** 2 - fresh_noise**2)
            noise_bound = norm * n * NOISE**2 / np.linalg.eigvalsh(kernel)[0]
            yield row("less_deep_over_zero", over_zero)
            yield row("lemma_55_over_bound", excess / (2 * (vbv + ece)))
            yield row("equation_25_over_bound", vbv / (norm * zero / slope))
            yield row("equation_26_over_bound", ece / noise_bound)
        bound = math.log(n / GAMMA) / n / _operator_eigenvalues(layer, deep)[1]
        yield measurement("interpolation_bound_over_zero", bound, depth=deep, **keys)
        excesses.append(np.mean(of_noise))
    power = exponent(SIZES, excesses)
    yield measurement("interpolation_noise_exponent", power, -1.0, activation=ACTIVATION)
    # all labels are -1, which are 1 with probability 0.9 and Φ = 1, so that v* is 0.8
    sizes = np.array(SIZES)
    bound = sizes * (1 + 0.8**2)
    yield measurement("noise_square", sizes * (-1 - 0.8) ** 2, bound, 2 * bound, n=sizes)


def one_layer(setting: Setting) -> Measurements:
    """Measure λ_min over δ^(3/2)/n³, Theorem 56, and rank and odd coefficients, Theorem 58.

    Of E ReLU(w·x)ReLU(w·x'); the rank is that of samples in a plane, and Σ a_k² over odd k >= 3.
    """
    layer, row = CorrelationMap("relu"), partial(measurement, activation="relu")

    def least(count: int, spacing: float) -> float:
        return float(np.linalg.eigvalsh(layer(_on_arc(count, spacing)) / 2)[0])  # E ReLU(z)² = 1/2

    for n, power in ((2, 1.0), (3, 1.5)):
        smallest = [least(n, math.acos(1 - delta)) for delta in DELTAS]
        yield row("features_over_bound", smallest / (DELTAS**1.5 / n**3), n=n, at=DELTAS)
        yield measurement("features_delta_exponent", exponent(DELTAS, smallest), 1.5, power, n=n)
    sizes, spacing = np.array([4, 8, 16, 32]), 0.05  # of neighbours
    smallest = [least(n, spacing) for n in sizes]
    bound = (1 - math.cos(spacing)) ** 1.5 / sizes**3
    yield row("features_over_bound", smallest / bound, n=sizes, at=spacing)
    yield measurement("features_n_exponent", exponent(sizes, smallest), -3.0, at=spacing)
    # Hermite coefficients: infinitely many of both parities, of one, and three in all
    names, n = ("normrelu", "selu", "relu", "gelu", "softplus", "tanh", correlations.QUADRATIC), 8
    for sigma in map(activations.get, names):
        row = partial(measurement, activation=sigma.name, n=n, d=2)
        kernel = CorrelationMap(sigma)(_on_arc(n, math.pi / n))  # no two of them opposite
        yield row(
            "one_layer_rank",
            np.linalg.matrix_rank(kernel, rtol=10 * n * np.finfo(float).eps, hermitian=True),
        )
        yield row("odd_coefficients", np.sum(expansion(sigma).coefficients[3::2] ** 2))


def _on_arc(n: int, spacing: float) -> Array:
    """Return the Gram matrix of samples on an arc, neighbours ``spacing`` radians apart."""
    angles = spacing * np.arange(n)
    return np.asarray(np.cos(np.subtract.outer(angles, angles)))


def good_event(setting: Setting) -> Measurements:
    """Measure Lemma 57 for random samples, and what the proof of Theorem 56 says of its event E.

    The event G is that |w·x_1| <= √δ/(10n) while all other |w·x_i| > √δ/(4n); its probability is
    that of the first, times the frequency of the rest given it. E is that θ|z| lies in [√δ/(9n),
    √δ/(5n)]. ``at`` is δ.
    """
    for row, seed in grid(n=N, d=D, seed=setting.seeds):
        rng = generator(seed, "data")
        x = on_sphere(rng, N, D)
        delta = 1 - float(np.abs(x @ x.T - np.eye(N)).max())
        edge = math.sqrt(delta) / (10 * N)
        first = 2 * stats.norm.cdf(edge) - 1
        w = rng.standard_normal((DRAWS, D))
        w -= (w @ x[0])[:, None] * x[0]  # the first event makes w·x_1 as good as 0
        rest = np.mean((np.abs(w @ x[1:].T) > 2.5 * edge).all(axis=1))
        yield row("good_event_over_bound", first * rest / (math.sqrt(delta) / (50 * N)))
        yield row("equation_27_over_bound", first / (math.sqrt(delta) / (25 * N)))
    z = np.abs(generator(setting.seeds[0], "data").standard_normal(DRAWS))
    for row, delta in grid(at=(0.5, *DELTAS)):
        root = math.sqrt(delta)
        for name, theta in (("event_e", root / 5), ("event_e_lemma", delta**0.25 / 5)):
            yield row(name, np.mean((theta * z >= root / 9) & (theta * z <= root / 5)), 0.2)
