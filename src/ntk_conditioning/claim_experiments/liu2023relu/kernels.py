"""Kernels of two samples and of many: angles of embeddings and gradients, eigenvalues and kappa.

At infinite width, but for `inputs`. For two samples `theory` sums 1 - cos, so that angles whose
cosine is 1 in floats can be tried.
"""

import math
from collections import defaultdict
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

GRID = np.concatenate([np.geomspace(1e-9, 1e-3, 61), np.linspace(1e-3, math.pi, 2001)[1:-1]])
LAYERS = 20_000
STARTS = (0.1, 1.0, 3.0)
FAR = np.radians(np.arange(60, 180, 0.05))
DEEP, APART = (100, 1_000, 10_000), (10.0, 60.0, 90.0)
SAMPLES = 10
UNEQUAL = 3.0  # ratio of two samples' norms

ANGLES = np.array([1e-1, 1e-2, 1e-3, 1e-4])
N = 32
RATIOS = np.array([1.0, 1.25, 1.5, 2.0, 3.0, 4.0])  # dimensions over samples on the sphere
OTHERS = ["leaky_relu", "erf", "tanh", "gelu", "selu", "sigmoid", "softplus"]
OTHERS += ["normalized_gelu", "normalized_sigmoid", "normalized_softplus"]
FEW, CLOSE = 16, 0.1  # samples, and radians between the first two


def g_properties(setting: Setting) -> Measurements:
    """Measure what Proposition A.1 and Theorem A.2 say of g and its iterations."""
    values = theory.embedding_angle(GRID, 1)
    yield measurement("g_slope_min", np.min(np.diff(values) / np.diff(GRID)))
    yield measurement("g_over_identity_max", np.max(values / GRID))
    yield measurement("g_at_zero", theory.embedding_angle(0.0, 1))
    layers = range(4 * max(setting.depths) + 1)
    iterates = np.array([theory.embedding_angle(STARTS, layer) for layer in layers])
    ratios = np.max(iterates[1:] / iterates[:-1], axis=0)
    yield measurement("g_iterates_ratio_max", ratios, at=STARTS)
    # g(z) = z - z²/(3 pi) makes 1/z grow by 1/(3 pi) a layer
    rates = theory.embedding_angle(STARTS, LAYERS) * LAYERS / (3 * math.pi)
    yield measurement("g_limit_rate", rates, 1.0, depth=LAYERS, at=STARTS)


def embedding_expansion(setting: Setting) -> Measurements:
    """Measure the coefficient of theta² in Corollary 4.3, as small angles approach it."""
    for row, depth, theta in grid(depth=setting.depths, at=(1e-2, 1e-3, 1e-4)):
        coefficient = (theta - float(theory.embedding_angle(theta, depth))) / theta**2
        yield row("embedding_angle_coefficient", coefficient, depth / (3 * math.pi))


def observations(setting: Setting) -> Measurements:
    """Measure up to which input angle Figure 1's observations hold, in degrees."""
    for row, depth in grid(depth=range(1, max(setting.depths) + 1)):
        least = np.degrees(theory.gradient_angle(FAR, depth)).min()
        yield row("separation_up_to", _up_to(0, depth), 60.0)
        yield row("deeper_separates_up_to", _up_to(depth, depth + 1), 60.0)
        yield row("far_apart_min", least, 60.0)


def _up_to(low: int, high: int) -> float:
    """Return the input angle (degrees) at which two depths' gradient angles cross, or 180."""

    def gain(theta: float) -> float:
        return float(theory.gradient_angle(theta, high) - theory.gradient_angle(theta, low))

    near, far = np.radians((1, 179))
    return math.degrees(brentq(gain, near, far, xtol=1e-12)) if gain(far) < 0 else 180.0


def gradient_expansion(setting: Setting) -> Measurements:
    """Measure the coefficients of theta and theta² in cos φ / cos θ, proof of Theorem 4.5."""
    for row, depth, theta in grid(depth=setting.depths, at=(1e-3, 1e-5, 1e-7)):
        coefficient = _cosine_fall(theta, depth)
        yield row("gradient_cosine_coefficient", coefficient, depth / 2, depth / (2 * math.pi))
        second = (depth / (2 * math.pi) - coefficient) / theta
        layers = np.arange(depth + 1)
        factors = depth - layers
        step = factors * ((depth + layers - 1) / 3 + (factors - 1) / 2)
        line = factors * (2 * depth - layers - 2) / 3
        yield row("gradient_cosine_second", second, *(np.mean([step, line], axis=1) / math.pi**2))


