"""How far a network is from linear in its weights, in balls about its initialisation."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import torch
from torch import Tensor

from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2022transition as theory
from ntk_conditioning.transition.feedforward import FeedforwardNet
from ntk_conditioning.transition.gradients import gradient_products
from ntk_conditioning.transition.taylor import Expansion, hessian_norm, largest_terms


def largest_weight(net: FeedforwardNet) -> float:
    """Return the largest absolute weight of the last layer."""
    return float(net.weights[-1].abs().max())


def linearity(
    net: FeedforwardNet, x: Tensor, *, radii: Sequence[float], directions: int, seed: int
) -> list[dict[str, float | None]]:
    """Return, for each radius, the largest values over expansions at the rows of ``x`` (n, d).

    As columns of the table `linearity`. ``directions`` random ones are searched, drawn with the
    ``seed``. A bound is None where its theorem says nothing.
    """
    rows: list[dict[str, float | None]] = [{"radius": radius} for radius in radii]
    for sample in x:
        whole, fixed = (Expansion(net, sample, last_fixed=last) for last in (False, True))
        norm, norm_fixed = hessian_norm(whole), hessian_norm(fixed)
        for row, radius in zip(rows, radii, strict=True):
            rng = generator(seed, "batch")  # any stream but the initialisation's
            search = partial(largest_terms, radius=radius, directions=directions, generator=rng)
            terms = search(whole, eigenvector=norm.eigenvector)
            terms_fixed = search(fixed, eigenvector=norm_fixed.eigenvector)
            bound, bound_fixed = _bounds(net, sample, radius)
            values = {
                "hessian_norm": norm.norm,
                "hessian_residual": norm.residual,
                "hessian_norm_fixed": norm_fixed.norm,
                "quadratic_term": terms.largest,
                **{f"quadratic_{way}": term for way, term in asdict(terms).items()},
                "quadratic_term_fixed": terms_fixed.largest,
                "bound": bound,
                "bound_fixed": bound_fixed,
            }
            for name, value in values.items():  # a network has a bound at all samples or at none
                row[name] = value if value is None else max(value, row.get(name) or 0.0)
    return rows


def _bounds(net: FeedforwardNet, x: Tensor, radius: float) -> tuple[float | None, float | None]:
    """Return Theorem 1's bound, of two-layer networks, and Theorem 4's, where neurons are linear.

    Sub-models of a two-layer network are its neurons; none has a bound with kinks or skips.
    """
    if net.dense or net.activation.kinks:
        return None, None
    weight, whole = largest_weight(net), None
    if len(net.hidden) == 1:
        norm = float(torch.linalg.vector_norm(x)) * net.scale(1)
        smoothness = theory.two_layer_smoothness(net.activation, norm, weight + radius)
        whole = theory.assembly_bound(smoothness, radius, math.sqrt(net.hidden[0]))
    *_, products = gradient_products(net, x)
    smoothness = theory.slope_bounds(net.activation)[1] * float(products.diagonal().max())
    return whole, theory.layer_bound(smoothness, radius, net.hidden[-1], weight)
