"""Eigenvalues of many samples' kernels: Proposition 2.2, Theorem 5.1, what inputs do to kappa.

And activations other than ReLU, of which Section 7 expects similar results, at infinite width.
"""

import math
from collections import defaultdict
from functools import partial

import numpy as np
import torch
from scipy.spatial.distance import squareform

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting, grid
from ntk_conditioning.claim_experiments.numerics import at_angle, exponent, network, on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.depth_profiles import along_depth
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, draw_weights, linear_factor
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import (
    Conditioning,
    UnresolvedError,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.theory import liu2023relu as theory
from ntk_conditioning.theory.sphere import unit_rows

ANGLES = (1e-1, 1e-2, 1e-3, 1e-4)
SCALES = (0.1, 1.0, 10.0)
N = 32
#: Numbers of samples on the sphere, and dimensions over samples: the Gram matrix has full rank.
NUMBERS = (32, 128, 512)
RATIOS = np.array([1.0, 1.25, 1.5, 2.0, 3.0, 4.0])
SPIKE = 2.0  # the ratio at which the spike and the bulk are measured

OTHERS = (
    *("leaky_relu", "erf", "tanh", "gelu", "selu", "sigmoid", "softplus"),
    *("normalized_gelu", "normalized_sigmoid", "normalized_softplus"),
)
FEW, CLOSE = 16, 0.1  # samples, and radians between the first two


def close_rows(setting: Setting) -> Measurements:
    """Measure Proposition 2.2: random rows, two of which come closer and closer."""
    for row, seed in grid(n=N, d=4 * N, seed=setting.seeds):
        lows, kappas = [], []
        for angle in ANGLES:
            b = _rows(seed, N, 4 * N, angle)
            low, high = _extremes(conditioning_from_factor(b))
            lows.append(low)
            kappas.append(high / low)
            norms = np.linalg.norm(b, axis=1)
            bound = theory.lambda_min_bound(norms[0], norms[1], angle)
            ratio = high / low / ((norms**2).mean() / bound)
            yield row("close_rows_lambda_min_over_bound", low / bound, at=angle)
            yield row("close_rows_kappa_over_bound", ratio, at=angle)
        yield row("close_rows_lambda_min_exponent", exponent(ANGLES, lows))
        yield row("close_rows_kappa_exponent", exponent(ANGLES, kappas))
    for row, angle in grid(n=2, d=8, at=ANGLES):  # two rows of one norm attain the bound
        low, _ = _extremes(conditioning_from_factor(_rows(1, 2, 8, angle, norm=1.3)))
        yield row(
            "close_rows_lambda_min_over_bound", low / theory.lambda_min_bound(1.3, 1.3, angle)
        )


def row_norms(setting: Setting) -> Measurements:
    """Measure Appendix B's c <= λ_max <= C for rows of norms from c to C, at several scales.

    Orthogonal rows of one norm attain the bound c² from below, parallel rows the sum of all squared
    norms from above.
    """
    for row, seed, scale in grid(n=N, seed=setting.seeds, at=SCALES):
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

    Only the first layer is trained. Lemma D.3 is on the entries' factor P. With ones on P's
    diagonal, λ_min(G * P) >= λ_min(G) and λ_max(G * P) <= λ_max(G) (Schur). A sample at right
    angles to all others is an eigenvector of both: the longest has λ_max, the shortest λ_min. With
    more samples than dimensions G is singular, and λ_min is measured in units of its rounding.
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
            ("longest_apart", _with_one_apart(random, 10.0)),
            ("shortest_apart", _with_one_apart(random, 0.1)),
        ):
            extremes = (_extremes(conditioning(k)) for k in (_shallow(x), x @ x.T))
            low, high = (ours / theirs for ours, theirs in zip(*extremes, strict=True))
            for quantity, ratio in (
                ("lambda_min", low),
                ("lambda_max", high),
                ("kappa", high / low),
            ):
                yield row(f"shallow_{kind}_{quantity}_over_gram", ratio, d=x.shape[1])


def _shallow(x: Array) -> Array:
    """Return the kernel (n, n) of Eq. (12)'s network, whose first layer alone is trained."""
    angles = infinite.gradient_angles(x, depth=0, activation="relu")
    return np.asarray(x @ x.T * (1 - angles / math.pi))


def _with_one_apart(x: Array, length: float) -> Array:
    """Return samples (n, d + 1), the first of that length and at right angles to all others."""
    apart = np.pad(x, ((0, 0), (0, 1)))
    apart[0] = 0.0
    apart[0, -1] = length
    return apart


