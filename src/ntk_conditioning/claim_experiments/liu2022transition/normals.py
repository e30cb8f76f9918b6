"""Normals of neurons' level sets, which are their gradients: how orthogonal, how constant.

Remark 4, Eqs. (11), (12), (15), (18) and (22), Theorem 3, Corollary 2 and Figure 3, in networks at
their start on a sample of norm sqrt(d). ``depth`` of a measurement is the hidden layer.
"""

import itertools
import math
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning.claim_experiments import Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import exponent, on_sphere
from ntk_conditioning.seeds import generator
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network, layers
from ntk_conditioning.transition.gradients import LayerAngles, gradient_products, layer_angles
from ntk_conditioning.transition.taylor import Expansion

D = 16
WIDTHS = (64, 128, 256, 512)
BOTTLENECKS = (32, 64, 128, 256)
OUTER = 512  # width of the layers beside a bottleneck
FEW = 8  # neurons in a layer that stays narrow
LEVEL = 0.1
RADIUS = 2.0
ACTIVATIONS = ("tanh", "softplus")


def network(
    hidden: tuple[int, ...], activation: str, seed: int, *, d: int = D, dense: bool = False
) -> tuple[FeedforwardNet, Tensor]:
    """Return a network at its start, and a sample (d,) of norm sqrt(d)."""
    x = math.sqrt(d) * on_sphere(generator(seed, "data"), 1, d)[0]
    rng = generator(seed, "init")
    net = draw_network(d, hidden, activation=activation, generator=rng, dense=dense)
    return net, torch.from_numpy(x)


@cache
def angles(hidden: tuple[int, ...], activation: str, seed: int) -> list[LayerAngles]:
    """Return the angles in a `network`, kept for other experiments on it."""
    net, x = network(hidden, activation, seed)
    return layer_angles(net, x[None], level=LEVEL)


def gradients(neurons: Tensor, weight: Tensor) -> Tensor:
    """Return the gradients (m, p) of neurons (1, m) by a weight that they were computed from."""
    rows = (torch.autograd.grad(each, weight, retain_graph=True)[0] for each in neurons[0])
    return torch.stack([row.flatten() for row in rows])


def remark_4(setting: Setting) -> Measurements:
    """Measure the largest |cos| between normals of a two-layer network, by explicit gradients."""
    for width in (4, 32):
        net, x = network((width,), "tanh", setting.seeds[0])
        first = net.weights[0].requires_grad_()
        normals = torch.nn.functional.normalize(gradients(layers(net, x[None])[1][0], first))
        cosines = (normals @ normals.T).fill_diagonal_(0)
        yield Measurement("remark_4", cosines.abs().max(), width=width, d=D)


def notation(setting: Setting) -> Measurements:
    """Measure Eqs. (11) and (15) in the second of two layers."""
    wide, norm = 2 * FEW, torch.linalg.vector_norm
    for seed, name in itertools.product(setting.seeds, ACTIVATIONS):
        row = partial(Measurement, activation=name, depth=2, width=FEW, seed=seed)
        net, x = network((wide, FEW), name, seed)
        first, second, _ = net.weights
        first.requires_grad_()
        inputs, sums = layers(net, x[None])
        inner, outer = gradients(inputs[1], first), gradients(sums[1], first)
        yield row("equation_11", norm(outer - second @ inner / math.sqrt(wide)) / norm(outer))
        terms = (second[0] * inputs[1][0]).detach() / math.sqrt(wide)
        yield row("equation_15", sums[1][0, 0].detach(), wide * terms[0], terms.sum())


def equation_12(setting: Setting) -> Measurements:
    """Measure the share of pairs of normal vectors of m entries with |w·w'|/m of 0.1 or more."""
    for seed, width in itertools.product(setting.seeds, setting.widths):
        w = generator(seed, "init").standard_normal((256, width))
        products = np.abs(w @ w.T / width)[np.triu_indices(len(w), 1)]
        share = np.mean(products >= LEVEL)
        yield Measurement("equation_12", share, width=width, seed=seed, at=LEVEL)


def theorem_3(setting: Setting) -> Measurements:
    """Measure the mean |cos| of gradients in [m, m, m], its rate, and the share above a level."""
    for name, seed, layer in itertools.product(ACTIVATIONS, setting.seeds, (2, 3)):
        row = partial(Measurement, activation=name, depth=layer, seed=seed)
        by_width = [angles((width,) * 3, name, seed)[layer - 1] for width in WIDTHS]
        yield row("cos_exponent", exponent(WIDTHS, [each.cos_mean for each in by_width]))
        for width, each in zip(WIDTHS, by_width, strict=True):
            yield row("cos_above", each.cos_above, width=width, at=LEVEL)


