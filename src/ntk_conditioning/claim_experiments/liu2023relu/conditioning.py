"""Eigenvalues of many samples' kernels: Proposition 2.2, Theorem 5.1, Section 7, and inputs."""

import math
from collections import defaultdict
from functools import partial

import numpy as np
import torch
from scipy.linalg import block_diag

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid, measurement
from ntk_conditioning.claim_experiments.numerics import at_angle, exponent, network, on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, draw_weights, linear_factor
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import conditioning
from ntk_conditioning.theory import liu2023relu as theory
from ntk_conditioning.theory.sphere import unit_rows

ANGLES = (1e-1, 1e-2, 1e-3, 1e-4)
N = 32
RATIOS = np.array([1.0, 1.25, 1.5, 2.0, 3.0, 4.0])  # dimensions over samples on the sphere
OTHERS = ["leaky_relu", "erf", "tanh", "gelu", "selu", "sigmoid", "softplus"]
OTHERS += ["normalized_gelu", "normalized_sigmoid", "normalized_softplus"]
FEW, CLOSE = 16, 0.1  # samples, and radians between the first two


def close_rows(setting: Setting) -> Measurements:
    """Measure Proposition 2.2: random rows, two of which come closer and closer."""
    for row, seed in grid(n=N, d=4 * N, seed=setting.seeds):
        lows, kappas = [], []
        for angle in ANGLES:
            b = _rows(seed, N, 4 * N, angle)
            high, *_, low = np.linalg.svd(b, compute_uv=False) ** 2
            lows.append(low)
            kappas.append(high / low)
            norms = np.linalg.norm(b, axis=1)
            bound = theory.lambda_min_bound(norms[0], norms[1], angle)
            ratio = high / low / ((norms**2).mean() / bound)
            yield row("close_rows_lambda_min_over_bound", low / bound, at=angle)
            yield row("close_rows_kappa_over_bound", ratio, at=angle)
        yield row("close_rows_lambda_min_exponent", exponent(ANGLES, lows))
        yield row("close_rows_kappa_exponent", exponent(ANGLES, kappas))
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
        smallest = (crowded.lambda_min or 0.0) / crowded.resolution_floor
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


def linear(setting: Setting) -> Measurements:
    """Condition linear networks of finite width on orthonormal samples, n and d varied apart."""
    logs: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    keys = {"at": (1, 16), "n": (8, N), "width": setting.widths, "seed": setting.seeds}
    for row, ratio, n, width, seed in grid(**keys):
        d, init = ratio * n, generator(seed, "init")
        x, _ = np.linalg.qr(generator(seed, "data").standard_normal((d, n)))
        # networks share their weights
        *hidden, last = draw_weights(
            d, depth=max(setting.depths), width=width, outputs=1, generator=init
        )
        for depth in setting.depths:
            mlp = MLP((*hidden[:depth], last), activations.get("linear"))
            kappa = np.linalg.cond(linear_factor(mlp, torch.from_numpy(x.T.copy())).numpy()) ** 2
            yield row("linear_kappa_over_gram", kappa, depth=depth, d=d)
            if width >= 8 * n * depth:
                logs[seed, depth].append((n / width, math.log(kappa)))
    for (seed, depth), values in logs.items():
        if len(values) > 2:
            power = exponent(*zip(*values, strict=True))
            yield measurement("linear_log_kappa_exponent", power, depth=depth, seed=seed)


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
