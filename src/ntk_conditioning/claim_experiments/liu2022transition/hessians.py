"""Quadratic terms and Hessians of deep networks: Theorem 4 and Appendix E."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.fits import exponent
from ntk_conditioning.claim_experiments.samples import on_sphere
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.liu2022transition import (
    layer_bound,
    layer_bound_printed,
    neuron_smoothness,
)
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network
from ntk_conditioning.transition.gradients import layer_angles
from ntk_conditioning.transition.taylor import Expansion, hessian_norm, largest_terms

D = 4
WIDTHS = (32, 64, 128, 256)
RADII = (0.25, 1.0, 4.0)
INPUT = 0.2
"""Norm of a sample over sqrt(d): so small that a ball of radius 4 is within a parabola's reach."""
FIRST = 1024
"""Width of a first layer that is far wider than the next."""


def _network(
    kind: str, width: int, activation: str, seed: int
) -> tuple[FeedforwardNet, torch.Tensor]:
    x = math.sqrt(D) * on_sphere(generator(seed, "data"), 1, D)[0]
    hidden = {"two_layer": [width], "narrow": [width, 4, width], "sequential": [FIRST, width]}
    net = draw_network(
        D,
        hidden.get(kind, [width, width]),
        activation=activation,
        generator=generator(seed, "init"),
        dense=kind == "dense",
    )
    return net, torch.from_numpy(x)


def theorem_4(setting: Setting) -> Iterator[Measurement]:
    """Measure the largest |quadratic term| found with the last layer fixed, the largest over seeds.

    As multiples of the bound of Eq. (19), with R, and of that with R²; β is that of neurons with
    linear z, as Theorem 2 takes them. In networks of one hidden layer, of two of equal width, and
    of two of which the first is far wider, as in the sequential limit. ``at`` is the radius.
    """
    for kind in ("two_layer", "deep", "sequential"):
        for name in ("tanh", "softplus"):
            for width in (16,) if kind == "sequential" else WIDTHS[:2]:
                ratios = [_over_bounds(kind, width, name, seed) for seed in setting.seeds[:3]]
                for k, radius in enumerate(RADII):
                    common: dict[str, Any] = {"activation": name, "width": width, "at": radius}
                    printed, corrected = np.array(ratios)[:, k].max(axis=0)
                    yield Measurement(f"theorem_4_printed_{kind}", float(printed), **common)
                    yield Measurement(f"theorem_4_{kind}", float(corrected), **common)


def _over_bounds(kind: str, width: int, activation: str, seed: int) -> list[tuple[float, float]]:
    """Return the quadratic term over the printed bound and over that with R², for all radii."""
    net, x = _network(kind, width, activation, seed)
    x *= INPUT
    expansion = Expansion(net, x, last_fixed=True)
    vector = hessian_norm(expansion).eigenvector
    squared = layer_angles(net, x[None])[-1].gradient_max
    beta = neuron_smoothness(net.activation, squared)
    largest = float(net.weights[-1].abs().max())
    ratios = []
    for radius in RADII:
        term = largest_terms(
            expansion,
            radius,
            eigenvector=vector,
            directions=4,
            generator=generator(seed, "batch"),
        ).largest
        ratios.append(
            (
                term / layer_bound_printed(beta, radius, width, largest),
                term / layer_bound(beta, radius, width, largest),
            )
        )
    return ratios


def rates(setting: Setting) -> Iterator[Measurement]:
    """Measure with which power of m the Hessian's norm falls, all weights free, means of seeds.

    Of softplus, whose Hessians the cross terms of two layers rule: those of tanh carry a factor of
    the largest output weight, about sqrt(log m).
    """
    for kind in ("two_layer", "deep", "dense", "narrow"):
        norms = [
            np.mean(
                [
                    hessian_norm(Expansion(*_network(kind, width, "softplus", seed))).norm
                    for seed in setting.seeds[:3]
                ]
            )
            for width in WIDTHS
        ]
        power = exponent(WIDTHS, norms)
        yield Measurement(f"hessian_exponent_{kind}", power, activation="softplus", d=D)