def joint_limits(setting: Setting) -> Measurements:
    """Measure how the remainders of Corollary 4.3 and Theorem 4.5 grow with L at θ = L^(-3/2).

    They are taken over θ² and θ cos θ: each falls if it is the o(θ²) or o(θ) that is printed.
    """
    embedding, gradient = [], []
    for depth in DEEP:
        theta = depth**-1.5
        fall = theta - float(theory.embedding_angle(theta, depth))
        embedding.append(depth / (3 * math.pi) - fall / theta**2)
        gradient.append(depth / (2 * math.pi) - _cosine_fall(theta, depth))
    yield measurement("embedding_remainder_exponent", exponent(DEEP, embedding))
    yield measurement("gradient_remainder_exponent", exponent(DEEP, gradient))


def _cosine_fall(theta: float, depth: int) -> float:
    """Return (1 - cos φ / cos θ)/θ, without cancellation."""
    phi = float(theory.gradient_angle(theta, depth))
    return 2 * math.sin((phi + theta) / 2) * math.sin((phi - theta) / 2) / (theta * math.cos(theta))


def infinite_depth(setting: Setting) -> Measurements:
    """Measure where the gradient angle goes in deep networks, and kappa of random samples.

    With theta^(l) ~ 3 pi/l the products of Eq. (10) tend to (l/L)³, whose mean is 1/4.
    """
    limit = math.degrees(math.acos(0.25))
    x = on_sphere(setting.seeds[0], SAMPLES, SAMPLES)
    for row, depth in grid(depth=DEEP):
        angles = np.degrees(theory.gradient_angle(np.radians(APART), depth))
        yield row("deep_gradient_angle", angles, 90.0, limit, at=APART)
        low, *_, high = np.linalg.eigvalsh(infinite.ntk(x, depth=depth, activation="relu"))
        yield row("deep_kappa", high / low, 1.0, 1 + SAMPLES / 3, n=SAMPLES)


def two_samples(setting: Setting) -> Measurements:
    """Measure kappa over the Gram matrix's, and over that of one layer less, at many angles.

    A network makes kappa larger where the gradient angle φ is between θ and π - θ: the `window`.
    """
    depths = np.arange(1, max(setting.depths) + 1)
    degrees = np.array([10, 30, 45, 60, 66, 70, 80, 95, 100, 110, 130, 150, 170])
    for ratio, name in ((1.0, "pair_kappa"), (UNEQUAL, "pair_kappa_unequal")):
        for at in (1e-1, 1e-2, 1e-4, 1e-6, *np.radians(degrees)):
            x = [[1.0, 0.0], [ratio * math.cos(at), ratio * math.sin(at)]]
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


def eigenvalues(setting: Setting) -> Measurements:
    """Measure the larger eigenvalue of two samples' kernel, where Eq. (44a) lacks a factor of 2."""
    b = UNEQUAL**2
    for row, depth, at in grid(depth=setting.depths, n=2, at=(10.0, 60.0)):
        phi = float(theory.gradient_angle(math.radians(at), depth))
        mixed = UNEQUAL * math.cos(phi)
        largest = np.linalg.eigvalsh([[1.0, mixed], [mixed, b]])[-1]
        cosine = b * math.cos(2 * phi)
        printed, right = ((1 + b + math.sqrt(1 + b**2 + k * cosine)) / 2 for k in (1, 2))
        yield row("pair_lambda_max", largest, printed, right)


def close_rows(setting: Setting) -> Measurements:
    """Measure Proposition 2.2: random rows, two of which come closer and closer."""
    for row, seed in grid(n=N, d=4 * N, seed=setting.seeds):
        b = np.array([_rows(seed, N, 4 * N, angle) for angle in ANGLES])
        high, *_, low = np.square(np.linalg.svd(b, compute_uv=False)).T
        norms = np.linalg.norm(b, axis=2)
        bound = theory.lambda_min_bound(norms[:, 0], norms[:, 1], ANGLES)
        ratios = high / low / (np.square(norms).mean(axis=1) / bound)
        yield row("close_rows_lambda_min_over_bound", low / bound, at=ANGLES)
        yield row("close_rows_kappa_over_bound", ratios, at=ANGLES)
        yield row("close_rows_lambda_min_exponent", exponent(ANGLES, low))
        yield row("close_rows_kappa_exponent", exponent(ANGLES, high / low))
    for row, angle in grid(n=2, d=8, at=ANGLES):  # two rows of equal norm attain the bound
        low = np.linalg.svd(unit_rows(_rows(1, 2, 8, angle)), compute_uv=False)[-1] ** 2
        yield row("close_rows_lambda_min_over_bound", low / theory.lambda_min_bound(1, 1, angle))


