"""How far a network is from linear in its weights, in balls about its initialisation."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from ntk_conditioning.seeds import generator
from ntk_conditioning.theory import liu2022transition as theory
from ntk_conditioning.transition.feedforward import FeedforwardNet
from ntk_conditioning.transition.gradients import gradient_products
from ntk_conditioning.transition.taylor import Expansion, hessian_norm, largest_terms

#: Columns of the table `linearity`. A bound is None where its theorem says nothing.
Columns: TypeAlias = dict[str, float | None]


def linearity(
    net: FeedforwardNet, x: Tensor, *, radii: Sequence[float], directions: int, seed: int
) -> list[Columns]:
    """Return, for each radius, the largest values over expansions at the rows of ``x`` (n, d).

    ``directions`` random ones are searched, drawn with the ``seed``. A bound that one sample lacks
    is missing.
    """
    expanded = [[*_at_sample(net, sample, radii, directions, seed)] for sample in x]
    return [
        {name: _largest([row[name] for row in rows]) for name in rows[0]}
        for rows in zip(*expanded, strict=True)
    ]


def _largest(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return max(numbers) if len(numbers) == len(values) else None


def largest_weight(net: FeedforwardNet) -> float:
    """Return the largest absolute weight of the last layer."""
    return float(net.weights[-1].abs().max())


def two_layer_bound(net: FeedforwardNet, x: Tensor, radius: float) -> float | None:
    """Return Theorem 1's bound, whose sub-models are the neurons of a two-layer network."""
    if len(net.hidden) != 1 or net.dense or net.activation.kinks:
        return None
    norm = float(torch.linalg.vector_norm(x)) * net.scale(1)
    weight = largest_weight(net) + radius
    smoothness = theory.two_layer_smoothness(net.activation, norm, weight)
    return theory.assembly_bound(smoothness, radius, math.sqrt(net.hidden[0]))


def last_layer_bound(net: FeedforwardNet, x: Tensor, radius: float) -> float | None:
    """Return Theorem 4's bound, with the smoothness that its proof takes: of linear neurons."""
    if net.dense or net.activation.kinks:
        return None
    *_, products = gradient_products(net, x)
    _, curvature = theory.slope_bounds(net.activation)
    smoothness = curvature * float(products.diagonal().max())
    return theory.layer_bound(smoothness, radius, net.hidden[-1], largest_weight(net))


def _at_sample(
    net: FeedforwardNet, x: Tensor, radii: Sequence[float], directions: int, seed: int
) -> Iterator[Columns]:
    whole, fixed = (Expansion(net, x, last_fixed=last) for last in (False, True))
    norm, norm_fixed = hessian_norm(whole), hessian_norm(fixed)
    for radius in radii:
        rng = generator(seed, "batch")  # any stream but the initialisation's
        search = partial(largest_terms, radius=radius, directions=directions, generator=rng)
        terms = search(whole, eigenvector=norm.eigenvector)
        terms_fixed = search(fixed, eigenvector=norm_fixed.eigenvector)
        yield {
            "radius": radius,
            "hessian_norm": norm.norm,
            "hessian_residual": norm.residual,
            "hessian_norm_fixed": norm_fixed.norm,
            "quadratic_term": terms.largest,
            **{f"quadratic_{way}": term for way, term in asdict(terms).items()},
            "quadratic_term_fixed": terms_fixed.largest,
            "bound": two_layer_bound(net, x, radius),
            "bound_fixed": last_layer_bound(net, x, radius),
        }
