"""Crowds of gradients that no cosine tells apart: which of their pairs may have the smallest angle.

Let u be the gradient of one sample, the centre. Those of others are u_i ∝ u/|u| + v_i, v_i being
orthogonal to u, and their changes from u are known to nearly as many digits as u itself, however
small: `gradient_angle`. For the angle θ between two of them

    sin² θ = (|v_i - v_j|² + |v_i|²|v_j|² - <v_i, v_j>²) / ((1 + |v_i|²)(1 + |v_j|²)),

of which the first term alone is a lower bound. One product of the v in float64 has it for all
pairs, up to rounding relative to |v|²: the crowd's own size takes the place of the gradients'.

With d alpha = a alpha + p and d delta = b delta + q as in `gradient_angle`, and m the mean of
a + b + ab over layers, a layer's part of v_i (1 + m) |u| is

    (a + b + ab - m) delta alphaᵀ + (1 + b) delta pᵀ + (1 + a) q alphaᵀ + q pᵀ.

The first three are held as their factors, a scalar, p and q; the last is small of second order, and
its norm counts as an error.
"""

import math

import torch
from torch import Tensor

from ntk_conditioning.angles.gradient_angle import (
    PAIRS_AT_ONCE,
    Change,
    across_from,
    gradient_changes,
    split,
)
from ntk_conditioning.angles.pairs import spans
from ntk_conditioning.networks.mlp import MLP

# Errors of v relative to the changes of alpha and delta. Those of `pair_angle` are a hundredth.
CHANGES = 1e-9
# No centre lies further from a member of its crowd, relative to its gradient.
FURTHEST = 0.5


def most_crowded(pairs: Tensor, *, more_than: int) -> Tensor | None:
    """Return which pairs (k, 2) are among the samples around the one that has most of them.

    These are the partners of this sample and their partners. None if it has no ``more_than``.
    """
    counts = torch.bincount(pairs.flatten())
    centre = counts.argmax()
    if counts[centre] <= more_than:
        return None
    member = torch.zeros_like(counts, dtype=torch.bool)
    member[centre] = True
    for _ in range(2):
        member[pairs[member[pairs].any(dim=1)]] = True
    return member[pairs].all(dim=1)


class Crowd:
    """The gradients at the samples of ``pairs`` (k, 2), rows of ``x``, beside one of them."""

    def __init__(self, mlp: MLP, x: Tensor, pairs: Tensor) -> None:
        self._pairs = pairs
        samples, place, counts = _distinct(pairs)
        self._i, self._j = place.unbind(1)
        x, centre = x[samples], counts.argmax()
        parts = [_across(mlp, x[centre], x[part]) for part in spans(len(x), PAIRS_AT_ONCE)]
        self._v, self._error = (torch.cat(part) for part in zip(*parts, strict=True))
        self._norm = torch.linalg.vector_norm(self._v, dim=1)
        (rows, i, _), (columns, j, _) = _distinct(self._i), _distinct(self._j)
        squares, products = self._norm.square(), (self._v[rows] @ self._v[columns].T)[i, j]
        known = (self._error[self._i] + self._error[self._j]).isfinite()
        distances = squares[self._i] + squares[self._j] - 2 * products
        self._distances = torch.where(known, distances, math.inf)

    def nearest(self) -> Tensor:
        """Return the pair (1, 2) that seems to be the closest."""
        return self._pairs[self._distances.argmin()].unsqueeze(0)

    def possible(self, angle: float) -> Tensor:
        """Return the pairs whose angle may be as small as ``angle``."""
        i, j = self._i, self._j
        unit = torch.finfo(self._v.dtype).eps / 2
        rounding = 4 * (self._v.shape[1] + 8) * unit
        squares = self._distances - rounding * (self._norm[i] + self._norm[j]).square()
        chord = squares.clamp_(min=0).sqrt_() - self._error[i] - self._error[j]
        length = torch.hypot(torch.ones_like(self._norm), self._norm + self._error)
        chord[self._distances.isinf()] = 0  # nothing is known
        excluded = chord > math.sin(min(angle, math.pi / 2)) * length[i] * length[j]
        return self._pairs[~excluded]


def _distinct(numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return distinct numbers of samples, where each is among them, and how often they come.

    `torch.unique` sorts, which takes longer than all that is computed of a million pairs.
    """
    counts = torch.bincount(numbers.flatten())
    distinct = counts.nonzero().squeeze(1)
    place = torch.zeros_like(counts)
    place[distinct] = torch.arange(len(distinct), device=numbers.device)
    return distinct, place[numbers], counts[distinct]


def _across(mlp: MLP, centre: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return v (k, features) and how far off it may be (k,), without a bound for distant rows."""
    base, scale = centre.expand_as(x), x.new_ones(len(x))
    change = x - base
    if mlp.activation.homogeneous or not mlp.depth:  # only directions matter
        factor, change = across_from(base, x)
        scale = factor.squeeze(1)
    layers, u2 = [], x.new_zeros(len(x))
    along, second, size2 = u2.clone(), u2.clone(), u2.clone()
    for alpha, delta in gradient_changes(mlp, Change(base, change)):
        (a, p, alpha2), (b, q, delta2) = split(alpha), split(delta)
        p2, q2 = p.square().sum(dim=1), q.square().sum(dim=1)
        squared = alpha2 * delta2
        u2 += squared
        along += squared * (a + b + a * b)
        second += p2 * q2
        size2 += squared * (a.square() + b.square()) + delta2 * p2 + alpha2 * q2
        p *= ((1 + b) * delta2.sqrt()).unsqueeze(1)
        q *= ((1 + a) * alpha2.sqrt()).unsqueeze(1)
        layers.append((squared.sqrt(), a + b + a * b, p, q))
    mean = along / u2
    parts = [part for root, m, *pq in layers for part in ((root * (m - mean)).unsqueeze(1), *pq)]
    length = u2.sqrt() * (1 + mean)
    v = torch.cat(parts, dim=1) / length.unsqueeze(1)
    error = second.sqrt() / length + CHANGES * (size2 / u2).sqrt()
    close = (scale > 0) & ((size2 / u2).sqrt() < FURTHEST)
    return torch.where(close.unsqueeze(1), v, 0.0), torch.where(close, error, math.inf)
