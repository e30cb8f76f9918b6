"""One layer of infinite width as a map σ̂ of correlations ρ, many layers, and interpolation.

Samples of Theorem 16 are uniform on the sphere in D dimensions: covariance operators and best
predictors follow from means over one correlation t, by Gauss and Jacobi's rule.
"""

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy import special, stats

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid, measurement
from ntk_conditioning.claim_experiments.numerics import exponent, gram_matrix, on_sphere
from ntk_conditioning.duals.closed_forms import dual, pair_cosine_distances
from ntk_conditioning.duals.fixed_points import fixed_point
from ntk_conditioning.duals.hermite import expansion
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.depth_profiles import along_depth
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import agarwal2021deep as theory

#: Activations of mean 0, as Eq. (2) wants them; all maps take them times their gain.
NORMALIZED = ["normalized_relu", "normalized_sigmoid", "normalized_softplus", "normalized_gelu"]
NORMALIZED += ["normrelu", "selu", "tanh", "erf"]
ACTIVATIONS = [*NORMALIZED, "relu", "leaky_relu", "gelu", "sigmoid", "softplus"]
NEAR = np.geomspace(1e-9, 1e-2, 29)  # 1 - ρ, from nearly equal samples to samples orthogonal
DELTAS = np.concatenate([NEAR, np.linspace(1e-2, 1.0, 199)])

SEPARATIONS = np.array([0.5, 0.1, 1e-2, 1e-4])
LAYERS, SETTLED = 1000, 1e-12  # correlations are iterated until rounding alone moves them
EPSILONS = np.array([0.4, 0.1, 0.03, 0.01, 5e-3])
STEPS_OF_RHO = 21
#: σ = (h_0 + √2 h_1 + h_2) / 2, with which σ̂(ρ) = (1 + ρ)²/4: smooth, of slope 1 at ρ = 1.
QUADRATIC = Activation(
    "quadratic",
    function=lambda z: (1 + math.sqrt(2) * z + (z.square() - 1) / math.sqrt(2)) / 2,
    derivative=lambda z: (math.sqrt(2) + math.sqrt(2) * z) / 2,
    exact_gain=1.0,
)

#: Theorem 16: dimension, γ and activation, and numbers of samples.
D, GAMMA, ACTIVATION, SIZES = 8, 0.1, "normalized_relu", (8, 16, 32, 64)
#: Targets are SIGNAL √D x_1 plus or minus NOISE, at most 1 in absolute value.
SIGNAL, NOISE, TESTS = 0.25, 0.25, 128


class CorrelationMap:
    """σ̂ of an activation, by name or itself; of samples of squared norm ``q``.

    ``a0`` and ``a1`` are E σ(z) and E z σ(z), ``mu`` and ``mu_tilde`` the coefficients of
    non-linearity and non-affinity (Definitions 2 and 29), ``fixed_point`` is ρ̄ and
    ``slope_at_one`` σ̂'(1).
    """

    def __init__(self, activation: Activation | str, q: float = 1.0) -> None:
        activation = activations.get(activation)
        self._dual = dual(activation, np.array([q]))
        self.slope_at_one = float(self._dual.slopes[0])
        self.fixed_point = fixed_point(activation).rho
        first = expansion(activation, count=2).coefficients
        self.a0, self.a1 = (activation.gain * first).tolist()
        self.mu = 1 - self.a1**2
        self.mu_tilde = self.mu - self.a0**2

    def cosine_distances(self, w: ArrayLike) -> tuple[Array, Array]:
        """Return 1 - σ̂(ρ) and 1 - σ̂'(ρ)/σ̂'(1) at ρ = 1 - ``w``, right for tiny w too."""
        return pair_cosine_distances(self._dual, np.asarray(w, dtype=np.float64))

    def slope(self, rho: ArrayLike) -> Array:
        """Return σ̂'(ρ)."""
        return self.slope_at_one * (1 - self.cosine_distances(1 - np.asarray(rho, float))[1])

    def __call__(self, rho: ArrayLike, depth: int = 1) -> Array:
        """Return σ̂^(L)(ρ), the correlations after ``depth`` layers."""
        return np.asarray(self.path(rho, depth)[-1])

    def path(self, rho: ArrayLike, depth: int = LAYERS) -> Array:
        """Return ρ after 0, 1, … layers, until nothing changes or ``depth`` are done."""
        w = [1 - np.asarray(rho, dtype=np.float64)]
        for _ in range(depth):
            w.append(self.cosine_distances(w[-1])[0])
            if (np.abs(w[-1] - w[-2]) < SETTLED / 10).all():
                break
        return np.asarray(1 - np.array(w))


