"""Eigenvalues of many samples' kernels: Proposition 2.2, Theorem 5.1, what inputs do to kappa."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.fits import exponent
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

Array = NDArray[np.float64]

ANGLES = (1e-1, 1e-2, 1e-3, 1e-4)
N = 32
RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0)
"""Dimension over samples, from far fewer dimensions than samples to nearly orthogonal inputs."""


def close_rows(setting: Setting) -> Iterator[Measurement]:
    """Measure Proposition 2.2: random rows, two of which come closer and closer."""
    for seed in setting.seeds:
        extremes = []
        for angle in ANGLES:
            b = _rows(seed, N, 4 * N, angle)
            low, high = _extremes(conditioning_from_factor(b))
            extremes.append((low, high / low))
            norms = np.linalg.norm(b, axis=1)
            bound = float(theory.lambda_min_bound(norms[0], norms[1], angle))
            common: dict[str, Any] = {"n": N, "d": 4 * N, "seed": seed, "at": angle}
            yield Measurement("close_rows_lambda_min_over_bound", low / bound, **common)
            yield Measurement(
                "close_rows_kappa_over_bound",
                high / low / theory.kappa_lower_bound(norms, 0, 1, angle),
                **common,
            )
            yield Measurement(
                "close_rows_lambda_max",
                high,
                printed=float(norms.max()),
                corrected=float((norms**2).sum()),
                **common,
            )
        for name, values in zip(("lambda_min", "kappa"), zip(*extremes, strict=True), strict=True):
            falls = exponent(ANGLES, values)
            yield Measurement(f"close_rows_{name}_exponent", falls, n=N, d=4 * N, seed=seed)


def shallow(setting: Setting) -> Iterator[Measurement]:
    """Measure Theorem 5.1: the kernel G * (1 - theta/pi) of Eq. (12)'s network beside G.

    Only the first layer is trained. That the entries' factor is right is Lemma D.3's matter. Inputs
    at right angles are the theorem's limiting case: both kernels are the same.
    """
    for seed in setting.seeds:
        for kind, x in (
            ("random", _rows(seed, N, 2 * N)),
            ("close", _rows(seed, N, 2 * N, 1e-3)),
            ("far", _rows(seed, N, 16 * N)),
            ("orthogonal", np.eye(N)),
        ):
            gram = x @ x.T
            kernel = gram * (1 - infinite.gradient_angles(x, depth=0, activation="relu") / math.pi)
            ours, theirs = _extremes(conditioning(kernel)), _extremes(conditioning(gram))
            common: dict[str, Any] = {"activation": "relu", "depth": 1, "n": N, "seed": seed}
            low, high = (mine / other for mine, other in zip(ours, theirs, strict=True))
            for name, ratio in (("lambda_min", low), ("lambda_max", high), ("kappa", high / low)):
                name = f"shallow_{kind}_{name}_over_gram"
                yield Measurement(name, ratio, d=x.shape[1], **common)
        x = _rows(seed, N, 2 * N)
        yield Measurement(
            "gram_size", float(len(x @ x.T)), printed=2.0 * N, corrected=float(N), n=N, d=2 * N,
            seed=seed,
        )  # fmt: skip


def inputs(setting: Setting) -> Iterator[Measurement]:
    """Measure what the inputs' dimension, norms and number do to kappa."""
    for seed in setting.seeds:
        yield from _dimensions(setting, seed)
        yield from _linear(setting, seed)
        yield from _norms(setting, seed)
        yield _rank(seed)


