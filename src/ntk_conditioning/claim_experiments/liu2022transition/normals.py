"""Normals of neurons' level sets, which are their gradients: how orthogonal, how constant.

Remark 4, Eqs. (12), (18) and (22), Lemma 1, Theorem 3, Corollary 2 and Figure 3, in networks at
their start on a sample of norm sqrt(d). ``depth`` of a measurement is the hidden layer.
"""

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
from ntk_conditioning.theory.liu2022transition import product_variance_bound
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network, layers
from ntk_conditioning.transition.gradients import LayerAngles, gradient_products, layer_angles
from ntk_conditioning.transition.taylor import Expansion

D = 16
WIDTHS = (64, 128, 256, 512)
BOTTLENECKS = (32, 64, 128, 256)
OUTER = 512
"""Width of the layers beside a bottleneck."""
FEW = 8
"""Neurons in a layer that stays narrow."""
LEVEL = 0.1
RADIUS = 2.0
ACTIVATIONS = ("tanh", "softplus")


def network(
    hidden: list[int], activation: str, seed: int, *, dense: bool = False
) -> tuple[FeedforwardNet, torch.Tensor]:
    """Return a network at its start, and a sample (d,) of norm sqrt(d)."""
    x = math.sqrt(D) * on_sphere(generator(seed, "data"), 1, D)[0]
    rng = generator(seed, "init")
    net = draw_network(D, hidden, activation=activation, generator=rng, dense=dense)
    return net, torch.from_numpy(x)


def _angles(hidden: list[int], activation: str, seed: int) -> list[LayerAngles]:
    net, x = network(hidden, activation, seed)
    return layer_angles(net, x[None], level=LEVEL)


def remark_4(setting: Setting) -> Iterator[Measurement]:
    """Measure the largest |cos| between normals of a two-layer network, by explicit gradients."""
    for width in (4, 32):
        net, x = network([width], "tanh", setting.seeds[0])
        first = net.weights[0].clone().requires_grad_()
        _, sums = layers(net.with_weights([first, net.weights[1]]), x[None])
        rows = [torch.autograd.grad(z, first, retain_graph=True)[0].flatten() for z in sums[0][0]]
        gradients = torch.nn.functional.normalize(torch.stack(rows))
        cosines = (gradients @ gradients.T).fill_diagonal_(0)
        yield Measurement("remark_4", float(cosines.abs().max()), width=width, d=D)


def equation_12(setting: Setting) -> Iterator[Measurement]:
    """Measure the share of pairs of normal vectors of m entries with |w·w'|/m of 0.1 or more."""
    for width in setting.widths:
        w = generator(setting.seeds[0], "init").standard_normal((256, width))
        products = np.abs(w @ w.T / width)[np.triu_indices(len(w), 1)]
        share = float(np.mean(products >= LEVEL))
        yield Measurement("equation_12", share, width=width, at=LEVEL)


def theorem_3(setting: Setting) -> Iterator[Measurement]:
    """Measure products and cosines of gradients in [m, m, m], means of the seeds, and their rates.

    The products of Lemma 1 are those by the weights below the layer; their mean square is compared
    with the variance that Appendix C bounds, C being measured.
    """
    seeds = setting.seeds[:2]
    for name in ACTIVATIONS:
        means: dict[int, list[float]] = {2: [], 3: []}
        for width in WIDTHS:
            by_seed = [_angles([width] * 3, name, seed) for seed in seeds]
            for layer, each in means.items():
                common: dict[str, Any] = {"activation": name, "depth": layer, "width": width}
                angles = [one[layer - 1] for one in by_seed]
                each.append(float(np.mean([one.cos_mean for one in angles])))
                above = float(np.mean([one.cos_above for one in angles]))
                yield Measurement("cos_mean", each[-1], **common)
                yield Measurement("cos_above", above, at=LEVEL, **common)
                if width == WIDTHS[0]:
                    ratio = _variance_over_bound(width, name, seeds[0], layer)
                    yield Measurement("variance_over_bound", ratio, **common)
        for layer, each in means.items():
            slope = exponent(WIDTHS, each)
            yield Measurement("cos_exponent", slope, activation=name, depth=layer)


def _variance_over_bound(width: int, name: str, seed: int, layer: int) -> float:
    net, x = network([width] * 3, name, seed)
    products = list(gradient_products(net, x))[layer - 1]
    pairs = products[~torch.eye(width, dtype=torch.bool)]
    below = layer_angles(net, x[None])[layer - 2].jacobian_norm
    return float(pairs.square().mean()) / product_variance_bound(below, width)


