"""Normals of neurons' level sets, which are their gradients: how orthogonal, how constant.

Remark 4, Eqs. (12), (18) and (22), Lemma 1, Theorem 3, Corollary 2 and Figure 3, in networks at
their start on a sample of norm sqrt(d). Norms behind the proofs: Lemmas 3 and 4, Eqs. (27) and
(36), the tails of Appendix C. ``depth`` of a measurement is the hidden layer.
"""

import itertools
import math
from functools import partial

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import exponent, on_sphere
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2022transition as theory
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

JACOBIAN_WIDTHS = (128, 256, 512, 1024)
COUNTS, DRAWS = (1, 2, 4, 8, 16, 64), 2000
SMALL = 8  # width of networks whose Hessian is dense
INPUTS = 64  # dimension of samples that are longer than a layer


def network(
    hidden: list[int], activation: str, seed: int, *, d: int = D, dense: bool = False
) -> tuple[FeedforwardNet, torch.Tensor]:
    """Return a network at its start, and a sample (d,) of norm sqrt(d)."""
    x = math.sqrt(d) * on_sphere(generator(seed, "data"), 1, d)[0]
    rng = generator(seed, "init")
    net = draw_network(d, hidden, activation=activation, generator=rng, dense=dense)
    return net, torch.from_numpy(x)


def _angles(hidden: list[int], activation: str, seed: int) -> list[LayerAngles]:
    net, x = network(hidden, activation, seed)
    return layer_angles(net, x[None], level=LEVEL)


def remark_4(setting: Setting) -> Measurements:
    """Measure the largest |cos| between normals of a two-layer network, by explicit gradients."""
    for width in (4, 32):
        net, x = network([width], "tanh", setting.seeds[0])
        first = net.weights[0].clone().requires_grad_()
        _, sums = layers(net.with_weights([first, net.weights[1]]), x[None])
        rows = [torch.autograd.grad(z, first, retain_graph=True)[0].flatten() for z in sums[0][0]]
        gradients = torch.nn.functional.normalize(torch.stack(rows))
        cosines = (gradients @ gradients.T).fill_diagonal_(0)
        yield Measurement("remark_4", cosines.abs().max(), width=width, d=D)


def equation_12(setting: Setting) -> Measurements:
    """Measure the share of pairs of normal vectors of m entries with |w·w'|/m of 0.1 or more."""
    for width in setting.widths:
        w = generator(setting.seeds[0], "init").standard_normal((256, width))
        products = np.abs(w @ w.T / width)[np.triu_indices(len(w), 1)]
        yield Measurement("equation_12", np.mean(products >= LEVEL), width=width, at=LEVEL)


def theorem_3(setting: Setting) -> Measurements:
    """Measure cosines of gradients in [m, m, m], their rates, and Lemma 1's products.

    The products' mean square is over the 5C²/m of Appendix C, with C of Lemma 3 measured.
    """
    seeds = setting.seeds[:2]
    for name in ACTIVATIONS:
        means: dict[int, list[float]] = {2: [], 3: []}
        for width in WIDTHS:
            by_seed = [_angles([width] * 3, name, seed) for seed in seeds]
            for layer, each in means.items():
                row = partial(Measurement, activation=name, depth=layer, width=width)
                angles = [one[layer - 1] for one in by_seed]
                each.append(float(np.mean([one.cos_mean for one in angles])))
                yield row("cos_mean", each[-1])
                yield row("cos_above", np.mean([one.cos_above for one in angles]), at=LEVEL)
                if width == WIDTHS[0]:
                    net, x = network([width] * 3, name, seeds[0])
                    products = list(gradient_products(net, x))[layer - 1]
                    square = products[~torch.eye(width, dtype=torch.bool)].square().mean()
                    below = layer_angles(net, x[None])[layer - 2].jacobian_norm
                    yield row("variance_over_bound", float(square) / (5 * below**2 / width))
        for layer, each in means.items():
            yield Measurement("cos_exponent", exponent(WIDTHS, each), activation=name, depth=layer)


