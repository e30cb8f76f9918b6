"""Normals of neurons' level sets, which are their gradients, and the norms behind their angles.

In networks at their start on a sample of norm sqrt(d). ``depth`` is the hidden layer.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid
from ntk_conditioning.claim_experiments.numerics import exponent, on_sphere
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2022transition as theory
from ntk_conditioning.transition.feedforward import FeedforwardNet, draw_network, layers
from ntk_conditioning.transition.gradients import gradient_products, layer_angles
from ntk_conditioning.transition.linearisation import Expansion

D = 16
WIDTHS = (64, 128, 256, 512)
EQUAL, DEEPER = [(width,) * 3 for width in WIDTHS], (2, 3)  # networks, and layers above the first
FEW = 8  # neurons in a layer that stays narrow
LEVEL = 0.1
RADIUS = 2.0
ACTIVATIONS = ("tanh", "softplus")
COUNTS, DRAWS = (1, 2, 4, 8, 16, 64), 2000


def network(
    hidden: tuple[int, ...], activation: str, seed: int, *, d: int = D, dense: bool = False
) -> tuple[FeedforwardNet, Tensor]:
    """Return a network at its start, and a sample (d,) of norm sqrt(d)."""
    rng = generator(seed, "init")
    net = draw_network(d, hidden, activation=activation, generator=rng, dense=dense)
    return net, torch.from_numpy(math.sqrt(d) * on_sphere(seed, 1, d)[0])


@cache
def angles(hidden: tuple[int, ...], activation: str, seed: int) -> list[dict[str, Any]]:
    """Return the angles in a `network`, kept for other experiments on it."""
    net, x = network(hidden, activation, seed)
    return layer_angles(net, x[None], level=LEVEL)


def measured(
    quantity: str, networks: Sequence[tuple[int, ...]], activation: str, seed: int
) -> Array:
    """Return a quantity of the `angles` in all layers of several networks, (networks, layers)."""
    of_networks = [angles(hidden, activation, seed) for hidden in networks]
    return np.array([[layer[quantity] for layer in layers] for layers in of_networks])


def gradients(neurons: Tensor, weight: Tensor) -> Tensor:
    """Return the gradients (m, p) of neurons (1, m) by a weight that they were computed from."""
    rows = (torch.autograd.grad(neuron, weight, retain_graph=True)[0] for neuron in neurons[0])
    return torch.stack([row.flatten() for row in rows])


def remark_4(setting: Setting) -> Measurements:
    """Measure the largest |cos| between normals of a two-layer network, by explicit gradients."""
    for row, width in grid(width=(4, 32), d=D):
        net, x = network((width,), "tanh", setting.seeds[0])
        first = net.weights[0].requires_grad_()
        normals = torch.nn.functional.normalize(gradients(layers(net, x[None])[1][0], first))
        yield row("remark_4", (normals @ normals.T).fill_diagonal_(0).abs().max())


def notation(setting: Setting) -> Measurements:
    """Measure Eqs. (11) and (15) in the second of two layers."""
    wide, norm = 2 * FEW, torch.linalg.vector_norm
    for row, seed, name in grid(seed=setting.seeds, activation=ACTIVATIONS, depth=2, width=FEW):
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
    for row, seed, width in grid(seed=setting.seeds, width=setting.widths, at=LEVEL):
        w = generator(seed, "init").standard_normal((256, width))
        products = np.abs(w @ w.T / width)[np.triu_indices(len(w), 1)]
        yield row("equation_12", np.mean(products >= LEVEL))


def theorem_3(setting: Setting) -> Measurements:
    """Measure mean |cos| of gradients and its rate in [m, m, m] and Figure 3's [512, m, 512]."""
    narrow = (32, 64, 128, 256)
    for row, name, seed in grid(activation=ACTIVATIONS, seed=setting.seeds):
        means = measured("cos_mean", EQUAL, name, seed)[:, 1:]
        yield row("cos_exponent", exponent(WIDTHS, means), depth=DEEPER)
        for width, above in zip(WIDTHS, measured("cos_above", EQUAL, name, seed), strict=True):
            yield row("cos_above", above[1:], depth=DEEPER, width=width, at=LEVEL)
        means = measured("cos_mean", [(512, width, 512) for width in narrow], name, seed)[:, 1:]
        yield row("bottleneck_exponent", exponent(narrow, means), depth=DEEPER)