def normalized_maps(setting: Setting) -> Measurements:
    """Measure μ, and what one layer takes from ρ and from -ρ over what Lemmas 21 and 26 promise.

    And correlations after any number of layers over Lemma 22's bound, and after a layer less.
    """
    for row, name in grid(activation=NORMALIZED):
        layer = CorrelationMap(name)
        mu, a1 = layer.mu, layer.a1**2
        yield row("normalized_mu", mu)
        taken, falls = layer.cosine_distances(DELTAS)
        opposite, opposite_falls = layer.cosine_distances(2 - DELTAS)
        far = 1 - (1 - mu / 2) * (1 - DELTAS)
        promised = np.where(DELTAS <= 0.5, (1 + mu / 2) * DELTAS, far)
        below = DELTAS < 1  # at ρ = 0 both sides are 0
        yield row("lemma_21_taken", np.min(taken / promised))
        yield row("lemma_21_opposite", np.max(np.abs(1 - opposite[below]) / (1 - taken[below])))
        yield row("lemma_26_taken", np.min(falls / (mu * DELTAS)))
        yield row("lemma_26_opposite", np.min(opposite_falls / (mu * DELTAS)))
        rho = np.array([0.25, 0.5, 0.75])
        slopes = layer.slope(rho)
        printed = (a1 + rho * (slopes - a1)) / layer.slope_at_one
        yield row("slope_series", slopes / layer.slope_at_one, printed, at=rho)
        path = np.abs(layer.path([1 - SEPARATIONS, SEPARATIONS - 1])).max(axis=1)
        layers = range(1, len(path))
        bound = np.array([theory.correlation_bound(layers, delta, mu) for delta in SEPARATIONS]).T
        for statement, after in (("lemma_22", path[1:]), ("layer_less", path[:-1])):
            worst = np.max(after / bound, axis=0, where=bound > SETTLED, initial=0.0)
            yield row(f"{statement}_over_bound", worst, at=SEPARATIONS)


def fixed_points(setting: Setting) -> Measurements:
    """Measure Lemmas 30 to 34 for activations that need not have mean 0; slopes by differences."""
    for row, name in grid(activation=ACTIVATIONS):
        layer = CorrelationMap(name)
        at, mu = layer.fixed_point, layer.mu_tilde
        yield row("mu_tilde", mu)
        rho = np.linspace(0, 1, 401)
        slopes = np.diff(layer(rho)) / np.diff(rho)
        yield row("map_slope_min", slopes.min())
        yield row("map_slope_change_min", np.diff(slopes).min())
        # rounded, as a key must be the same on every processor
        yield row("fixed_point_slope", layer.slope(at), at=round(at, 9))
        rho = np.linspace(1e-6, 1 - 1e-6, 4001)
        crossings = np.count_nonzero(np.diff(layer(rho) > rho))
        yield row("fixed_points_below_one", crossings + (at == 0))  # with 0 itself if it is fixed
        share = np.linspace(0, 1, 201)[1:-1]
        rho = share + (1 - share) * at
        if gap := 1 - at:
            margin = (rho - layer(rho)) / (share * (1 - share) * gap**2) - mu
            yield row("lemma_32_margin", margin.min())
        middle = (1 + at) / 2
        delta = (1 - middle) * np.concatenate([NEAR, np.linspace(0.02, 1, 99)])
        above = np.linspace(at, middle, 101)[1:-1]
        below = np.linspace(0, at, 101)[:-1] if at else np.empty(0)
        negative = -np.linspace(0, 1, 101)[1:]
        after = layer(negative)
        # by how much each case of Lemma 34 exceeds what it bounds, over the distance
        lemma_34 = [
            (layer.cosine_distances(delta)[0] - delta * (1 + mu / 2 * gap)) / (gap or 1),
            (1 - mu / 2 * gap) * np.abs(above - at) - np.abs(layer(above) - at),
            float(layer.slope(at)) * np.abs(below - at) - np.abs(layer(below) - at),
            np.minimum(layer(-negative) - np.abs(after), after - negative - float(layer(0.0))),
        ]
        for case, margin in enumerate(lemma_34, start=1):
            if margin.size:
                yield row("lemma_34_margin", margin.min(), at=case)


