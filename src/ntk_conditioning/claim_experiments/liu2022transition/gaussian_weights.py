"""Sub-models with normal weights v_i: Appendix A."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.samples import on_sphere
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.liu2022transition import (
    largest_gaussian_mean,
    largest_gaussian_probability,
    slope_bounds,
)
from ntk_conditioning.transition.feedforward import draw_network
from ntk_conditioning.transition.taylor import Expansion, hessian_norm

COUNTS = (2, 4, 8, 13, 16, 32, 128, 512)
DRAWS = 2000
D = 8
"""Dimension of a sample."""
WIDTHS = tuple(2**k for k in range(6, 19, 2))


def lemma_2(setting: Setting) -> Iterator[Measurement]:
    """Measure how often the largest of m normal variables is above log m, and its mean.

    ``printed`` are Lemma 2's probability, which is above 1 where it says nothing, and log m.
    """
    rng = generator(setting.seeds[0], "init")
    for count in COUNTS:
        largest = np.abs(rng.standard_normal((DRAWS, count))).max(axis=1)
        above = float(np.mean(largest > math.log(count)))
        allowed = 1 - largest_gaussian_probability(count)
        yield Measurement("lemma_2", above, printed=allowed, width=count, n=DRAWS)
        yield Measurement(
            "largest_weight",
            float(largest.mean()),
            printed=math.log(count),
            corrected=largest_gaussian_mean(count),
            width=count,
            n=DRAWS,
        )


def hessian(setting: Setting) -> Iterator[Measurement]:
    """Measure the Hessian's norm by Lanczos, beside max |v_i| |H_gi| / sqrt(m) as ``corrected``."""
    for name in ("tanh", "softplus"):
        sigma = activations.get(name)
        for width in setting.widths[:2]:
            rng = generator(setting.seeds[0], "init")
            network = draw_network(D, [width], activation=sigma, generator=rng)
            x = torch.from_numpy(on_sphere(rng, 1, D)[0])
            z = (network.weights[0] @ x / math.sqrt(D)).numpy()
            step = 1e-4
            bend = (sigma.slopes(z + step) - sigma.slopes(z - step)) / (2 * step) / D
            exact = np.abs(network.weights[1].numpy() * bend).max() / math.sqrt(width)
            norm = hessian_norm(Expansion(network, x, last_fixed=True)).norm
            yield Measurement(
                "gaussian_hessian", norm, corrected=float(exact), activation=name, width=width, d=D
            )


def rate(setting: Setting) -> Iterator[Measurement]:
    """Measure max |v_i| |H_gi| over β log m and over β sqrt(2 log 2m), for z_i ~ N(0, 1)."""
    sigma, step = activations.get("tanh"), 1e-4
    beta = slope_bounds(sigma).second
    for width in WIDTHS:
        largest = []
        for seed in setting.seeds:
            v, z = generator(seed, "init").standard_normal((2, width))
            bend = (sigma.slopes(z + step) - sigma.slopes(z - step)) / (2 * step)
            largest.append(float(np.abs(v * bend).max()))
        value = float(np.mean(largest)) / beta
        for statement, scale in (
            ("log_rate", math.log(width)),
            ("root_log_rate", largest_gaussian_mean(width)),
        ):
            yield Measurement(statement, value / scale, activation="tanh", width=width)
