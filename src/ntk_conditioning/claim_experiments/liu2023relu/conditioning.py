"""Eigenvalues of many samples' kernels: Proposition 2.2, Theorem 5.1, what inputs do to kappa."""

import itertools
import math
from collections import defaultdict
from functools import partial

import numpy as np
import torch
from scipy.spatial.distance import squareform

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import exponent
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.along_depth import along_depth
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.mlp import MLP, draw_weights, init_mlp, linear_factor
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import (
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


def close_rows(setting: Setting) -> Measurements:
    """Measure Proposition 2.2: random rows, two of which come closer and closer."""
    for seed in setting.seeds:
        common = partial(Measurement, n=N, d=4 * N, seed=seed)
        lows, kappas = [], []
        for angle in ANGLES:
            b, row = _rows(seed, N, 4 * N, angle), partial(common, at=angle)
            low, high = _extremes(conditioning_from_factor(b))
            lows.append(low)
            kappas.append(high / low)
            norms = np.linalg.norm(b, axis=1)
            bound = theory.lambda_min_bound(norms[0], norms[1], angle)
            yield row("close_rows_lambda_min_over_bound", low / bound)
            yield row("close_rows_kappa_over_bound", high / low / ((norms**2).mean() / bound))
        yield common("close_rows_lambda_min_exponent", exponent(ANGLES, lows))
        yield common("close_rows_kappa_exponent", exponent(ANGLES, kappas))
    for angle in ANGLES:  # two rows of one norm attain the bound
        low, _ = _extremes(conditioning_from_factor(_rows(1, 2, 8, angle, norm=1.3)))
        bound = theory.lambda_min_bound(1.3, 1.3, angle)
        yield Measurement("close_rows_lambda_min_over_bound", low / bound, n=2, d=8, at=angle)


def row_norms(setting: Setting) -> Measurements:
    """Measure Appendix B's c <= λ_max <= C for rows of norms from c to C, at several scales.

    Orthogonal rows of one norm attain the bound c² from below, parallel rows the sum of all squared
    norms from above.
    """
    for seed, scale in itertools.product(setting.seeds, SCALES):
        rows = scale * _rows(seed, N, 4 * N)
        lengths = np.linalg.norm(rows, axis=1)
        for kind, b in (
            ("random", rows),
            ("orthogonal", scale * np.eye(N)),
            ("parallel", np.outer(lengths, unit_rows(rows)[0])),
        ):
            high, norms = np.linalg.norm(b, 2) ** 2, np.linalg.norm(b, axis=1)
            row = partial(Measurement, n=N, d=b.shape[1], seed=seed, at=scale)
            yield row(f"rows_{kind}_lambda_max_above", high, norms.max(), (norms**2).sum())
            yield row(f"rows_{kind}_lambda_max_below", high, norms.min(), (norms**2).min())


def shallow(setting: Setting) -> Measurements:
    """Measure Theorem 5.1: the kernel G * (1 - theta/pi) of Eq. (12)'s network beside G.

    Only the first layer is trained. Lemma D.3 is on the entries' factor P. With ones on P's
    diagonal, λ_min(G * P) >= λ_min(G) and λ_max(G * P) <= λ_max(G) (Schur). A sample at right
    angles to all others is an eigenvector of both: the longest has λ_max, the shortest λ_min. With
    more samples than dimensions G is singular, and λ_min is measured in units of its rounding.
    """
    for seed in setting.seeds:
        x = _rows(seed, N, N // 4)
        found = conditioning(_shallow(x))
        crowded = partial(Measurement, activation="relu", depth=1, n=N, d=N // 4, seed=seed)
        smallest = (found.lambda_min or 0.0) / found.resolution_floor
        yield crowded("shallow_singular_lambda_min", smallest)
        for kind, x in (
            ("random", _rows(seed, N, 2 * N)),
            ("close", _rows(seed, N, 2 * N, 1e-3)),
            ("far", _rows(seed, N, 16 * N)),
            ("orthogonal", np.eye(N)),
            ("longest_apart", _with_one_apart(_rows(seed, N, 2 * N), 10.0)),
            ("shortest_apart", _with_one_apart(_rows(seed, N, 2 * N), 0.1)),
        ):
            gram, d = x @ x.T, x.shape[1]
            row = partial(Measurement, activation="relu", depth=1, n=N, d=d, seed=seed)
            extremes = (_extremes(conditioning(k)) for k in (_shallow(x), gram))
            low, high = (ours / theirs for ours, theirs in zip(*extremes, strict=True))
            yield row(f"shallow_{kind}_lambda_min_over_gram", low)
            yield row(f"shallow_{kind}_lambda_max_over_gram", high)
            yield row(f"shallow_{kind}_kappa_over_gram", high / low)


def _shallow(x: Array) -> Array:
    """Return the kernel (n, n) of Eq. (12)'s network, whose first layer alone is trained."""
    angles = infinite.gradient_angles(x, depth=0, activation="relu")
    return np.asarray(x @ x.T * (1 - angles / math.pi))


def inputs(setting: Setting) -> Measurements:
    """Measure what the inputs' dimension, norms and number do to kappa."""
    for seed in setting.seeds[:3]:  # of many samples, and alike
        yield from _dimensions(setting, seed)
    for seed in setting.seeds:
        yield from _linear(setting, seed)
        yield from _norms(setting, seed)
        yield _rank(seed)


def _dimensions(setting: Setting, seed: int) -> Measurements:
    """Compare ReLU networks with the Gram matrix for n samples on the sphere of dimension d.

    Correlations of a ReLU network's gradients have a mean c > 0 even for inputs at right angles.
    Its kernel has one eigenvalue of about 1 + (n - 1) c, the spike, and a bulk that is better
    conditioned than the Gram matrix: kappa is smaller until n makes the spike larger.
    """
    for n in NUMBERS:
        row = partial(Measurement, activation="relu", n=n, seed=seed)
        by_ratio = []
        for ratio in RATIOS:
            x = unit_rows(_rows(seed, n, int(ratio * n)))
            least, largest = _extremes(conditioning(x @ x.T))
            gram, d, kappas = largest / least, x.shape[1], []
            for kernels in along_depth(x, depths=setting.depths, activation="relu"):
                kernel = conditioning(np.eye(n) + squareform(kernels.ntk.pairs))
                here = partial(row, depth=kernels.depth, d=d, at=ratio)
                low, high = _extremes(kernel)
                kappas.append(high / low / gram)
                yield here("sphere_kappa_over_gram", kappas[-1])
                if ratio == SPIKE:
                    c = math.cos(float(theory.gradient_angle(math.pi / 2, kernels.depth)))
                    yield here("sphere_spike", high, None, 1 + (n - 1) * c)
                    yield here("sphere_bulk_over_gram", _second(kernel) / low / gram)
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
    linear = activations.get("linear")
    for ratio, n, width in itertools.product((1, 16), (8, N), setting.widths):
        d, init = ratio * n, generator(seed, "init")
        x, _ = np.linalg.qr(generator(seed, "data").standard_normal((d, n)))
        # networks share their weights
        *hidden, last = draw_weights(
            d, depth=max(setting.depths), width=width, outputs=1, generator=init
        )
        for depth in setting.depths:
            mlp = MLP((*hidden[:depth], last), linear)
            factor = linear_factor(mlp, torch.from_numpy(x.T.copy()))
            if (kappa := conditioning((factor @ factor.T).numpy()).kappa) is not None:
                row = partial(Measurement, depth=depth, width=width, n=n, d=d, seed=seed)
                yield row("linear_kappa_over_gram", kappa, at=ratio)
                if width >= 8 * n * depth:
                    logs[depth].append((n / width, math.log(kappa)))
    for depth, values in logs.items():
        if len(values) > 2:
            power = exponent(*zip(*values, strict=True))
            yield Measurement("linear_log_kappa_exponent", power, depth=depth, seed=seed)


def _norms(setting: Setting, seed: int) -> Measurements:
    """Compare the kappa of Gaussian samples with that of the same samples on the sphere."""
    x = generator(seed, "data").standard_normal((8 * N, 5))
    row = partial(Measurement, activation="relu", n=len(x), d=5, seed=seed)
    for depth in setting.depths:
        ratio = _kappa(x, depth) / _kappa(unit_rows(x), depth)
        yield row("norms_kappa_ratio", ratio, depth=depth)


def _rank(seed: int) -> Measurement:
    """Count the rank of a network of depth 1 with more samples than width times dimension."""
    width, d, n = 8, 5, 64
    mlp = init_mlp(d, depth=1, width=width, activation="relu", generator=generator(seed, "init"))
    x = torch.from_numpy(generator(seed, "data").standard_normal((n, d)))
    rank = conditioning(ntk(mlp, x).numpy()).numerical_rank
    row = partial(Measurement, activation="relu", depth=1, width=width, n=n, d=d, seed=seed)
    return row("shallow_rank", rank, n, width * d)


def _kappa(x: Array, depth: int) -> float:
    low, high = _extremes(conditioning(infinite.ntk(x, depth=depth, activation="relu")))
    return high / low


def _extremes(conditioned: Conditioning) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a kernel, which must be resolved."""
    if conditioned.kappa is None:
        raise UnresolvedError("the smallest eigenvalue of an experiment's kernel is not resolved")
    return conditioned.lambda_max / conditioned.kappa, conditioned.lambda_max


def _second(conditioned: Conditioning) -> float:
    """Return the second largest eigenvalue."""
    assert conditioned.eigenvalues is not None  # of so few samples all are computed
    return float(conditioned.eigenvalues[1])


def _with_one_apart(x: Array, length: float) -> Array:
    """Return samples (n, d + 1), the first of that length and at right angles to all others."""
    apart = np.pad(x, ((0, 0), (0, 1)))
    apart[0] = 0.0
    apart[0, -1] = length
    return apart


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
        first = rows[0] / np.linalg.norm(rows[0])
        across = rows[1] - (rows[1] @ first) * first
        across /= np.linalg.norm(across)
        rows[1] = 1.3 * (math.cos(angle) * first + math.sin(angle) * across)
    return rows
