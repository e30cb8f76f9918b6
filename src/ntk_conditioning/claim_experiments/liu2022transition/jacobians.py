"""Norms behind the proofs of Appendices C and D: Lemmas 1 and 3 to 5, Eqs. (23) to (28) and (36).

Of networks at their start; ``depth`` of a measurement is the hidden layer.
"""

import itertools
import math
from functools import partial

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.liu2022transition.normals import (
    ACTIVATIONS,
    FEW,
    WIDTHS,
    angles,
    gradients,
    network,
)
from ntk_conditioning.claim_experiments.numerics import exponent
from ntk_conditioning.networks import activations
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2022transition as theory
from ntk_conditioning.transition.feedforward import draw_network, layers
from ntk_conditioning.transition.gradients import gradient_products, layer_angles, spectral_norm
from ntk_conditioning.transition.taylor import Expansion

COUNTS, DRAWS = (1, 2, 4, 8, 16, 64), 2000
INPUTS = 64  # dimension of samples that are longer than a layer
#: Shapes of random matrices, how many are drawn, and by how much their norm may be above its mean.
SHAPES, ABOVE = {(1, 1): 2000, (8, 64): 1000, (64, 64): 500, (256, 256): 100}, (1.5, 2.0, 2.5)


def lemma_1(setting: Setting) -> Measurements:
    """Measure the products of partial gradients in [m, m, m]: root mean square over pairs, rate.

    The mean square stands beside that of Eq. (23) for normal w, |grad α (grad α)^T|_F²/m². Given a
    neuron's a_j = grad α (grad α)^T w_j the variance is |a_j|²/m², whose largest is over Appendix
    C's 5C²/m, with C the norm that Lemma 3 bounds.
    """
    for name, seed in itertools.product(ACTIVATIONS, setting.seeds):
        row, roots = partial(Measurement, activation=name, seed=seed), []
        for width in WIDTHS:
            net, x = network((width,) * 3, name, seed)
            slopes = [net.activation.derivative(z[0]) for z in layers(net, x[None])[1]]
            below, squares = None, []
            for layer, products in enumerate(gradient_products(net, x), start=1):
                if below is not None:
                    apart = products[~torch.eye(width, dtype=torch.bool)]
                    squares.append(float(apart.square().mean()))
                    here = partial(row, depth=layer, width=width)
                    exact = float(below.square().sum()) / width**2
                    yield here("equation_23", squares[-1], None, exact)
                    given = (net.weights[layer - 1] @ below).square().sum(dim=1) / width**2
                    allowed = 5 * spectral_norm(below) ** 2 / width
                    yield here("variance_over_bound", float(given.max()) / allowed)
                below = slopes[layer - 1][:, None] * products * slopes[layer - 1]
            roots.append(np.sqrt(squares))
        for layer, values in enumerate(np.transpose(roots), start=2):
            yield row("product_exponent", exponent(WIDTHS, values), depth=layer)


def lemma_3(setting: Setting) -> Measurements:
    """Measure |grad α (grad α)^T| and |α| in [m, m, m]: Eq. (27), and their powers of m.

    C_α² is the largest |α|²/m of all layers, the sample's 1 included.
    """
    for name, seed in itertools.product((*ACTIVATIONS, "sigmoid"), setting.seeds):
        row = partial(Measurement, activation=name, seed=seed)
        slope, _ = theory.slope_bounds(activations.get(name))
        norms, lengths = [], []
        for width in WIDTHS:
            net, x = network((width,) * 3, name, seed)
            squares = [float(each.square().mean()) for each in layers(net, x[None])[0]]
            lengths.append(np.sqrt(np.multiply(squares[1:], width)))
            norms.append([each.jacobian_norm for each in angles((width,) * 3, name, seed)])
            for layer, norm in enumerate(norms[-1], start=1):
                printed = theory.jacobian_bound_printed(layer, slope, max(squares))
                right = theory.jacobian_bound(layer, slope, max(squares))
                yield row("jacobian_norm", norm, printed, right, depth=layer, width=width)
        for layer, (norm, length) in enumerate(
            zip(np.transpose(norms), np.transpose(lengths), strict=True), start=1
        ):
            yield row("jacobian_exponent", exponent(WIDTHS, norm), depth=layer)
            yield row("length_exponent", exponent(WIDTHS, length), depth=layer)