def convergence(setting: Setting) -> Measurements:
    """Measure Lemma 35: the largest |σ̂^(L)(ρ) - ρ̄| over its bound; Theorem 11's limit and rate."""
    rho = np.linspace(SEPARATIONS - 1, 1 - SEPARATIONS, STEPS_OF_RHO)
    for row, name in grid(activation=ACTIVATIONS):
        layer = CorrelationMap(name)
        at, mu, square = layer.fixed_point, layer.mu_tilde, layer.a0**2
        slope, path = float(layer.slope(at)), np.abs(layer.path(rho) - at)
        distances = path.max(axis=1)
        yield row("deep_distance", distances[-1], at=SEPARATIONS)
        if slope >= 1 - 1e-9:
            continue
        if layer.a0 > 1e-9:
            base = max(1 - mu * (1 - at) / 2, slope)
            for delta, distance in zip(SEPARATIONS, distances.T, strict=True):
                beyond = distance[theory.convergence_depth(delta, at, mu, square) :]
                bound = np.maximum(base ** np.arange(len(beyond)) * (1 + at) / 2, SETTLED)
                yield row("lemma_35_over_bound", np.max(beyond / bound, initial=0.0), at=delta)
        last = path[:, -1, -1]
        start, *_, end = np.flatnonzero((last < 1e-4) & (last > 1e-8))
        yield row("deep_rate", (last[end] / last[start]) ** (1 / (end - start)), None, slope)


def slow_convergence(setting: Setting) -> Measurements:
    """Measure Lemma 36: how many layers take every ρ to 1 - ε if σ̂'(1) = 1, over its L_0."""
    for sigma in map(activations.get, ("relu", "leaky_relu", QUADRATIC)):
        row, layer = partial(measurement, activation=sigma.name), CorrelationMap(sigma)
        path = layer.path(np.linspace(-1, 1, STEPS_OF_RHO)).min(axis=1)
        counts = np.argmax(path >= 1 - EPSILONS[:, None], axis=1)
        near = np.log(2 / EPSILONS) / -np.log1p(-EPSILONS * layer.mu / 2)
        promised = np.ceil(np.maximum(near, 1 / layer.a0**2))
        yield row("lemma_36_layers", counts / promised, at=EPSILONS)
        power = exponent(1 / EPSILONS[2:], counts[2:])
        yield row("layers_to_one_exponent", power, 1.0, 0.5 if sigma.kinks else 1.0)


def eigenvalue_bound(setting: Setting) -> Measurements:
    """Measure λ_min(f[K]) over f(1) - f(1 - δ), Lemma 23, and f's least coefficient, f = σ̂^(L).

    Of the first coefficients at 0, by interpolation near 0.
    """
    n, nodes = 24, chebyshev.chebpts1(40)
    names = ("normrelu", "normalized_relu", "relu", "tanh", "selu", "gelu")
    for row, name, depth in grid(activation=names, depth=setting.depths):
        layer = CorrelationMap(name)
        fit = chebyshev.chebfit(nodes, layer(nodes / 2, depth), 39)
        yield row("series_least", (chebyshev.cheb2poly(fit[:17]) * 2.0 ** np.arange(17))[:9].min())
        for seed, ratio in itertools.product(setting.seeds, (1.0, 2.0, 8.0)):
            gram = gram_matrix(on_sphere(seed, n, round(ratio * n)))
            delta, least = (np.linalg.eigvalsh(k)[0] for k in (gram, layer(gram, depth)))
            bound = 1 - layer(1 - delta, depth)
            yield row("lemma_23_over_bound", least / bound, n=n, seed=seed, at=ratio)


