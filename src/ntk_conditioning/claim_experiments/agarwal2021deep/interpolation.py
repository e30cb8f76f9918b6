"""Minimum-norm interpolation with the top layer's kernel, and features of one layer.

Samples are uniform on the sphere in D dimensions: covariance operators and best predictors follow
from means over one correlation t, by Gauss and Jacobi's rule.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy import special, stats

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting, grid
from ntk_conditioning.claim_experiments.agarwal2021deep.correlations import (
    QUADRATIC,
    CorrelationMap,
)
from ntk_conditioning.claim_experiments.numerics import exponent, on_sphere
from ntk_conditioning.duals.hermite import expansion
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.agarwal2021deep import separating_depth

D = 8
GAMMA = 0.1
ACTIVATION = "normalized_relu"
SIZES = (8, 16, 32, 64)
COVARIANCE_SIZES = (1, 2, 4, 16, 64, 256, 1024)
#: Targets are SIGNAL √D x_1 plus or minus NOISE, at most 1 in absolute value.
SIGNAL, NOISE = 0.25, 0.25
LESS_DEEP = (1, 8)  # depths at which interpolation is looked at beside the theorem's
TESTS = 128

DELTAS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
ARC_SIZES = (4, 8, 16, 32)
SPACING = 0.05  # of neighbours on an arc, in radians
N, DRAWS = 16, 20_000
#: Activations with infinitely many Hermite coefficients of both parities, or of one; and samples.
BOTH_PARITIES, ONE_PARITY = ("normrelu", "selu"), ("relu", "gelu", "softplus", "tanh")
IN_PLANE = 8


def covariance(setting: Setting) -> Measurements:
    """Measure Lemma 54: ‖Σ‖ at the depth that it asks for, over 8 ln(N)/N; ``n`` is N."""
    layer = CorrelationMap(ACTIVATION)
    for row, n in grid(activation=ACTIVATION, n=COVARIANCE_SIZES, d=D):
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


def _operator_eigenvalues(layer: CorrelationMap, depth: int) -> list[float]:
    """Return the eigenvalues of Σ for harmonics of degree 0 to 4, E k(t) C_k(t) / C_k(1)."""
    t, weights = special.roots_jacobi(60, (D - 3) / 2, (D - 3) / 2)
    values = weights / weights.sum() * layer(t, depth)
    at_t, at_one = (special.eval_gegenbauer(np.arange(5)[:, None], D / 2 - 1, z) for z in (t, 1.0))
    return [float(values @ harmonic / one) for harmonic, (one,) in zip(at_t, at_one, strict=True)]


def excess_risk(setting: Setting) -> Measurements:
    """Measure Theorem 16: the excess risk of the interpolating predictor, at the depth it asks for.

    In less deep networks also Lemma 55 and Eqs. (25) and (26).
    """
    layer, excesses = CorrelationMap(ACTIVATION), []
    eigenvalues = {less: _operator_eigenvalues(layer, less) for less in LESS_DEEP}
    for row, n in grid(activation=ACTIVATION, n=SIZES, d=D):
        deep = interpolation_depth(n**2, layer.mu)
        bound = math.log(n / GAMMA) / n / _operator_eigenvalues(layer, deep)[1]
        yield row("interpolation_bound_over_zero", bound, depth=deep)
        for depth in (deep, *LESS_DEEP):
            noisy, linear, missed, noise, zero, smallest = _risks(layer, setting.seeds, n, depth)
            if depth == deep:
                excesses.append(np.mean(noise))
                measured = {
                    "interpolation_excess_noise": (noise, 0.0),
                    "interpolation_over_zero": (linear / zero, None),
                }
            else:
                norm, slope = max(eigenvalues[depth]), eigenvalues[depth][1]
                noise_bound = norm * n * NOISE**2 / smallest
                measured = {
                    "less_deep_over_zero": (linear / zero, None),
                    "lemma_55_over_bound": (noisy / (2 * (missed + noise)), None),
                    "equation_25_over_bound": (missed / (norm * zero / slope), None),
                    "equation_26_over_bound": (noise / noise_bound, None),
                }
            for statement, (values, printed) in measured.items():
                for seed, value in zip(setting.seeds, values, strict=True):
                    yield row(statement, value, printed, depth=depth, seed=seed)
    power = exponent(SIZES, excesses)
    yield Measurement("interpolation_noise_exponent", power, -1.0, activation=ACTIVATION)


def noise_square(setting: Setting) -> Measurements:
    """Measure |ε|² where all y_i are -1, which Eq. (26) is to bound."""
    for row, n in grid(n=SIZES):
        features, best, y = np.ones((n, 1)), np.array([0.9 - 0.1]), np.full(n, -1.0)
        square, bound = np.sum((y - features @ best) ** 2), n * (1 + best @ best)
        yield row("noise_square", square, bound, 2 * bound)


def _risks(layer: CorrelationMap, seeds: Sequence[int], n: int, depth: int) -> list[Array]:
    """Return mean squares over fresh samples (seeds,) of interpolating n samples, and λ_min of K̄.

    How much larger the error on their noisy labels is than that of v*; its mean over their noise,
    the excess risk of interpolating a linear function and noise; of the function alone, Lemma 55's
    v*ᵀBv*, and of the noise alone, its εᵀCε; and the error of predicting 0.
    """
    rngs = [generator(seed, "data") for seed in seeds]
    x, fresh = (np.stack([on_sphere(rng, count, D) for rng in rngs]) for count in (n, TESTS))
    noise, fresh_noise = (
        np.stack([rng.choice([-NOISE, NOISE], size=count) for rng in rngs]) for count in (n, TESTS)
    )
    best, best_fresh = (SIGNAL * math.sqrt(D) * rows[..., 0] for rows in (x, fresh))
    across = x.transpose(0, 2, 1)
    gram = x @ across
    gram[:, range(n), range(n)] = 1.0
    kernel = layer(gram, depth)
    weights = np.linalg.solve(kernel, np.stack([best, noise], axis=-1))
    answers = layer(np.clip(fresh @ across, -1, 1), depth) @ weights
    missed, spoilt = answers[..., 0] - best_fresh, answers[..., 1]
    error = missed + spoilt
    excess = ((error - fresh_noise) ** 2).mean(axis=1) - (fresh_noise**2).mean(axis=1)
    squares = ((each**2).mean(axis=1) for each in (error, missed, spoilt, best_fresh))
    return [excess, *squares, np.linalg.eigvalsh(kernel)[:, 0]]


def smallest_eigenvalue(setting: Setting) -> Measurements:
    """Measure Theorem 56 at infinite width: λ_min of E ReLU(w·x)ReLU(w·x'), over δ^(3/2)/n³."""
    layer = CorrelationMap("relu")
    for n, power in ((2, 1.0), (3, 1.5)):
        smallest = []
        for row, delta in grid(activation="relu", n=n, at=DELTAS):
            smallest.append(_least(layer, n, math.acos(1 - delta)))
            yield row("features_over_bound", smallest[-1] / (delta**1.5 / n**3))
        yield Measurement("features_delta_exponent", exponent(DELTAS, smallest), 1.5, power, n=n)
    smallest = []
    for row, n in grid(activation="relu", n=ARC_SIZES, at=SPACING):
        smallest.append(_least(layer, n, SPACING))
        yield row("features_over_bound", smallest[-1] / ((1 - math.cos(SPACING)) ** 1.5 / n**3))
    yield Measurement("features_n_exponent", exponent(ARC_SIZES, smallest), -3.0, at=SPACING)


def _least(layer: CorrelationMap, count: int, spacing: float) -> float:
    """Return λ_min for samples on an arc, neighbours ``spacing`` apart."""
    angles = spacing * np.arange(count)
    gaps = np.abs(np.subtract.outer(angles, angles))
    after, _ = layer.cosine_distances(2 * np.sin(gaps / 2) ** 2)
    return float(np.linalg.eigvalsh((1 - after) / 2)[0])  # E ReLU(z)² = 1/2


def one_layer_kernel(setting: Setting) -> Measurements:
    """Measure Theorem 58: the rank of one layer's kernel in a plane, and Σ a_k² over odd k >= 3."""
    angles = math.pi * np.arange(IN_PLANE) / IN_PLANE  # no two of them opposite
    gram = np.minimum(np.cos(np.subtract.outer(angles, angles)), 1.0)
    for sigma in map(activations.get, (*BOTH_PARITIES, *ONE_PARITY, QUADRATIC)):
        row = partial(Measurement, activation=sigma.name, n=IN_PLANE, d=2)
        eigenvalues = np.linalg.eigvalsh(CorrelationMap(sigma)(gram))
        floor = IN_PLANE * np.finfo(np.float64).eps * eigenvalues[-1]
        yield row("one_layer_rank", np.count_nonzero(eigenvalues > 10 * floor))
        yield row("odd_coefficients", np.sum(expansion(sigma).coefficients[3::2] ** 2))


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
        edge, theta = math.sqrt(delta) / (10 * N), math.sqrt(delta) / (5 * N)
        sd = math.sqrt(1 - theta**2)
        first = 2 * stats.norm.cdf(edge / sd) - 1
        along = sd * stats.norm.ppf(0.5 + first * (rng.random(DRAWS) - 0.5))
        across = rng.standard_normal((DRAWS, D))
        across -= (across @ x[0])[:, None] * x[0]
        others = (along[:, None] * x[0] + across) @ x[1:].T
        rest = float(np.mean((np.abs(others) > 2.5 * edge).all(axis=1)))
        yield row("good_event_over_bound", first * rest / (math.sqrt(delta) / (50 * N)))
        yield row("equation_27_over_bound", first / (math.sqrt(delta) / (25 * N)))
    z = np.abs(generator(setting.seeds[0], "data").standard_normal(DRAWS))
    for row, delta in grid(at=(0.5, *DELTAS)):
        root = math.sqrt(delta)
        for name, theta in (("event_e", root / 5), ("event_e_lemma", delta**0.25 / 5)):
            yield row(name, np.mean((theta * z >= root / 9) & (theta * z <= root / 5)), 0.2)