def equation_24(setting: Setting) -> Measurements:
    """Measure |grad α (grad α)^T| in [m, m, m] over the sum of Eq. (24), whose norms are measured.

    |dα/dW|² is the largest σ'² times |α|²/m of the layer before, dα/dα is σ' W/sqrt(m).
    """
    for name, seed, width in itertools.product(ACTIVATIONS, setting.seeds, (WIDTHS[0], WIDTHS[2])):
        net, x = network((width,) * 3, name, seed)
        inputs, sums = layers(net, x[None])
        total, every = 0.0, zip(angles((width,) * 3, name, seed), inputs, sums, strict=False)
        for layer, (measured, alpha, z) in enumerate(every, start=1):
            slopes = net.activation.derivative(z[0])
            through = net.scale(layer) * slopes[:, None] * net.weights[layer - 1]
            by_weights = float(slopes.abs().max() ** 2 * alpha.square().mean())
            total = by_weights + float(torch.linalg.matrix_norm(through, 2)) ** 2 * total
            row = partial(Measurement, activation=name, depth=layer, width=width, seed=seed)
            yield row("equation_24", measured.jacobian_norm / total)


def equation_26(setting: Setting) -> Measurements:
    """Measure |dα/dW|² in the second of two layers beside |Σ'|² |α|²/m, and the last of Eq. (26).

    There C_α sqrt(m) and B_α are half of |α| each, as Eq. (25) allows.
    """
    wide = 8 * FEW
    for name, seed in itertools.product(ACTIVATIONS, setting.seeds):
        net, x = network((wide, FEW), name, seed)
        second = net.weights[1].requires_grad_()
        inputs, sums = layers(net, x[None])
        value = torch.linalg.matrix_norm(gradients(inputs[2], second), 2).detach() ** 2
        slopes = net.activation.derivative(sums[1].detach())
        slope, _ = theory.slope_bounds(net.activation)
        square = float(inputs[1].square().mean())
        row = partial(Measurement, activation=name, width=wide, seed=seed)
        yield row("equation_26", value, None, slopes.abs().max() ** 2 * square)
        c = math.sqrt(square) / 2
        b = c * math.sqrt(wide)
        bounds = c**2 + b**2 / wide, (c + b / math.sqrt(wide)) ** 2
        yield row("equation_26_bound", value, *(slope**2 * each for each in bounds))


def lemma_4(setting: Setting) -> Measurements:
    """Measure how often |W| is above 3 sqrt(m), for W of (m, m), and of (m, 64) with m < 64."""
    rng = generator(setting.seeds[0], "init")
    for (statement, d), m in itertools.product(
        (("lemma_4", None), ("lemma_4_long_inputs", INPUTS)), COUNTS[:-1]
    ):
        norms = _norms(rng, DRAWS // m, m, d or m)
        above, allowed = np.mean(norms > 3 * math.sqrt(m)), 2 * math.exp(-m / 2)
        yield Measurement(statement, above, allowed, width=m, n=len(norms), d=d)


def equation_28(setting: Setting) -> Measurements:
    """Measure how often |A| is above sqrt(m_a) + sqrt(m_b) + t, and its mean over those roots."""
    rng = generator(setting.seeds[0], "init")
    for (rows, columns), draws in SHAPES.items():
        row = partial(Measurement, width=rows, d=columns, n=draws)
        norms, roots = _norms(rng, draws, rows, columns), math.sqrt(rows) + math.sqrt(columns)
        yield row("equation_28_mean", norms.mean() / roots)
        for t in ABOVE:
            above, allowed = np.mean(norms > roots + t), 2 * math.exp(-(t**2) / 2)
            yield row("equation_28", above, allowed, at=t)


def _norms(rng: np.random.Generator, draws: int, rows: int, columns: int) -> Array:
    """Return the norms (draws,) of standard normal matrices."""
    matrices = rng.standard_normal((draws, rows, columns))
    return np.asarray(np.linalg.norm(matrices, ord=2, axis=(1, 2)))


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
    for seed, name in itertools.product(setting.seeds, ACTIVATIONS):
        row = partial(Measurement, activation=name, width=FEW, seed=seed)
        rng = generator(seed, "init")
        net = draw_network(3, [FEW, FEW], activation=name, generator=rng)
        x = torch.from_numpy(rng.standard_normal(3))
        expansion = Expansion(net, x)
        columns = torch.eye(expansion.size, dtype=torch.float64)
        hessian = torch.stack([expansion.hessian_product(column) for column in columns])
        mixed = float(torch.linalg.matrix_norm(hessian[-FEW:, :-FEW], 2)) / 2
        norm = layer_angles(net, x[None])[-1].jacobian_norm
        yield row("cross_term", mixed / math.sqrt(norm / FEW))
        yield row("own_term", hessian[-FEW:, -FEW:].abs().max())