def inputs(setting: Setting) -> Measurements:
    """Measure what the inputs' dimension, norms and number do to kappa."""
    for seed in setting.seeds[:3]:  # of many samples, and alike
        yield from _dimensions(setting, seed)
    width, d, many, few = 8, 5, 8 * N, 2 * N
    for seed in setting.seeds:
        yield from _linear(setting, seed)
        x = generator(seed, "data").standard_normal((many, d))
        for row, depth in grid(activation="relu", n=many, d=d, seed=seed, depth=setting.depths):
            gaussian, on_unit_sphere = (
                _kappa(infinite.ntk(each, depth=depth, activation="relu"))
                for each in (x, unit_rows(x))
            )
            yield row("norms_kappa_ratio", gaussian / on_unit_sphere)
        # more samples than width times dimension
        mlp = network(seed, d, depth=1, width=width, activation="relu")
        rank = conditioning(ntk(mlp, torch.from_numpy(x[:few])).numpy()).numerical_rank
        row = partial(Measurement, activation="relu", depth=1, width=width, n=few, d=d, seed=seed)
        yield row("shallow_rank", rank, few, width * d)


def _dimensions(setting: Setting, seed: int) -> Measurements:
    """Compare ReLU networks with the Gram matrix for n samples on the sphere of dimension d.

    Correlations of a ReLU network's gradients have a mean c > 0 even for inputs at right angles.
    Its kernel has one eigenvalue of about 1 + (n - 1) c, the spike, and a bulk that is better
    conditioned than the Gram matrix: kappa is smaller until n makes the spike larger.
    """
    for row, n in grid(activation="relu", n=NUMBERS, seed=seed):
        by_ratio = []
        for ratio in RATIOS:
            x = unit_rows(_rows(seed, n, int(ratio * n)))
            gram, kappas = _kappa(x @ x.T), []
            for kernels in along_depth(x, depths=setting.depths, activation="relu"):
                kernel = conditioning(np.eye(n) + squareform(kernels.ntk.pairs))
                keys = {"depth": kernels.depth, "d": x.shape[1], "at": ratio}
                low, high = _extremes(kernel)
                kappas.append(high / low / gram)
                yield row("sphere_kappa_over_gram", kappas[-1], **keys)
                if ratio == SPIKE:
                    c = math.cos(float(theory.gradient_angle(math.pi / 2, kernels.depth)))
                    yield row("sphere_spike", high, None, 1 + (n - 1) * c, **keys)
                    assert kernel.eigenvalues is not None  # of so few samples all are computed
                    bulk = float(kernel.eigenvalues[1]) / low
                    yield row("sphere_bulk_over_gram", bulk / gram, **keys)
            by_ratio.append(kappas)
        for depth, values in zip(setting.depths, np.transpose(by_ratio), strict=True):
            flip = np.exp(np.interp(0.0, np.log(values), np.log(RATIOS)))
            yield row("sphere_flip", flip, depth=depth)


def _linear(setting: Setting, seed: int) -> Measurements:
    """Condition linear networks of finite width on orthonormal samples, n and d varied apart.

    Their kernels' law depends on the samples through the Gram matrix alone, as Gaussian weights
    look the same from all directions: here it is the identity, whatever d.
    """
    logs: dict[int, list[tuple[float, float]]] = defaultdict(list)
    keys = {"at": (1, 16), "n": (8, N), "width": setting.widths, "seed": seed}
    for row, ratio, n, width in grid(**keys):
        d, init = ratio * n, generator(seed, "init")
        x, _ = np.linalg.qr(generator(seed, "data").standard_normal((d, n)))
        # networks share their weights
        *hidden, last = draw_weights(
            d, depth=max(setting.depths), width=width, outputs=1, generator=init
        )
        for depth in setting.depths:
            mlp = MLP((*hidden[:depth], last), activations.get("linear"))
            factor = linear_factor(mlp, torch.from_numpy(x.T.copy()))
            if (kappa := conditioning((factor @ factor.T).numpy()).kappa) is not None:
                yield row("linear_kappa_over_gram", kappa, depth=depth, d=d)
                if width >= 8 * n * depth:
                    logs[depth].append((n / width, math.log(kappa)))
    for depth, values in logs.items():
        if len(values) > 2:
            power = exponent(*zip(*values, strict=True))
            yield Measurement("linear_log_kappa_exponent", power, depth=depth, seed=seed)


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


def _extremes(conditioned: Conditioning) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a kernel, which must be resolved."""
    if conditioned.kappa is None:
        raise UnresolvedError("the smallest eigenvalue of an experiment's kernel is not resolved")
    return conditioned.lambda_max / conditioned.kappa, conditioned.lambda_max


def _kappa(kernel: Array) -> float:
    low, high = _extremes(conditioning(kernel))
    return high / low


def _rows(
    seed: int, n: int, d: int, angle: float | None = None, *, norm: float | None = None
) -> Array:
    """Return Gaussian rows (n, d), the second at an ``angle`` to the first and of norm 1.3.

    With a ``norm``, the first row has that one.
    """
    rows = generator(seed, "data").standard_normal((n, d)) / math.sqrt(d)
    if norm is not None:
        rows[0] *= norm / np.linalg.norm(rows[0])
    if angle is not None:
        rows[1] = 1.3 * at_angle(rows[0] / np.linalg.norm(rows[0]), rows[1], angle)
    return rows
