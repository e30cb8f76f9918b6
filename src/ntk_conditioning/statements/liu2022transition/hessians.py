"""Quadratic terms and Hessians of deep networks: Theorem 4 and Appendix E."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ntk_conditioning.assembly.gradients import layer_angles
from ntk_conditioning.assembly.networks import Assembly, draw_assembly
from ntk_conditioning.assembly.taylor import Expansion, hessian_norm, largest_terms
from ntk_conditioning.seeds import generator
from ntk_conditioning.statements import Measurement, Setting
from ntk_conditioning.statements.fits import exponent
from ntk_conditioning.statements.samples import on_sphere
from ntk_conditioning.theory.liu2022transition import (
    layer_bound,
    layer_bound_printed,
    neuron_smoothness,
)

D = 4
WIDTHS = (16, 32, 64, 128)
RADII = (0.25, 1.0, 4.0)
INPUT = 0.2
"""Norm of a sample over sqrt(d): so small that a ball of radius 4 is within a parabola's reach."""
HIDDEN = {
    "two_layer": lambda m: [m],
    "deep": lambda m: [m, m],
    "dense": lambda m: [m, m],
    "narrow": lambda m: [m, 4, m],
}


def _network(kind: str, width: int, activation: str, seed: int) -> tuple[Assembly, torch.Tensor]:
    x = math.sqrt(D) * on_sphere(generator(seed, "data"), 1, D)[0]
    found = draw_assembly(
        D,
        HIDDEN[kind](width),
        activation=activation,
        generator=generator(seed, "init"),
        dense=kind == "dense",
    )
    return found, torch.from_numpy(x)


def theorem_4(setting: Setting) -> Iterator[Measurement]:
    """Measure the largest |quadratic term| found with the last layer fixed.

    ``printed`` is the bound of Eq. (19), with R, ``corrected`` that with R². β is that of neurons
    with linear z, as Theorem 2 takes them. ``at`` is the radius, ``depth`` the hidden layers.
    """
    seed = setting.seeds[0]
    for kind, depth in (("two_layer", 1), ("deep", 2)):
        for name in ("tanh", "softplus"):
            for width in WIDTHS[1:3]:
                found, x = _network(kind, width, name, seed)
                x *= INPUT
                expansion = Expansion(found, x, last_fixed=True)
                vector = hessian_norm(expansion).eigenvector
                squared = layer_angles(found, x[None])[-1].gradient_max
                beta = neuron_smoothness(found.activation, squared)
                largest = float(found.weights[-1].abs().max())
                for radius in RADII:
                    terms = largest_terms(
                        expansion,
                        radius,
                        eigenvector=vector,
                        directions=4,
                        generator=generator(seed, "batch"),
                    )
                    common: dict[str, Any] = {"activation": name, "depth": depth, "width": width}
                    yield Measurement(
                        "theorem_4",
                        terms.largest,
                        printed=layer_bound_printed(beta, radius, width, largest),
                        corrected=layer_bound(beta, radius, width, largest),
                        at=radius,
                        **common,
                    )


def rates(setting: Setting) -> Iterator[Measurement]:
    """Measure with which power of m the Hessian's norm falls, all weights free."""
    for kind in HIDDEN:
        norms = []
        for width in WIDTHS:
            each = []
            for seed in setting.seeds[:3]:
                found, x = _network(kind, width, "tanh", seed)
                each.append(hessian_norm(Expansion(found, x)).norm)
            norms.append(float(np.mean(each)))
        power = exponent(WIDTHS, norms)
        yield Measurement(f"hessian_exponent_{kind}", power, activation="tanh", d=D)
