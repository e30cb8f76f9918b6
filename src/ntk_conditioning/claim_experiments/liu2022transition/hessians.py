"""Hessians of neurons and of deep networks: Theorems 2 and 4, and Appendix E."""

import itertools
from collections.abc import Callable
from functools import partial

import torch
from scipy.optimize import brentq
from torch import Tensor

from ntk_conditioning.claim_experiments import Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.liu2022transition.normals import ACTIVATIONS, network
from ntk_conditioning.claim_experiments.numerics import exponent
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2022transition as theory
from ntk_conditioning.transition.feedforward import FeedforwardNet
from ntk_conditioning.transition.gradients import gradient_products, lanczos, layer_angles
from ntk_conditioning.transition.taylor import Expansion, hessian_norm, largest_terms

D = 4
WIDTHS = (32, 64, 128, 256)
RADII = (0.25, 4.0)
#: Of these the Hessian's norm has no factor of the largest weight, about sqrt(log m), as of tanh.
MILD = ("softplus", "sigmoid")
NEAR = 0.5  # radius in which the tangent planes of level sets are compared with the sets
#: Norm of a sample over sqrt(d): so small that a ball of radius 4 is within a parabola's reach.
INPUT = 0.2
FIRST = 1024  # width of a first layer that is far wider than the next
LANCZOS = {"tol": 1e-2, "ncv": 10}


def level_sets(setting: Setting) -> Measurements:
    """Measure how straight a neuron's level sets are, and how near its Hessian is to c n n^T.

    Of neurons after layers of m: exponents of how far the set is from its tangent plane, and of the
    norm of the Hessian less c n n^T over that of the gradient. ``hessian_slope`` is c over β, that
    of a linear z.
    """
    for name, depth, seed in itertools.product(MILD, (2, 3), setting.seeds):
        row, bends, rests = partial(Measurement, activation=name, depth=depth, seed=seed), [], []
        for width in WIDTHS[:3]:
            net, x = network((*(width,) * (depth - 1), 1), name, seed, d=D)
            last = torch.ones_like(net.weights[-1])  # of one input: the output is the neuron
            neuron = Expansion(net.with_weights([*net.weights[:-1], last]), x, last_fixed=True)
            normal = torch.nn.functional.normalize(neuron.gradient, dim=0)
            c = float(normal @ neuron.hessian_product(normal))
            bends.append(_bend(neuron, normal))
            rests.append(_rest(neuron, normal, c) / float(neuron.gradient @ normal))
            *_, products = gradient_products(net, x)
            beta = theory.slope_bounds(net.activation)[1] * float(products)
            yield row("hessian_slope", c / beta, width=width)
        yield row("level_set_exponent", exponent(WIDTHS[:3], bends))
        yield row("hessian_rest_exponent", exponent(WIDTHS[:3], rests))


def _bend(neuron: Expansion, normal: Tensor) -> float:
    """Return how far the level set through w_0 is from its tangent plane, NEAR from w_0.

    In the direction in which the Hessian bends the set most; along the normal, by a root finder.
    """

    def flat(v: Tensor) -> Tensor:
        return v - normal * (normal @ v)

    def above(distance: float) -> float:
        return float(neuron.value(tangent + distance * normal) - level)

    _, vectors = lanczos(lambda v: flat(neuron.hessian_product(flat(v))), normal, **LANCZOS)
    tangent, level = NEAR * flat(torch.from_numpy(vectors[:, 0])), neuron.value(neuron.origin)
    return abs(float(brentq(above, -NEAR, NEAR)))


def _rest(neuron: Expansion, normal: Tensor, c: float) -> float:
    """Return the norm of the Hessian less c n n^T."""

    def rest(v: Tensor) -> Tensor:
        return neuron.hessian_product(v) - c * normal * (normal @ v)

    return _norm(rest, normal)


def _norm(matrix: Callable[[Tensor], Tensor], like: Tensor) -> float:
    """Return the spectral norm of a symmetric matrix that is given by its products."""
    return float(abs(lanczos(matrix, like, **LANCZOS, return_eigenvectors=False)[0]))


def _network(kind: str, width: int, activation: str, seed: int) -> tuple[FeedforwardNet, Tensor]:
    layouts = {"two_layer": (width,), "narrow": (width, 4, width), "sequential": (FIRST, width)}
    hidden = layouts.get(kind, (width, width))
    return network(hidden, activation, seed, d=D, dense=kind == "dense")


def theorem_4(setting: Setting) -> Measurements:
    """Measure the largest |quadratic term| found with the last layer fixed.

    As multiples of the bound of Eq. (19), with R, and of that with R²; β is that of neurons with
    linear z, as Theorem 2 takes them. ``at`` is the radius.
    """
    kinds = {"two_layer": 64, "deep": 64, "sequential": 16}
    for (kind, width), name, seed in itertools.product(kinds.items(), ACTIVATIONS, setting.seeds):
        ratios = zip(RADII, _over_bounds(kind, width, name, seed), strict=True)
        for radius, (printed, squared) in ratios:
            row = partial(Measurement, activation=name, width=width, seed=seed, at=radius)
            yield row(f"theorem_4_printed_{kind}", printed)
            yield row(f"theorem_4_{kind}", squared)


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
    """Measure with which power of m the Hessian's norm falls, all weights free."""
    for kind, seed in itertools.product(("two_layer", "deep", "dense", "narrow"), setting.seeds):
        networks = (_network(kind, width, MILD[0], seed) for width in WIDTHS)
        expansions = (Expansion(net, x) for net, x in networks)
        norms = [_norm(each.hessian_product, each.origin) for each in expansions]
        power = exponent(WIDTHS, norms)
        yield Measurement(f"hessian_exponent_{kind}", power, None, None, MILD[0], d=D, seed=seed)