def row_norms(setting: Setting) -> Measurements:
    """Measure Appendix B's c <= λ_max <= C for rows of norms from c to C, at several scales."""
    for row, seed, scale in grid(n=N, seed=setting.seeds, at=(0.1, 1.0, 10.0)):
        rows = scale * _rows(seed, N, 4 * N)
        lengths = np.linalg.norm(rows, axis=1)
        for kind, b in (
            ("random", rows),
            ("orthogonal", scale * np.eye(N)),
            ("parallel", np.outer(lengths, unit_rows(rows)[0])),
        ):
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
        for kind, x in (
            ("random", random),
            ("close", _rows(seed, N, 2 * N, 1e-3)),
            ("far", _rows(seed, N, 16 * N)),
            ("orthogonal", np.eye(N)),
            ("longest_apart", block_diag(10.0, random[1:])),
            ("shortest_apart", block_diag(0.1, random[1:])),
        ):
            low, high = (np.linalg.eigvalsh(_shallow(x)) / np.linalg.eigvalsh(x @ x.T))[[0, -1]]
            ratios = {"lambda_min": low, "lambda_max": high, "kappa": high / low}
            for quantity, ratio in ratios.items():
                yield row(f"shallow_{kind}_{quantity}_over_gram", ratio, d=x.shape[1])


def _shallow(x: Array) -> Array:
    """Return the kernel (n, n) of Eq. (12)'s network, whose first layer alone is trained."""
    angles = infinite.gradient_angles(x, depth=0, activation="relu")
    return np.asarray(x @ x.T * (1 - angles / math.pi))


def dimensions(setting: Setting) -> Measurements:
    """Compare ReLU networks with the Gram matrix for n samples on the sphere of dimension d.

    Gradients have a mean cosine c > 0: one eigenvalue is about 1 + (n - 1) c, the spike.
    """
    # of many samples, and alike for all seeds
    for row, seed, n in grid(activation="relu", seed=setting.seeds[:3], n=(32, 128, 512)):
        kappas: dict[int, list[float]] = defaultdict(list)  # over the Gram matrix's, by depth
        for ratio in RATIOS:
            x = unit_rows(_rows(seed, n, int(ratio * n)))
            gram = np.linalg.cond(x @ x.T)
            for depth in setting.depths:
                keys = {"depth": depth, "d": x.shape[1], "at": ratio}
                kernel = infinite.ntk(x, depth=depth, activation="relu") / (depth + 1)
                low, *_, second, high = np.linalg.eigvalsh(kernel)
                kappas[depth].append(high / low / gram)
                yield row("sphere_kappa_over_gram", kappas[depth][-1], **keys)
                if ratio == 2.0:
                    c = math.cos(float(theory.gradient_angle(math.pi / 2, depth)))
                    yield row("sphere_spike", high, None, 1 + (n - 1) * c, **keys)
                    yield row("sphere_bulk_over_gram", second / low / gram, **keys)
        for depth, values in kappas.items():
            flip = np.exp(np.interp(0.0, np.log(values), np.log(RATIOS)))
            yield row("sphere_flip", flip, depth=depth)


def inputs(setting: Setting) -> Measurements:
    """Measure what norms do to kappa, and the rank of more samples than width times dimension."""
    width, d, few = 8, 5, 2 * N
    for seed in setting.seeds:
        x = generator(seed, "data").standard_normal((8 * N, d))
        for row, depth in grid(activation="relu", n=8 * N, d=d, seed=seed, depth=setting.depths):
            gaussian, on_unit_sphere = (
                np.linalg.cond(infinite.ntk(samples, depth=depth, activation="relu"))
                for samples in (x, unit_rows(x))
            )
            yield row("norms_kappa_ratio", gaussian / on_unit_sphere)
        mlp = network(seed, d, depth=1, width=width, activation="relu")
        rank = conditioning(ntk(mlp, torch.from_numpy(x[:few])).numpy()).numerical_rank
        row = partial(measurement, activation="relu", depth=1, width=width, n=few, d=d, seed=seed)
        yield row("shallow_rank", rank, few, width * d)


def other_activations(setting: Setting) -> Measurements:
    """Measure a close pair's gradient angle over its input angle, and kappa over the Gram's."""
    for seed in setting.seeds[:3]:
        x = on_sphere(seed, FEW, 2 * FEW)
        x[1] = at_angle(x[0], x[1], CLOSE)
        gram = np.linalg.cond(x @ x.T)
        for row, activation, depth in grid(activation=OTHERS, depth=setting.depths):
            kernel = infinite.ntk(x, depth=depth, activation=activation)
            ratio = np.linalg.cond(kernel) / gram
            yield row("other_kappa_over_gram", ratio, n=FEW, d=2 * FEW, seed=seed)
            if seed == setting.seeds[0]:  # all have that pair
                phi = math.acos(kernel[0, 1] / kernel[0, 0])
                yield row("other_separation", phi / CLOSE, at=CLOSE)


def _rows(seed: int, n: int, d: int, angle: float | None = None) -> Array:
    """Return Gaussian rows (n, d); with an ``angle`` the second is that far from the first."""
    rows = generator(seed, "data").standard_normal((n, d)) / math.sqrt(d)
    if angle is not None:
        rows[1] = 1.3 * at_angle(rows[0] / np.linalg.norm(rows[0]), rows[1], angle)
    return rows