def _dimensions(setting: Setting, seed: int) -> Iterator[Measurement]:
    """Compare ReLU networks with the Gram matrix as inputs on the sphere become orthogonal."""
    common: dict[str, Any] = {"activation": "relu", "n": N, "seed": seed}
    ratios: dict[int, list[float]] = {depth: [] for depth in setting.depths}
    for ratio in RATIOS:
        x = _rows(seed, N, int(ratio * N))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        gram = conditioning_from_factor(x).kappa
        for depth, values in ratios.items():
            low, high = _extremes(conditioning(infinite.ntk(x, depth=depth, activation="relu")))
            # with more samples than dimensions the Gram matrix is singular, and the ratio 0
            values.append(high / low / gram if gram is not None else 0.0)
            yield Measurement(
                "sphere_kappa_over_gram",
                values[-1],
                depth=depth,
                d=x.shape[1],
                at=ratio,
                **common,
            )
    for depth, values in ratios.items():
        resolved = np.array(values) > 0
        logs = np.log(np.array(values)[resolved])
        flip = np.interp(0.0, logs, np.log(np.array(RATIOS)[resolved]))
        yield Measurement("sphere_flip", float(np.exp(flip)), depth=depth, **common)


def _linear(setting: Setting, seed: int) -> Iterator[Measurement]:
    """Compare linear networks of finite width with the Gram matrix."""
    x = _rows(seed, N, 2 * N)
    gram = conditioning_from_factor(x).kappa
    assert gram is not None
    for width in setting.widths:
        for depth in setting.depths:
            init = generator(seed, "init")
            mlp = init_mlp(2 * N, depth=depth, width=width, activation="linear", generator=init)
            kappa = conditioning_from_factor(linear_factor(mlp, torch.from_numpy(x)).numpy()).kappa
            if kappa is not None:
                yield Measurement(
                    "linear_kappa_over_gram",
                    kappa / gram,
                    activation="linear",
                    depth=depth,
                    width=width,
                    n=N,
                    d=2 * N,
                    seed=seed,
                )


def _norms(setting: Setting, seed: int) -> Iterator[Measurement]:
    """Compare Gaussian samples with the same samples on the sphere: kappa and smallest angle."""
    x = generator(seed, "data").standard_normal((8 * N, 5))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for depth in setting.depths:
        common: dict[str, Any] = {"activation": "relu", "depth": depth, "d": 5, "seed": seed}
        kappas, angles = [], []
        for samples in (x, unit):
            low, high = _extremes(
                conditioning(infinite.ntk(samples, depth=depth, activation="relu"))
            )
            kappas.append(high / low)
            angles.append(infinite.min_angle(samples, depth=depth, activation="relu").degrees)
        yield Measurement("norms_kappa_ratio", kappas[0] / kappas[1], n=len(x), **common)
        yield Measurement("norms_angle_ratio", angles[0] / angles[1], n=len(x), **common)


def _rank(seed: int) -> Measurement:
    """Count the rank of a network of depth 1 with more samples than width times dimension."""
    width, d, n = 8, 5, 64
    mlp = init_mlp(d, depth=1, width=width, activation="relu", generator=generator(seed, "init"))
    x = torch.from_numpy(generator(seed, "data").standard_normal((n, d)))
    rank = conditioning(ntk(mlp, x).numpy()).numerical_rank
    return Measurement(
        "shallow_rank", float(rank), printed=float(n), corrected=float(width * d),
        activation="relu", depth=1, width=width, n=n, d=d, seed=seed,
    )  # fmt: skip


def _extremes(conditioned: Conditioning) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a kernel that is resolved.

    Raises:
        UnresolvedError: if it is not.
    """
    if conditioned.kappa is None:
        raise UnresolvedError("the smallest eigenvalue of an experiment's kernel is not resolved")
    return conditioned.lambda_max / conditioned.kappa, conditioned.lambda_max


def _rows(seed: int, n: int, d: int, angle: float | None = None) -> Array:
    """Return Gaussian rows (n, d), the second at an ``angle`` to the first and of another norm."""
    rows = generator(seed, "data").standard_normal((n, d)) / math.sqrt(d)
    if angle is not None:
        first = rows[0] / np.linalg.norm(rows[0])
        across = rows[1] - (rows[1] @ first) * first
        across /= np.linalg.norm(across)
        rows[1] = 1.3 * (math.cos(angle) * first + math.sin(angle) * across)
    return rows
