"""Eigenvalues of many samples' kernels: Proposition 2.2, Theorem 5.1, what inputs do to kappa."""

import itertools
import math
from functools import partial

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import exponent
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks.mlp import init_mlp, linear_factor
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import (
    Conditioning,
    UnresolvedError,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.theory import liu2023relu as theory

ANGLES = (1e-1, 1e-2, 1e-3, 1e-4)
N = 32
#: Dimension over samples, from far fewer dimensions than samples to nearly orthogonal inputs.
RATIOS = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0])


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
            yield row("close_rows_lambda_max", high, norms.max(), (norms**2).sum())
        yield common("close_rows_lambda_min_exponent", exponent(ANGLES, lows))
        yield common("close_rows_kappa_exponent", exponent(ANGLES, kappas))


def shallow(setting: Setting) -> Measurements:
    """Measure Theorem 5.1: the kernel G * (1 - theta/pi) of Eq. (12)'s network beside G.

    Only the first layer is trained. Lemma D.3 is on the entries' factor. For inputs at right angles
    both kernels are the same.
    """
    for seed in setting.seeds:
        for kind, x in (
            ("random", _rows(seed, N, 2 * N)),
            ("close", _rows(seed, N, 2 * N, 1e-3)),
            ("far", _rows(seed, N, 16 * N)),
            ("orthogonal", np.eye(N)),
        ):
            gram, d = x @ x.T, x.shape[1]
            row = partial(Measurement, activation="relu", depth=1, n=N, d=d, seed=seed)
            kernel = gram * (1 - infinite.gradient_angles(x, depth=0, activation="relu") / math.pi)
            extremes = (_extremes(conditioning(k)) for k in (kernel, gram))
            low, high = (ours / theirs for ours, theirs in zip(*extremes, strict=True))
            yield row(f"shallow_{kind}_lambda_min_over_gram", low)
            yield row(f"shallow_{kind}_lambda_max_over_gram", high)
            yield row(f"shallow_{kind}_kappa_over_gram", high / low)
        x = _rows(seed, N, 2 * N)
        yield Measurement("gram_size", len(x @ x.T), 2 * N, N, n=N, d=2 * N, seed=seed)


def inputs(setting: Setting) -> Measurements:
    """Measure what the inputs' dimension, norms and number do to kappa."""
    for seed in setting.seeds:
        yield from _dimensions(setting, seed)
        yield from _linear(setting, seed)
        yield from _norms(setting, seed)
        yield _rank(seed)


def _dimensions(setting: Setting, seed: int) -> Measurements:
    """Compare ReLU networks with the Gram matrix as inputs on the sphere become orthogonal."""
    row = partial(Measurement, activation="relu", n=N, seed=seed)
    by_ratio = []
    for ratio in RATIOS:
        x = _unit(_rows(seed, N, int(ratio * N)))
        gram, d = conditioning_from_factor(x).kappa, x.shape[1]
        # with more samples than dimensions the Gram matrix is singular, and the ratio 0
        kappas = [_kappa(x, depth) / gram if gram is not None else 0.0 for depth in setting.depths]
        for depth, kappa in zip(setting.depths, kappas, strict=True):
            yield row("sphere_kappa_over_gram", kappa, depth=depth, d=d, at=ratio)
        by_ratio.append(kappas)
    for depth, values in zip(setting.depths, np.transpose(by_ratio), strict=True):
        known = values > 0
        flip = np.exp(np.interp(0.0, np.log(values[known]), np.log(RATIOS[known])))
        yield row("sphere_flip", flip, depth=depth)


def _linear(setting: Setting, seed: int) -> Measurements:
    """Compare linear networks of finite width with the Gram matrix."""
    x = _rows(seed, N, 2 * N)
    low, high = _extremes(conditioning_from_factor(x))
    row = partial(Measurement, activation="linear", n=N, d=2 * N, seed=seed)
    for width, depth in itertools.product(setting.widths, setting.depths):
        init = generator(seed, "init")
        mlp = init_mlp(2 * N, depth=depth, width=width, activation="linear", generator=init)
        kappa = conditioning_from_factor(linear_factor(mlp, torch.from_numpy(x)).numpy()).kappa
        if kappa is not None:
            yield row("linear_kappa_over_gram", kappa / (high / low), depth=depth, width=width)


def _norms(setting: Setting, seed: int) -> Measurements:
    """Compare Gaussian samples with the same samples on the sphere: kappa and smallest angle."""
    x = generator(seed, "data").standard_normal((8 * N, 5))
    row = partial(Measurement, activation="relu", n=len(x), d=5, seed=seed)
    for depth in setting.depths:
        (kappa, angle), (kappa2, angle2) = (
            (_kappa(each, depth), infinite.min_angle(each, depth=depth, activation="relu").degrees)
            for each in (x, _unit(x))
        )
        yield row("norms_kappa_ratio", kappa / kappa2, depth=depth)
        yield row("norms_angle_ratio", angle / angle2, depth=depth)


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


def _unit(x: Array) -> Array:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def _rows(seed: int, n: int, d: int, angle: float | None = None) -> Array:
    """Return Gaussian rows (n, d), the second at an ``angle`` to the first and of another norm."""
    rows = generator(seed, "data").standard_normal((n, d)) / math.sqrt(d)
    if angle is not None:
        first = rows[0] / np.linalg.norm(rows[0])
        across = rows[1] - (rows[1] @ first) * first
        across /= np.linalg.norm(across)
        rows[1] = 1.3 * (math.cos(angle) * first + math.sin(angle) * across)
    return rows
