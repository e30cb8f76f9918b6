"""Kernels of two samples and of many: angles of embeddings and gradients, eigenvalues and kappa.

At infinite width, but for `inputs`. For two samples `theory` sums 1 - cos, so that angles whose
cosine is 1 in floats can be tried.
"""

import math
from functools import partial

import numpy as np
import torch
from scipy.linalg import block_diag
from scipy.optimize import brentq

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid, measurement
from ntk_conditioning.claim_experiments.numerics import at_angle, exponent, network, on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import conditioning
from ntk_conditioning.theory import liu2023relu as theory
from ntk_conditioning.theory.sphere import unit_rows

N = 32
OTHERS = ["leaky_relu", "erf", "tanh", "gelu", "selu", "sigmoid", "softplus"]
OTHERS += ["normalized_gelu", "normalized_sigmoid", "normalized_softplus"]


def g_properties(setting: Setting) -> Measurements:
    """Measure what Proposition A.1 and Theorem A.2 say of g and its iterations."""
    z = np.concatenate([np.geomspace(1e-9, 1e-3, 61), np.linspace(1e-3, math.pi, 2001)[1:-1]])
    g = theory.embedding_angle(z, 1)
    yield measurement("g_slope_min", np.min(np.diff(g) / np.diff(z)))
    yield measurement("g_over_identity_max", np.max(g / z))
    yield measurement("g_at_zero", theory.embedding_angle(0.0, 1))
    starts, layers = (0.1, 1.0, 3.0), 20_000
    iterates = [
        theory.embedding_angle(starts, depth) for depth in range(4 * max(setting.depths) + 1)
    ]
    ratios = np.max(np.divide(iterates[1:], iterates[:-1]), axis=0)
    yield measurement("g_iterates_ratio_max", ratios, at=starts)
    # g(z) = z - z²/(3 pi) makes 1/z grow by 1/(3 pi) a layer
    rates = theory.embedding_angle(starts, layers) * layers / (3 * math.pi)
    yield measurement("g_limit_rate", rates, 1.0, depth=layers, at=starts)


def observations(setting: Setting) -> Measurements:
    """Measure up to which input angle Figure 1's observations hold, in degrees."""
    far = np.radians(np.arange(60, 180, 0.05))
    for row, depth in grid(depth=range(1, max(setting.depths) + 1)):
        yield row("separation_up_to", _up_to(0, depth), 60.0)
        yield row("deeper_separates_up_to", _up_to(depth, depth + 1), 60.0)
        yield row("far_apart_min", np.degrees(theory.gradient_angle(far, depth)).min(), 60.0)


def _up_to(low: int, high: int) -> float:
    """Return the input angle (degrees) at which two depths' gradient angles cross, or 180."""

    def gain(theta: float) -> float:
        return float(theory.gradient_angle(theta, high) - theory.gradient_angle(theta, low))

    near, far = np.radians((1, 179))
    return math.degrees(brentq(gain, near, far, xtol=1e-12)) if gain(far) < 0 else 180.0


def expansions(setting: Setting) -> Measurements:
    """Measure coefficients of θ^(L), Corollary 4.3, and of cos φ / cos θ, proof of Theorem 4.5.

    Those of θ² and, in the latter, of θ, as small angles approach them.
    """
    depths = sorted({min(depth, 20) for depth in setting.depths})  # deeper, angles are not small
    for row, depth, theta in grid(depth=depths, at=(1e-2, 1e-3, 1e-4)):
        yield row("embedding_angle_coefficient", _falls(theta, depth)[0], depth / (3 * math.pi))
    for row, depth, theta in grid(depth=depths, at=(1e-3, 1e-5, 1e-7)):
        first, right = _falls(theta, depth)[1], depth / (2 * math.pi)
        yield row("gradient_cosine_coefficient", first, depth / 2, right)
        factors = np.arange(depth + 1)  # L - l
        step = factors * ((2 * depth - factors - 1) / 3 + (factors - 1) / 2)
        line = factors * (depth + factors - 2) / 3
        second = np.mean([step, line], axis=1) / math.pi**2
        yield row("gradient_cosine_second", (right - first) / theta, *second)