def bottleneck(setting: Setting) -> Measurements:
    """Measure with which power of m_b mean |cos| falls in [512, m_b, 512]: Figure 3, right."""
    for name in ACTIVATIONS:
        by_width = [
            [_angles([OUTER, width, OUTER], name, seed) for seed in setting.seeds[:2]]
            for width in BOTTLENECKS
        ]
        for layer in (2, 3):
            means = [float(np.mean([one[layer - 1].cos_mean for one in each])) for each in by_width]
            row = partial(Measurement, activation=name, depth=layer)
            yield row("bottleneck_exponent", exponent(BOTTLENECKS, means))
            for width, mean in zip(BOTTLENECKS, means, strict=True):
                yield row("bottleneck_cos", mean, width=width)


def equation_18(setting: Setting) -> Measurements:
    """Measure sum (δ·n_i)² / |δ|²: the largest, which is the norm of the matrix of cosines.

    Also that of δ along the output's gradient, and of few neurons after a layer that widens.
    """
    seed, row = setting.seeds[0], partial(Measurement, activation="tanh")
    for width in WIDTHS:
        angles = _angles([width] * 3, "tanh", seed)
        for layer in (2, 3):
            yield row("equation_18", angles[layer - 1].cos_norm, depth=layer, width=width)
        net, x = network([width] * 2, "tanh", seed)
        slopes = net.activation.derivative(layers(net, x[None])[1][1][0])
        products = list(gradient_products(net, x))[1]
        lengths = products.diagonal().sqrt()
        a = net.weights[2][0] * slopes * lengths
        cosines = products / lengths / lengths[:, None]
        along = (cosines @ a).square().sum() / (a @ cosines @ a)
        yield row("equation_18_gradient", along, width=width)
    before = [width**2 // WIDTHS[0] for width in WIDTHS]
    norms = [_angles([width, FEW], "tanh", seed)[1].cos_norm for width in before]
    yield row("equation_18_narrow", norms[-1], width=before[-1])
    yield row("equation_18_narrow_exponent", exponent(before, np.subtract(norms, 1)), -0.5)


def equation_22(setting: Setting) -> Measurements:
    """Measure how far the cosine of Eq. (22) is from symmetric: cos_ij/cos_ji less 1, of pairs."""
    for width in WIDTHS[:2]:
        net, x = network([width] * 2, "tanh", setting.seeds[0])
        squares = list(gradient_products(net, x))[1].diagonal()
        value = squares.max() / squares.min() - 1
        yield Measurement("equation_22", value, None, 0.0, activation="tanh", width=width)


def corollary_2(setting: Setting) -> Measurements:
    """Measure the mean 1 - cos by which normals turn at a distance of 2 along the gradient."""
    for name in ACTIVATIONS:
        row, by_width = partial(Measurement, activation=name), []
        for width in WIDTHS[:3]:
            networks = [network([width] * 3, name, seed) for seed in setting.seeds[:3]]
            by_width.append(np.mean([turns(net, moved(net, x), x) for net, x in networks], axis=0))
            for layer, mean in enumerate(by_width[-1], start=1):
                yield row("normals_turn", mean, depth=layer, width=width, at=RADIUS)
        for layer in (2, 3):
            power = exponent(WIDTHS[:3], [means[layer - 1] for means in by_width])
            yield row("normals_turn_exponent", power, depth=layer)


def turns(net: FeedforwardNet, moved: FeedforwardNet, x: torch.Tensor) -> list[float]:
    """Return the mean 1 - cos between a neuron's normals in two networks, for all hidden layers."""
    products = (gradient_products(*each) for each in ((net, x), (moved, x), (net, x, moved)))
    means = []
    for here, there, across in zip(*products, strict=True):
        ends = here.diagonal() * there.diagonal()
        means.append(float((1 - across.diagonal() / ends.sqrt()).mean()))
    return means


def moved(net: FeedforwardNet, x: torch.Tensor) -> FeedforwardNet:
    """Return the network whose weights are RADIUS away, along the gradient of the output."""
    gradient = Expansion(net, x).gradient
    change = RADIUS * gradient / torch.linalg.vector_norm(gradient)
    parts = torch.split(change, [weight.numel() for weight in net.weights])
    pairs = zip(net.weights, parts, strict=True)
    return net.with_weights([weight + part.view_as(weight) for weight, part in pairs])


def lemma_3(setting: Setting) -> Measurements:
    """Measure |grad α (grad α)^T| in [m, m, m] beside Eq. (27), and with which power of m it goes.

    C_α² is the largest |α|²/m of all layers, the sample's 1 included.
    """
    for name in ("tanh", "softplus", "sigmoid"):
        row, by_width = partial(Measurement, activation=name), []
        slope, _ = theory.slope_bounds(activations.get(name))
        for width in JACOBIAN_WIDTHS:
            net, x = network([width] * 3, name, setting.seeds[0])
            size = max(float(each.square().mean()) for each in layers(net, x[None])[0])
            by_width.append([angles.jacobian_norm for angles in layer_angles(net, x[None])])
            for layer, norm in enumerate(by_width[-1], start=1):
                printed = theory.jacobian_bound_printed(layer, slope, size)
                right = theory.jacobian_bound(layer, slope, size)
                yield row("jacobian_norm", norm, printed, right, depth=layer, width=width)
        for layer, norms in enumerate(zip(*by_width, strict=True), start=1):
            yield row("jacobian_exponent", exponent(JACOBIAN_WIDTHS, norms), depth=layer)


def lemma_4(setting: Setting) -> Measurements:
    """Measure how often |W| is above 3 sqrt(m), for W of (m, m), and of (m, 64) with m < 64."""
    rng = generator(setting.seeds[0], "init")
    for (statement, d), m in itertools.product(
        (("lemma_4", None), ("lemma_4_long_inputs", INPUTS)), COUNTS[:-1]
    ):
        trials = DRAWS // m
        norms = np.linalg.norm(rng.standard_normal((trials, m, d or m)), ord=2, axis=(1, 2))
        above, allowed = np.mean(norms > 3 * math.sqrt(m)), 2 * math.exp(-m / 2)
        yield Measurement(statement, above, allowed, width=m, n=trials, d=d)


def lengths(setting: Setting) -> Measurements:
    """Measure how often |w|² is above 5m for normal w; ``printed`` is what Appendix C allows."""
    rng = generator(setting.seeds[0], "init")
    for m in COUNTS:
        squares = np.square(rng.standard_normal((DRAWS, m))).sum(axis=1)
        yield Measurement("lengths", np.mean(squares > 5 * m), math.exp(-m), width=m, n=DRAWS)


def cross_term(setting: Setting) -> Measurements:
    """Measure Appendix D's term of both layers over Eq. (36), and that of the last layer, 0.

    By dense Hessians, for a change of norm 1 in all: half of the norm of the mixed block.
    """
    for seed, name in itertools.product(setting.seeds[:2], ("tanh", "softplus")):
        row = partial(Measurement, activation=name, width=SMALL, seed=seed)
        rng = generator(seed, "init")
        net = draw_network(3, [SMALL, SMALL], activation=name, generator=rng)
        x = torch.from_numpy(rng.standard_normal(3))
        expansion = Expansion(net, x)
        columns = torch.eye(expansion.size, dtype=torch.float64)
        hessian = torch.stack([expansion.hessian_product(column) for column in columns])
        mixed = float(torch.linalg.matrix_norm(hessian[-SMALL:, :-SMALL], 2)) / 2
        norm = layer_angles(net, x[None])[-1].jacobian_norm
        yield row("cross_term", mixed / math.sqrt(norm / SMALL))
        yield row("own_term", hessian[-SMALL:, -SMALL:].abs().max())
