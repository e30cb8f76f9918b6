"""Norms behind the proofs: Lemmas 3 and 4, Eqs. (27) and (36), the tails of Appendix C.

``depth`` of a measurement is the hidden layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.fits import exponent
from ntk_conditioning.claim_experiments.liu2022transition.normals import network
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.liu2022transition import (
    cross_term_bound,
    jacobian_bound,
    jacobian_bound_printed,
    matrix_norm_bound,
    matrix_norm_probability,
    slope_bounds,
)
from ntk_conditioning.transition.feedforward import draw_network, layers
from ntk_conditioning.transition.gradients import layer_angles
from ntk_conditioning.transition.taylor import Expansion

WIDTHS = (128, 256, 512, 1024)
COUNTS = (1, 2, 4, 8, 16, 64)
DRAWS = 2000
SMALL = 8
"""Width of networks whose Hessian is dense."""
INPUTS = 64
"""Dimension of samples that are longer than a layer."""


def lemma_3(setting: Setting) -> Iterator[Measurement]:
    """Measure |grad α (grad α)^T| in [m, m, m] beside Eq. (27), and with which power of m it goes.

    C_α² is the largest |α|²/m of all layers, the sample's 1 included.
    """
    seed = setting.seeds[0]
    for name in ("tanh", "softplus", "sigmoid"):
        slope = slope_bounds(activations.get(name)).first
        norms: dict[int, list[float]] = {1: [], 2: [], 3: []}
        for width in WIDTHS:
            net, x = network([width] * 3, name, seed)
            inputs, _ = layers(net, x[None])
            size = max(float(each.square().mean()) for each in inputs)
            for angles in layer_angles(net, x[None]):
                layer, value = angles.layer, angles.jacobian_norm
                norms[layer].append(value)
                yield Measurement(
                    "jacobian_norm",
                    value,
                    printed=jacobian_bound_printed(layer, slope, size),
                    corrected=jacobian_bound(layer, slope, size),
                    activation=name,
                    depth=layer,
                    width=width,
                )
        for layer, each in norms.items():
            power = exponent(WIDTHS, each)
            yield Measurement("jacobian_exponent", power, activation=name, depth=layer)


def lemma_4(setting: Setting) -> Iterator[Measurement]:
    """Measure how often |W| is above 3 sqrt(m), for W of (m, m), and of (m, 64) with m < 64.

    ``printed`` is what Lemma 4 allows.
    """
    rng = generator(setting.seeds[0], "init")
    for statement, columns in (("lemma_4", 0), ("lemma_4_long_inputs", INPUTS)):
        for m in COUNTS[:-1]:
            trials = DRAWS // m
            matrix_norms = np.linalg.norm(
                rng.standard_normal((trials, m, columns or m)), ord=2, axis=(1, 2)
            )
            yield Measurement(
                statement,
                float(np.mean(matrix_norms > matrix_norm_bound(m))),
                printed=1 - matrix_norm_probability(m),
                width=m,
                n=trials,
                d=columns or None,
            )


def lengths(setting: Setting) -> Iterator[Measurement]:
    """Measure how often |w|² is above 5m for normal w; ``printed`` is what Appendix C allows."""
    rng = generator(setting.seeds[0], "init")
    for m in COUNTS:
        squares = np.square(rng.standard_normal((DRAWS, m))).sum(axis=1)
        above = float(np.mean(squares > 5 * m))
        yield Measurement("lengths", above, printed=math.exp(-m), width=m, n=DRAWS)


def cross_term(setting: Setting) -> Iterator[Measurement]:
    """Measure Appendix D's term of both layers, by dense Hessians, for a change of norm 1 in all.

    Its largest value is half of the norm of the mixed block, 1/2 of what Eq. (36) allows. Also the
    norm of the block of the last layer alone, which is zero.
    """
    for seed in setting.seeds[:2]:
        for name in ("tanh", "softplus"):
            rng = generator(seed, "init")
            net = draw_network(3, [SMALL, SMALL], activation=name, generator=rng)
            x = torch.from_numpy(rng.standard_normal(3))
            expansion = Expansion(net, x)
            columns = torch.eye(expansion.size, dtype=torch.float64)
            hessian = torch.stack([expansion.hessian_product(column) for column in columns])
            mixed = float(torch.linalg.matrix_norm(hessian[-SMALL:, :-SMALL], 2)) / 2
            last_block = float(hessian[-SMALL:, -SMALL:].abs().max())
            norm = layer_angles(net, x[None])[-1].jacobian_norm
            bound = cross_term_bound(norm, 1.0, SMALL)
            yield Measurement("cross_term", mixed / bound, activation=name, width=SMALL, seed=seed)
            yield Measurement("own_term", last_block, activation=name, width=SMALL, seed=seed)