def _falls(theta: float, depth: int) -> tuple[float, float]:
    """Return (θ - θ^(L))/θ² and (1 - cos φ / cos θ)/θ, the latter without cancellation."""
    phi, embedding = theory.gradient_angle(theta, depth), theory.embedding_angle(theta, depth)
    fall = 2 * np.sin((phi + theta) / 2) * np.sin((phi - theta) / 2) / math.cos(theta)
    return float(theta - embedding) / theta**2, float(fall) / theta


def infinite_depth(setting: Setting) -> Measurements:
    """Measure gradient angles and kappa of deep networks, and remainders at θ = L^(-3/2).

    With theta^(l) ~ 3 pi/l the products of Eq. (10) tend to (l/L)³, whose mean is 1/4. Remainders,
    of Corollary 4.3 over θ² and of Theorem 4.5 over θ cos θ, fall with L if they are the o(θ²) and
    o(θ) that is printed.
    """
    depths, apart, n, remainders = (100, 1_000, 10_000), (10.0, 60.0, 90.0), 10, []
    x = on_sphere(setting.seeds[0], n, n)
    for row, depth in grid(depth=depths):
        angles = np.degrees(theory.gradient_angle(np.radians(apart), depth))
        yield row("deep_gradient_angle", angles, 90.0, math.degrees(math.acos(0.25)), at=apart)
        kappa = np.linalg.cond(infinite.ntk(x, depth=depth, activation="relu"))
        yield row("deep_kappa", kappa, 1.0, 1 + n / 3, n=n)
        limits = depth / math.pi / np.array([3, 2])
        remainders.append(limits - _falls(depth**-1.5, depth))
    statements = ["embedding_remainder_exponent", "gradient_remainder_exponent"]
    yield measurement(statements, exponent(depths, remainders))


def two_samples(setting: Setting) -> Measurements:
    """Measure kappa over the Gram matrix's and over that of one layer less, and λ_max of Eq. (44).

    A network makes kappa larger where the gradient angle φ is between θ and π - θ: the `window`.
    Eq. (44a) lacks a factor of 2.
    """
    depths = np.arange(1, max(setting.depths) + 1)
    degrees = np.array([10, 30, 45, 60, 66, 70, 80, 95, 100, 110, 130, 150, 170])
    for norm, name in ((1.0, "pair_kappa"), (3.0, "pair_kappa_unequal")):
        for at in (1e-1, 1e-2, 1e-4, 1e-6, *np.radians(degrees)):
            x = [[1.0, 0.0], [norm * math.cos(at), norm * math.sin(at)]]
            kernels = [infinite.ntk(x, depth=depth, activation="relu") for depth in (0, *depths)]
            kappas = np.linalg.cond(kernels)
            row = partial(measurement, depth=depths, n=2, at=math.degrees(at))
            yield row(f"{name}_over_gram", kappas[1:] / kappas[0])
            yield row(f"{name}_step", kappas[1:] / kappas[:-1])

    def beyond(z: float, depth: int) -> float:
        return float(theory.gradient_angle(z, depth)) - (math.pi - z)

    for row, depth in grid(depth=depths, n=2):
        yield row("pair_window_from", _up_to(0, depth))
        edge = brentq(beyond, *np.radians((90.1, 160)), args=(depth,), xtol=1e-12)
        yield row("pair_window_to", math.degrees(edge))
    for row, depth, at in grid(depth=setting.depths, n=2, at=(10.0, 60.0)):
        phi, b = float(theory.gradient_angle(math.radians(at), depth)), 9.0
        mixed = math.sqrt(b) * math.cos(phi)
        largest = np.linalg.eigvalsh([[1.0, mixed], [mixed, b]])[-1]
        roots = np.sqrt(1 + b**2 + np.array([1, 2]) * b * math.cos(2 * phi))
        yield row("pair_lambda_max", largest, *(1 + b + roots) / 2)


