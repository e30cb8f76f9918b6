"""Where Theorem 4.5 ends at finite width: a pair so close that no unit tells it apart.

A pair at angle theta lies on both sides of a unit's hyperplane with probability theta/pi. With m
units per layer that is m theta/pi of them. Below one, the network is linear between the two: its
gradient angle is theta times a constant near 1, that of a random linear map, and kappa grows as
theta^-2 like the Gram matrix's, while at infinite width it grows as theta^-1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.fits import exponent
from ntk_conditioning.claim_experiments.samples import on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.empirical import ntk, pair_angle
from ntk_conditioning.networks.mlp import MLP, init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import (
    Conditioning,
    conditioning,
    conditioning_from_factor,
)
from ntk_conditioning.theory import liu2023relu as theory

Array = NDArray[np.float64]

N, D = 16, 32
ANGLES = np.geomspace(1e-7, 1.0, 22)


def close_pairs(setting: Setting) -> Iterator[Measurement]:
    """Measure gradient angles and kappa as one pair of N samples comes closer.

    ``separation`` is phi / theta_in beside Theorem 4.4's.
    """
    for depth in sorted({min(setting.depths), max(setting.depths)}):
        for seed in setting.seeds:
            samples = {float(at): _samples(seed, float(at)) for at in ANGLES}
            common: dict[str, Any] = {"n": N, "d": D, "seed": seed, "depth": depth}
            measurements: list[Measurement] = []
            for at, x in samples.items():
                kernel = infinite.ntk(x, depth=depth, activation="relu")
                yield from _kappa("gram_kappa", conditioning_from_factor(x), at=at, **common)
                measurements += _kappa("separation_kappa", conditioning(kernel), at=at, **common)
            yield from measurements
            yield from _exponent(measurements, largest=1e-2)
            for width in setting.widths:
                init = generator(seed, "init")
                mlp = init_mlp(D, depth=depth, width=width, activation="relu", generator=init)
                measurements = [
                    each
                    for at, x in samples.items()
                    for each in _finite(mlp, torch.from_numpy(x), at, common)
                ]
                yield from measurements
                yield from _exponent(measurements, largest=0.05 / (width * depth))


def _finite(mlp: MLP, x: Tensor, at: float, common: Mapping[str, Any]) -> Iterator[Measurement]:
    """Yield the first pair's separation by a network, and its kappa."""
    more = {**common, "at": at, "width": mlp.width}
    yield Measurement(
        "separation",
        float(pair_angle(mlp, x[:1], x[1:2])) / at,
        printed=float(theory.gradient_angle(at, mlp.depth)) / at,
        activation="relu",
        **more,
    )
    yield from _kappa("separation_kappa", conditioning(ntk(mlp, x).numpy()), **more)


def _kappa(name: str, conditioned: Conditioning, **common: Any) -> Iterator[Measurement]:
    """Yield a condition number if it is resolved."""
    if conditioned.kappa is not None:
        yield Measurement(name, conditioned.kappa, activation="relu", **common)


def _exponent(measurements: list[Measurement], *, largest: float) -> Iterator[Measurement]:
    """Yield the exponent with which kappa grows as the angle falls, below the ``largest``."""
    kappas = {
        each.at: each
        for each in measurements
        if each.statement == "separation_kappa" and each.at and each.at < largest
    }
    if len(kappas) > 2:
        falls = exponent(list(kappas), [each.value for each in kappas.values()])
        some = next(iter(kappas.values()))
        yield replace(some, statement="separation_kappa_exponent", value=falls, at=None)


def _samples(seed: int, angle: float) -> Array:
    """Return samples (N, D) on the sphere, the first two at an angle."""
    rows = on_sphere(generator(seed, "data"), N, D)
    across = rows[1] - (rows[1] @ rows[0]) * rows[0]
    across /= np.linalg.norm(across)
    rows[1] = math.cos(angle) * rows[0] + math.sin(angle) * across
    return rows