def bottleneck(setting: Setting) -> Iterator[Measurement]:
    """Measure with which power of m_b mean |cos| falls in [512, m_b, 512]: Figure 3, right.

    In the bottleneck, whose normals the width before makes orthogonal, and in the layer after.
    """
    for name in ACTIVATIONS:
        by_width = [
            [_angles([OUTER, width, OUTER], name, seed) for seed in setting.seeds[:2]]
            for width in BOTTLENECKS
        ]
        for layer in (2, 3):
            means = [float(np.mean([one[layer - 1].cos_mean for one in each])) for each in by_width]
            common: dict[str, Any] = {"activation": name, "depth": layer}
            yield Measurement("bottleneck_exponent", exponent(BOTTLENECKS, means), **common)
            for width, mean in zip(BOTTLENECKS, means, strict=True):
                yield Measurement("bottleneck_cos", mean, width=width, **common)


def equation_18(setting: Setting) -> Iterator[Measurement]:
    """Measure sum (δ·n_i)² / |δ|²: the largest of all δ, and that of one δ.

    The largest is the norm of the matrix of cosines. Also with δ along the gradient of the output
    by the weights below the last, and the largest for few neurons after a layer that widens.
    """
    seed = setting.seeds[0]
    for width in WIDTHS:
        angles = _angles([width] * 3, "tanh", seed)
        for layer in (2, 3):
            common: dict[str, Any] = {"activation": "tanh", "depth": layer, "width": width}
            yield Measurement("equation_18", angles[layer - 1].cos_norm, **common)
        net, x = network([width] * 2, "tanh", seed)
        slopes = net.activation.derivative(layers(net, x[None])[1][1][0])
        products = list(gradient_products(net, x))[1]
        lengths = products.diagonal().sqrt()
        a = net.weights[2][0] * slopes * lengths
        cosines = products / lengths / lengths[:, None]
        along = float((cosines @ a).square().sum() / (a @ cosines @ a))
        yield Measurement("equation_18_gradient", along, activation="tanh", width=width)
    before = [width**2 // WIDTHS[0] for width in WIDTHS]
    norms = [_angles([width, FEW], "tanh", seed)[1].cos_norm for width in before]
    yield Measurement("equation_18_narrow", norms[-1], activation="tanh", width=before[-1])
    power = exponent(before, np.subtract(norms, 1))
    yield Measurement("equation_18_narrow_exponent", power, printed=-0.5, activation="tanh")


def equation_22(setting: Setting) -> Iterator[Measurement]:
    """Measure how far the cosine of Eq. (22), as printed over |grad z_i|², is from symmetric.

    The largest over all pairs of cos_ij/cos_ji less 1; an angle has none.
    """
    for width in WIDTHS[:2]:
        net, x = network([width] * 2, "tanh", setting.seeds[0])
        squares = list(gradient_products(net, x))[1].diagonal()
        value = float(squares.max() / squares.min() - 1)
        yield Measurement("equation_22", value, corrected=0.0, activation="tanh", width=width)


def corollary_2(setting: Setting) -> Iterator[Measurement]:
    """Measure how far normals turn along the output's gradient, by a distance of 2.

    The mean 1 - cos of a layer's neurons, and with which power of the width it falls.
    """
    for name in ACTIVATIONS:
        turns: dict[int, list[float]] = {1: [], 2: [], 3: []}
        for width in WIDTHS[:3]:
            pairs = [network([width] * 3, name, seed) for seed in setting.seeds[:3]]
            each = np.mean([_turns(one, _moved(one, x), x) for one, x in pairs], axis=0)
            for layer, means in turns.items():
                means.append(float(each[layer - 1]))
                common: dict[str, Any] = {"activation": name, "depth": layer, "width": width}
                yield Measurement("normals_turn", means[-1], at=RADIUS, **common)
        for layer in (2, 3):
            power = exponent(WIDTHS[:3], turns[layer])
            yield Measurement("normals_turn_exponent", power, activation=name, depth=layer)


def _turns(net: FeedforwardNet, moved: FeedforwardNet, x: torch.Tensor) -> list[float]:
    """Return the mean 1 - cos between a neuron's normals in two networks, for all hidden layers."""
    means = []
    for here, there, across in zip(
        gradient_products(net, x),
        gradient_products(moved, x),
        gradient_products(net, x, moved),
        strict=True,
    ):
        ends = here.diagonal() * there.diagonal()
        means.append(float((1 - across.diagonal() / ends.sqrt()).mean()))
    return means


def _moved(net: FeedforwardNet, x: torch.Tensor) -> FeedforwardNet:
    gradient = Expansion(net, x).gradient
    change = RADIUS * gradient / torch.linalg.vector_norm(gradient)
    parts = torch.split(change, [weight.numel() for weight in net.weights])
    return net.with_weights(
        [weight + part.view_as(weight) for weight, part in zip(net.weights, parts, strict=True)]
    )