def equation_18(setting: Setting) -> Measurements:
    """Measure sum (δ·n_i)² / |δ|²: the largest, which is the norm of the matrix of cosines.

    Also that of δ along the output's gradient, and of few neurons after a layer that widens.
    """
    before = [width**2 // WIDTHS[0] for width in WIDTHS]
    for row, seed in grid(activation="tanh", seed=setting.seeds):
        norms = measured("cos_norm", EQUAL, "tanh", seed)[:, 1:]
        yield row("equation_18_exponent", exponent(WIDTHS, norms - 1), depth=DEEPER)
        few = measured("cos_norm", [(width, FEW) for width in before], "tanh", seed)[:, 1]
        yield row("equation_18_narrow_exponent", exponent(before, few - 1), -0.5)
        for width, norm in zip(WIDTHS, norms, strict=True):
            yield row("equation_18", norm, depth=DEEPER, width=width)
            net, x = network((width,) * 2, "tanh", seed)
            slopes = net.activation.derivative(layers(net, x[None])[1][1][0])
            products = list(gradient_products(net, x))[1]
            a = net.weights[2][0] * slopes
            along = ((products @ a).square() / products.diagonal()).sum() / (a @ products @ a)
            yield row("equation_18_gradient", along, width=width)


def equation_22(setting: Setting) -> Measurements:
    """Measure how far the cosine of Eq. (22) is from symmetric: cos_ij/cos_ji less 1, of pairs."""
    for row, seed, width in grid(activation="tanh", seed=setting.seeds, width=WIDTHS[:2]):
        net, x = network((width,) * 2, "tanh", seed)
        squares = list(gradient_products(net, x))[1].diagonal()
        yield row("equation_22", squares.max() / squares.min() - 1, None, 0.0)


def corollary_2(setting: Setting) -> Measurements:
    """Measure the mean 1 - cos by which normals turn at a distance of 2 along the gradient."""
    for row, name, seed in grid(activation=ACTIVATIONS, seed=setting.seeds):
        nets = [network(hidden, name, seed) for hidden in EQUAL[:3]]
        turns = np.array([rotations(net, moved(net, x), x) for net, x in nets])
        yield row("normals_turn", turns[:, 0], depth=1, width=WIDTHS[:3], at=RADIUS)
        yield row("normals_turn_exponent", exponent(WIDTHS[:3], turns[:, 1:]), depth=DEEPER)


def rotations(net: FeedforwardNet, moved: FeedforwardNet, x: Tensor) -> list[float]:
    """Return the mean 1 - cos between a neuron's normals in two networks, for all hidden layers."""
    pairs = (net, x), (moved, x), (net, x, moved)
    squares = zip(*(gradient_products(*pair) for pair in pairs), strict=True)
    diagonals = ([products.diagonal() for products in layer] for layer in squares)
    return [float((1 - dot / (here * there).sqrt()).mean()) for here, there, dot in diagonals]


def moved(net: FeedforwardNet, x: Tensor) -> FeedforwardNet:
    """Return the network whose weights are RADIUS away, along the gradient of the output."""
    expansion = Expansion(net, x)
    return expansion.network(RADIUS * torch.nn.functional.normalize(expansion.gradient, dim=0))


def lemma_1(setting: Setting) -> Measurements:
    """Measure the products of partial gradients in [m, m, m]: root mean square over pairs, rate.

    Given a neuron's a_j = grad α (grad α)^T w_j the variance is |a_j|²/m².
    """
    for row, name, seed in grid(activation=ACTIVATIONS, seed=setting.seeds):
        norms, squares = measured("jacobian_norm", EQUAL, name, seed), np.empty((len(EQUAL), 3))
        for i, width in enumerate(WIDTHS):
            net, x = network((width,) * 3, name, seed)
            slopes = [net.activation.derivative(z[0]) for z in layers(net, x[None])[1]]
            below = torch.zeros(width, width, dtype=torch.float64)
            for k, products in enumerate(gradient_products(net, x)):
                squares[i, k] = products[~torch.eye(width, dtype=torch.bool)].square().mean()
                if k:
                    keys = {"depth": k + 1, "width": width}
                    yield row("equation_23", squares[i, k], None, below.square().mean(), **keys)
                    given = (net.weights[k] @ below).square().sum(dim=1) / width**2
                    ratio = given.max() / (5 * norms[i, k - 1] ** 2 / width)
                    yield row("variance_over_bound", ratio, **keys)
                below = slopes[k][:, None] * products * slopes[k]
        roots = np.sqrt(squares[:, 1:])
        yield row("product_exponent", exponent(WIDTHS, roots), depth=DEEPER)


def lemma_3(setting: Setting) -> Measurements:
    """Measure |grad α (grad α)^T| and |α| in [m, m, m]: Eq. (27), and their powers of m.

    C_α² is the largest |α|²/m of all layers. Eq. (27) ends in l (9 L_σ²)^l, printed for a sum.
    """
    layer = np.arange(1, 4)
    for row, name, seed in grid(activation=(*ACTIVATIONS, "sigmoid"), seed=setting.seeds):
        norms, lengths = measured("jacobian_norm", EQUAL, name, seed), []
        for width, norm in zip(WIDTHS, norms, strict=True):
            net, x = network((width,) * 3, name, seed)
            slope, _ = theory.slope_bounds(net.activation)
            squares = np.array([alpha.square().mean() for alpha in layers(net, x[None])[0]])
            lengths.append(np.sqrt(squares[1:] * width))
            size, base = slope**2 * squares.max(), 9 * slope**2
            printed, right = layer * base**layer, np.cumsum(base ** (layer - 1))
            yield row("jacobian_norm", norm, printed * size, right * size, depth=layer, width=width)
        yield row("jacobian_exponent", exponent(WIDTHS, norms), depth=layer)
        yield row("length_exponent", exponent(WIDTHS, lengths), depth=layer)


def equation_24(setting: Setting) -> Measurements:
    """Measure |grad α (grad α)^T| in [m, m, m] over the sum of Eq. (24), of measured norms."""
    widths = (WIDTHS[0], WIDTHS[2])
    for row, name, seed, width in grid(activation=ACTIVATIONS, seed=setting.seeds, width=widths):
        net, x = network((width,) * 3, name, seed)
        (inputs, sums), total = layers(net, x[None]), 0.0
        for layer, of_layer in enumerate(angles((width,) * 3, name, seed), start=1):
            slopes = net.activation.derivative(sums[layer - 1][0])
            through = net.scale(layer) * slopes[:, None] * net.weights[layer - 1]
            by_weights = float(slopes.abs().max() ** 2 * inputs[layer - 1].square().mean())
            total = by_weights + float(torch.linalg.matrix_norm(through, 2)) ** 2 * total
            yield row("equation_24", of_layer["jacobian_norm"] / total, depth=layer)


def equation_26(setting: Setting) -> Measurements:
    """Measure |dα/dW|² in the second of two layers beside |Σ'|² |α|²/m, and the last of Eq. (26).

    There C_α sqrt(m) and B_α are half of |α| each, as Eq. (25) allows.
    """
    wide = 8 * FEW
    for row, name, seed in grid(activation=ACTIVATIONS, seed=setting.seeds, width=wide):
        net, x = network((wide, FEW), name, seed)
        second = net.weights[1].requires_grad_()
        inputs, sums = layers(net, x[None])
        value = torch.linalg.matrix_norm(gradients(inputs[2], second), 2).detach() ** 2
        slopes = net.activation.derivative(sums[1].detach())
        slope, _ = theory.slope_bounds(net.activation)
        square = float(inputs[1].square().mean())
        yield row("equation_26", value, None, slopes.abs().max() ** 2 * square)
        # C_α² + B_α²/m as printed, and the square of C_α + B_α/sqrt(m)
        yield row("equation_26_bound", value, slope**2 * square / 2, slope**2 * square)


def lemma_4(setting: Setting) -> Measurements:
    """Measure how often |W| is above 3 sqrt(m), for W of (m, m), and of (m, 64) with m < 64."""
    rng = generator(setting.seeds[0], "init")
    for statement, d in (("lemma_4", None), ("lemma_4_long_inputs", 64)):
        for row, m in grid(width=COUNTS[:-1], d=d):
            norms = np.linalg.norm(rng.standard_normal((DRAWS // m, m, d or m)), 2, axis=(1, 2))
            above, allowed = np.mean(norms > 3 * math.sqrt(m)), 2 * math.exp(-m / 2)
            yield row(statement, above, allowed, n=len(norms))


def equation_28(setting: Setting) -> Measurements:
    """Measure how often |A| is above sqrt(m_a) + sqrt(m_b) + t, and its mean over those roots."""
    rng = generator(setting.seeds[0], "init")
    for draws, rows, columns in ((2000, 1, 1), (1000, 8, 64), (500, 64, 64), (100, 256, 256)):
        norms = np.linalg.norm(rng.standard_normal((draws, rows, columns)), 2, axis=(1, 2))
        roots = math.sqrt(rows) + math.sqrt(columns)
        for row, t in grid(width=rows, d=columns, n=draws, at=(1.5, 2.0, 2.5)):
            yield row("equation_28", np.mean(norms > roots + t), 2 * math.exp(-(t**2) / 2))
        yield row("equation_28_mean", norms.mean() / roots, at=None)


def lengths(setting: Setting) -> Measurements:
    """Measure how often |w|² is above 5m for normal w; ``printed`` is what Appendix C allows."""
    rng = generator(setting.seeds[0], "init")
    for row, m in grid(width=COUNTS, n=DRAWS):
        squares = np.square(rng.standard_normal((DRAWS, m))).sum(axis=1)
        yield row("lengths", np.mean(squares > 5 * m), math.exp(-m))


def cross_term(setting: Setting) -> Measurements:
    """Measure Appendix D's term of both layers over Eq. (36), and that of the last layer, 0."""
    for row, seed, name in grid(seed=setting.seeds, activation=ACTIVATIONS, width=FEW):
        rng = generator(seed, "init")
        net = draw_network(3, [FEW, FEW], activation=name, generator=rng)
        x = torch.from_numpy(rng.standard_normal(3))
        expansion = Expansion(net, x)
        hessian = torch.autograd.functional.hessian(expansion.value, expansion.origin)  # type: ignore[no-untyped-call]
        mixed = float(torch.linalg.matrix_norm(hessian[-FEW:, :-FEW], 2)) / 2
        norm = layer_angles(net, x[None])[-1]["jacobian_norm"]
        yield row("cross_term", mixed / math.sqrt(norm / FEW))
        yield row("own_term", hessian[-FEW:, -FEW:].abs().max())