def neural_tangent(setting: Setting) -> Measurements:
    """Measure the NTK of two samples beside Eq. (7), which takes a layer's slope where it ends."""
    names, rho = ("normalized_relu", "relu", "erf"), np.array([-0.5, 0.3, 0.9])
    x = np.transpose([[1.0, *rho], [0.0, *np.sqrt(1 - rho**2)]])
    depths = sorted({min(depth, 8) for depth in setting.depths})  # deeper, ρ loses its digits
    for row, name, depth in grid(activation=names, depth=depths[:3]):
        layer = CorrelationMap(name)
        kernel = infinite.ntk(x, depth=depth, activation=name)
        after = np.array([layer(rho, h) for h in range(depth + 2)])
        slopes = layer.slope(after)
        printed, right = (
            sum(after[h] * slopes[h + late : depth + late].prod(axis=0) for h in range(depth + 1))
            for late in (1, 0)
        )
        yield row("ntk", kernel[0, 1:], printed, right, at=rho)
        yield row("ntk_diagonal", kernel[0, 0], sum(layer.slope_at_one ** np.arange(depth + 1)))


def equal_correlations(setting: Setting) -> Measurements:
    """Measure kappa - 1 of equally correlated samples' NTK over its bounds, and B's δ over A's.

    With r = Θ_12/Θ_11 it is n r/(1 - r). Correlations are 1 - δ, so that δ is the separation of
    both Assumptions A and B; of random samples these are compared.
    """
    sizes, separations = (2, 4), (0.25, 0.3, 0.5, 0.9)
    names = ("normalized_relu", "normalized_gelu", "normrelu", "erf")
    for row, name, delta in grid(activation=names, at=separations):
        mu = CorrelationMap(name).mu
        apart = theory.separating_depth(delta, mu)
        half = (1 - mu / 2) ** apart
        yield row("corollary_28_half", half, 0.5, 2 * delta, depth=apart)
        firsts = {n: theory.first_depth(n, delta, mu, ntk=True) for n in sizes}
        x = [[1, 0], [1 - delta, math.sqrt(delta * (2 - delta))]]
        depths = range(5 * max(firsts.values()) // 2 + 1)
        kernels = along_depth(x, depths=depths, activation=name)
        r = np.array([kernel.ntk.pairs[0] for kernel in kernels])
        for n, first in firsts.items():
            excess = n * r / (1 - r)
            deep = [first, 5 * first // 2]
            for statement, proof in (("ntk_excess_a", False), ("ntk_excess_a_proof", True)):
                bound = theory.excess_bound(deep, n, delta, mu, ntk=True, proof=proof)
                yield row(statement, excess[deep] / bound, n=n, depth=deep)
            deep = [*{4 * apart, 8 * apart}]
            bound = theory.excess_bound_b(deep, n, delta, mu, ntk=True)
            yield row("ntk_excess_b", excess[deep] / bound, n=n, depth=deep)
    for row, n, delta in grid(n=sizes, at=separations):
        yield row("assumption_b", np.linalg.eigvalsh(1 - delta * (1 - np.eye(n)))[0] / delta)
    for row, n, seed in grid(n=[24], d=48, seed=setting.seeds):
        gram = gram_matrix(on_sphere(seed, n, 2 * n))
        apart = 1 - np.abs(gram - np.eye(n)).max()
        yield row("assumption_b", np.linalg.eigvalsh(gram)[0] / apart)


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
    return math.ceil(math.log(n) / -math.log1p(-mu / 2)) + theory.separating_depth(1 - far, mu)


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
