"""Quadratic terms and Hessians of deep networks: Theorem 4 and Appendix E."""

import itertools
from functools import partial

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.liu2022transition.normals import network
from ntk_conditioning.claim_experiments.numerics import exponent
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2022transition as theory
from ntk_conditioning.transition.feedforward import FeedforwardNet
from ntk_conditioning.transition.gradients import layer_angles
from ntk_conditioning.transition.taylor import Expansion, hessian_norm, largest_terms

D = 4
WIDTHS = (32, 64, 128, 256)
RADII = (0.25, 1.0, 4.0)
#: Norm of a sample over sqrt(d): so small that a ball of radius 4 is within a parabola's reach.
INPUT = 0.2
FIRST = 1024  # width of a first layer that is far wider than the next


def _network(
    kind: str, width: int, activation: str, seed: int
) -> tuple[FeedforwardNet, torch.Tensor]:
    layouts = {"two_layer": [width], "narrow": [width, 4, width], "sequential": [FIRST, width]}
    hidden = layouts.get(kind, [width, width])
    return network(hidden, activation, seed, d=D, dense=kind == "dense")


def theorem_4(setting: Setting) -> Measurements:
    """Measure the largest |quadratic term| found with the last layer fixed, the largest over seeds.

    As multiples of the bound of Eq. (19), with R, and of that with R²; β is that of neurons with
    linear z, as Theorem 2 takes them. ``at`` is the radius.
    """
    kinds = {"two_layer": WIDTHS[:2], "deep": WIDTHS[:2], "sequential": (16,)}
    for kind, name in itertools.product(kinds, ("tanh", "softplus")):
        for width in kinds[kind]:
            ratios = [_over_bounds(kind, width, name, seed) for seed in setting.seeds[:3]]
            for radius, largest in zip(RADII, np.max(ratios, axis=0), strict=True):
                row = partial(Measurement, activation=name, width=width, at=radius)
                yield row(f"theorem_4_printed_{kind}", largest[0])
                yield row(f"theorem_4_{kind}", largest[1])


def _over_bounds(kind: str, width: int, activation: str, seed: int) -> list[tuple[float, float]]:
    """Return the quadratic term over the printed bound and over that with R², for all radii."""
    net, x = _network(kind, width, activation, seed)
    x *= INPUT
    expansion = Expansion(net, x, last_fixed=True)
    search = partial(largest_terms, eigenvector=hessian_norm(expansion).eigenvector, directions=4)
    squared = layer_angles(net, x[None])[-1].gradient_max
    beta = theory.slope_bounds(net.activation)[1] * squared
    largest = float(net.weights[-1].abs().max())
    ratios = []
    for radius in RADII:
        term = search(expansion, radius, generator=generator(seed, "batch")).largest
        bound = theory.layer_bound(beta, radius, width, largest)
        ratios.append((term / (bound / radius), term / bound))
    return ratios


def rates(setting: Setting) -> Measurements:
    """Measure with which power of m the Hessian's norm falls, all weights free, means of seeds.

    Of softplus: those of tanh carry a factor of the largest output weight, about sqrt(log m).
    """

    def norm(kind: str, width: int) -> float:
        networks = [_network(kind, width, "softplus", seed) for seed in setting.seeds[:3]]
        return float(np.mean([hessian_norm(Expansion(net, x)).norm for net, x in networks]))

    for kind in ("two_layer", "deep", "dense", "narrow"):
        power = exponent(WIDTHS, [norm(kind, width) for width in WIDTHS])
        yield Measurement(f"hessian_exponent_{kind}", power, activation="softplus", d=D)