def close_rows(setting: Setting) -> Measurements:
    """Measure Proposition 2.2 for random rows, two of which come closer, and Appendix B's bounds.

    Those are c <= λ_max <= C for rows of norms from c to C; at several scales.
    """
    angles = np.array([1e-1, 1e-2, 1e-3, 1e-4])
    for row, seed in grid(n=N, d=4 * N, seed=setting.seeds):
        b = np.array([_rows(seed, N, 4 * N, angle) for angle in angles])
        high, *_, low = np.square(np.linalg.svd(b, compute_uv=False)).T
        norms = np.linalg.norm(b, axis=2)
        bound = theory.lambda_min_bound(norms[:, 0], norms[:, 1], angles)
        ratios = high / low / (np.square(norms).mean(axis=1) / bound)
        yield row("close_rows_lambda_min_over_bound", low / bound, at=angles)
        yield row("close_rows_kappa_over_bound", ratios, at=angles)
        statements = ["close_rows_lambda_min_exponent", "close_rows_kappa_exponent"]
        yield row(statements, exponent(angles, np.transpose([low, high / low])))
    for row, angle in grid(n=2, d=8, at=angles):  # two rows of equal norm attain the bound
        low = np.linalg.svd(unit_rows(_rows(1, 2, 8, angle)), compute_uv=False)[-1] ** 2
        yield row("close_rows_lambda_min_over_bound", low / theory.lambda_min_bound(1, 1, angle))
    for row, seed, scale in grid(n=N, seed=setting.seeds, at=(0.1, 1.0, 10.0)):
        rows = scale * _rows(seed, N, 4 * N)
        parallel = np.outer(np.linalg.norm(rows, axis=1), unit_rows(rows)[0])
        matrices = {"random": rows, "orthogonal": scale * np.eye(N), "parallel": parallel}
        for kind, b in matrices.items():
            high, norms, d = np.linalg.norm(b, 2) ** 2, np.linalg.norm(b, axis=1), b.shape[1]
            above, below = (norms**2).sum(), (norms**2).min()
            yield row(f"rows_{kind}_lambda_max_above", high, norms.max(), above, d=d)
            yield row(f"rows_{kind}_lambda_max_below", high, norms.min(), below, d=d)