def bottleneck(setting: Setting) -> Measurements:
    """Measure with which power of m_b mean |cos| falls in [512, m_b, 512]: Figure 3, right."""
    for name, seed in itertools.product(ACTIVATIONS, setting.seeds):
        by_width = [angles((OUTER, width, OUTER), name, seed) for width in BOTTLENECKS]
        for layer in (2, 3):
            power = exponent(BOTTLENECKS, [each[layer - 1].cos_mean for each in by_width])
            row = partial(Measurement, activation=name, depth=layer, seed=seed)
            yield row("bottleneck_exponent", power)


def equation_18(setting: Setting) -> Measurements:
    """Measure sum (δ·n_i)² / |δ|²: the largest, which is the norm of the matrix of cosines.

    Also that of δ along the output's gradient, and of few neurons after a layer that widens. The
    rates are of the excess over 1.
    """
    before = [width**2 // WIDTHS[0] for width in WIDTHS]
    for seed in setting.seeds:
        row = partial(Measurement, activation="tanh", seed=seed)
        for layer in (2, 3):
            norms = [angles((width,) * 3, "tanh", seed)[layer - 1].cos_norm for width in WIDTHS]
            yield row("equation_18_exponent", exponent(WIDTHS, np.subtract(norms, 1)), depth=layer)
            for width, norm in zip(WIDTHS, norms, strict=True):
                yield row("equation_18", norm, depth=layer, width=width)
        for width in WIDTHS:
            yield row("equation_18_gradient", _along_gradient(width, seed), width=width)
        norms = [angles((width, FEW), "tanh", seed)[1].cos_norm for width in before]
        yield row("equation_18_narrow_exponent", exponent(before, np.subtract(norms, 1)), -0.5)


def _along_gradient(width: int, seed: int) -> float:
    """Return sum (δ·n_i)² / |δ|² for δ along the gradient of the output of [m, m]."""
    net, x = network((width,) * 2, "tanh", seed)
    slopes = net.activation.derivative(layers(net, x[None])[1][1][0])
    products = list(gradient_products(net, x))[1]
    lengths = products.diagonal().sqrt()
    a = net.weights[2][0] * slopes * lengths
    cosines = products / lengths / lengths[:, None]
    return float((cosines @ a).square().sum() / (a @ cosines @ a))


def equation_22(setting: Setting) -> Measurements:
    """Measure how far the cosine of Eq. (22) is from symmetric: cos_ij/cos_ji less 1, of pairs."""
    for seed, width in itertools.product(setting.seeds, WIDTHS[:2]):
        net, x = network((width,) * 2, "tanh", seed)
        squares = list(gradient_products(net, x))[1].diagonal()
        value = squares.max() / squares.min() - 1
        yield Measurement("equation_22", value, None, 0.0, "tanh", width=width, seed=seed)


def corollary_2(setting: Setting) -> Measurements:
    """Measure the mean 1 - cos by which normals turn at a distance of 2 along the gradient."""
    for name, seed in itertools.product(ACTIVATIONS, setting.seeds):
        row, by_width = partial(Measurement, activation=name, seed=seed), []
        for width in WIDTHS[:3]:
            net, x = network((width,) * 3, name, seed)
            by_width.append(turns(net, moved(net, x), x))
            yield row("normals_turn", by_width[-1][0], depth=1, width=width, at=RADIUS)
        for layer in (2, 3):
            power = exponent(WIDTHS[:3], [means[layer - 1] for means in by_width])
            yield row("normals_turn_exponent", power, depth=layer)


def turns(net: FeedforwardNet, moved: FeedforwardNet, x: Tensor) -> list[float]:
    """Return the mean 1 - cos between a neuron's normals in two networks, for all hidden layers."""
    products = (gradient_products(*each) for each in ((net, x), (moved, x), (net, x, moved)))
    means = []
    for here, there, across in zip(*products, strict=True):
        ends = here.diagonal() * there.diagonal()
        means.append(float((1 - across.diagonal() / ends.sqrt()).mean()))
    return means


def moved(net: FeedforwardNet, x: Tensor) -> FeedforwardNet:
    """Return the network whose weights are RADIUS away, along the gradient of the output."""
    gradient = Expansion(net, x).gradient
    change = RADIUS * gradient / torch.linalg.vector_norm(gradient)
    parts = torch.split(change, [weight.numel() for weight in net.weights])
    pairs = zip(net.weights, parts, strict=True)
    return net.with_weights([weight + part.view_as(weight) for weight, part in pairs])