def shallow(setting: Setting) -> Measurements:
    """Measure Theorem 5.1: the kernel G * (1 - theta/pi) of Eq. (12)'s network beside G.

    A sample orthogonal to all others is an eigenvector of both. With more samples than
    dimensions G is singular, and λ_min is measured in units of its rounding.
    """
    for row, seed in grid(activation="relu", depth=1, n=N, seed=setting.seeds):
        crowded = conditioning(_shallow(_rows(seed, N, N // 4)))
        smallest = crowded.lambda_min / crowded.resolution_floor
        yield row("shallow_singular_lambda_min", smallest, d=N // 4)
        random = _rows(seed, N, 2 * N)
        datasets = {
            "random": random,
            "close": _rows(seed, N, 2 * N, 1e-3),
            "far": _rows(seed, N, 16 * N),
            "orthogonal": np.eye(N),
            "longest_apart": block_diag(10.0, random[1:]),
            "shortest_apart": block_diag(0.1, random[1:]),
        }
        for kind, x in datasets.items():
            low, *_, high = np.linalg.eigvalsh(_shallow(x)) / np.linalg.eigvalsh(x @ x.T)
            names = [
                f"shallow_{kind}_{name}_over_gram" for name in ("lambda_min", "lambda_max", "kappa")
            ]
            yield row(names, [low, high, high / low], d=len(x.T))


def _shallow(x: Array) -> Array:
    """Return the kernel (n, n) of Eq. (12)'s network, whose first layer alone is trained."""
    angles = infinite.gradient_angles(x, depth=0, activation="relu")
    return np.asarray(x @ x.T * (1 - angles / math.pi))


def dimensions(setting: Setting) -> Measurements:
    """Compare ReLU networks with the Gram matrix for n samples on the sphere of dimension d.

    Gradients have a mean cosine c > 0: one eigenvalue is about 1 + (n - 1) c, the spike.
    """
    ratios, depths = np.array([1.0, 1.25, 1.5, 2.0, 3.0, 4.0]), np.array(setting.depths)
    cosines = np.cos([float(theory.gradient_angle(math.pi / 2, depth)) for depth in depths])
    # of many samples, and alike for all seeds
    for row, seed, n in grid(activation="relu", seed=setting.seeds[:3], n=(32, 128, 512)):
        kappas = []  # over the Gram matrix's
        for ratio in ratios:
            x = unit_rows(_rows(seed, n, int(ratio * n)))
            gram, at = np.linalg.cond(x @ x.T), {"depth": depths, "d": len(x.T), "at": ratio}
            kernels = [infinite.ntk(x, depth=d, activation="relu") / (d + 1) for d in depths]
            low, *_, second, high = np.linalg.eigvalsh(kernels).T
            kappas.append(high / low / gram)
            yield row("sphere_kappa_over_gram", kappas[-1], **at)
            if ratio == 2:
                yield row("sphere_spike", high, None, 1 + (n - 1) * cosines, **at)
                yield row("sphere_bulk_over_gram", second / low / gram, **at)
        for depth, values in zip(depths, np.transpose(kappas), strict=True):
            flip = np.exp(np.interp(0.0, np.log(values), np.log(ratios)))
            yield row("sphere_flip", flip, depth=depth)


def inputs(setting: Setting) -> Measurements:
    """Measure what norms do to kappa, and the rank of more samples than width times dimension."""
    width, d, few = 8, 5, 2 * N
    for row, seed in grid(activation="relu", d=d, seed=setting.seeds):
        x = generator(seed, "data").standard_normal((8 * N, d))
        for depth in setting.depths:
            each = [infinite.ntk(y, depth=depth, activation="relu") for y in (x, unit_rows(x))]
            gaussian, on_unit_sphere = np.linalg.cond(each)
            yield row("norms_kappa_ratio", gaussian / on_unit_sphere, n=8 * N, depth=depth)
        mlp = network(seed, d, depth=1, width=width, activation="relu")
        rank = conditioning(ntk(mlp, torch.from_numpy(x[:few])).numpy()).numerical_rank
        yield row("shallow_rank", rank, few, width * d, depth=1, width=width, n=few)


def other_activations(setting: Setting) -> Measurements:
    """Measure a close pair's gradient angle over its input angle, and kappa over the Gram's."""
    n, angle, seeds = 16, 0.1, setting.seeds[:3]
    for row, seed, name, depth in grid(seed=seeds, activation=OTHERS, depth=setting.depths):
        x = on_sphere(seed, n, 2 * n)
        x[1] = at_angle(x[0], x[1], angle)
        kernel = infinite.ntk(x, depth=depth, activation=name)
        ratio = np.linalg.cond(kernel) / np.linalg.cond(x @ x.T)
        yield row("other_kappa_over_gram", ratio, n=n, d=2 * n)
        if seed == seeds[0]:  # all have that pair
            phi = math.acos(kernel[0, 1] / kernel[0, 0])
            yield row("other_separation", phi / angle, seed=None, at=angle)


def _rows(seed: int, n: int, d: int, angle: float | None = None) -> Array:
    """Return Gaussian rows (n, d); with an ``angle`` the second is that far from the first."""
    rows = generator(seed, "data").standard_normal((n, d)) / math.sqrt(d)
    if angle is not None:
        rows[1] = 1.3 * at_angle(rows[0] / np.linalg.norm(rows[0]), rows[1], angle)
    return rows
