"""Angle between the gradients of two samples, accurate however small it is.

The difference of the samples is carried through the network beside the sample itself: alpha and its
change forward, delta and its change backward. A cosine could not tell angles of 1e-9 from 0. So
tensors (2, k, m) have a quantity at the first sample of each pair, and its change to the second.
"""

from typing import Any

import torch
from torch import Tensor
from torch.linalg import vecdot

from ntk_conditioning.angles.directions import split_along
from ntk_conditioning.angles.pairs import ZeroRowError
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.networks.mlp import MLP, ShapeError, check_inputs

vjp: Any = torch.autograd.functional.vjp  # which has no types

PAIRS_AT_ONCE = 256
# The relative error of sigma(z + dz) - sigma(z) is about eps/|dz|, that of the midpoint rule about
# dz²/24: changing over here, neither is much above 1e-11.
MIDPOINT_BELOW = 1e-5
# Squares of smaller norms lose digits to underflow.
SMALLEST_NORM = 2.0**-500


class NonFiniteGradientError(UserError):
    """The gradient at a sample, or its square, leaves float64's range: there is no angle to it."""


class ZeroGradientError(ZeroRowError):
    """The network's gradient at a sample is zero, so that no angle to it exists."""


@torch.no_grad()
def pair_angle(mlp: MLP, x1: Tensor, x2: Tensor) -> Tensor:
    """Return the angles (k,) in radians between the gradients at the rows of ``x1`` and ``x2``.

    Row i of ``x1`` (k, d) is paired with row i of ``x2`` (k, d). The result is in float64 and on
    the network's device, whatever its dtype; angles of 1e-9 keep seven digits, larger ones more.

    Raises:
        ShapeError: if the rows do not fit the network or each other.
        ZeroGradientError: if a gradient is zero.
        NonFiniteGradientError: if the square of one leaves float64's range.

    >>> from ntk_conditioning.networks import activations
    >>> model = MLP((torch.ones(1, 2, dtype=torch.float64),), activations.get("linear"))
    >>> x1, x2 = torch.tensor([[[1.0, 0.0]], [[3.0, 3e-10]]], dtype=torch.float64)
    >>> round(pair_angle(model, x1, x2).item() / 1e-10, 12)
    1.0
    """
    check_inputs(mlp, x1)
    check_inputs(mlp, x2)
    if x1.shape != x2.shape:
        raise ShapeError(f"{len(x1)} rows cannot be paired with {len(x2)}")
    exact = mlp.to(torch.float64)
    chunks = zip(*(torch.split(x.double(), PAIRS_AT_ONCE) for x in (x1, x2)), strict=True)
    return torch.cat([_pair_angle(exact, *pairs) for pairs in chunks])


def _pair_angle(mlp: MLP, x1: Tensor, x2: Tensor) -> Tensor:
    parts = [_layer_parts(*layer) for layer in _gradient_changes(mlp, _first_change(mlp, x1, x2))]
    squared, along, across, squared_moved = (torch.stack(part) for part in zip(*parts, strict=True))
    u2 = squared.sum(dim=0)
    norms2 = torch.stack([u2, squared_moved.sum(dim=0)])
    if (norms2 == 0).any():
        problem = "a gradient of the pair is zero, or its square underflows; it has no direction"
        raise ZeroGradientError(problem)
    mean = (squared * along).sum(dim=0) / u2
    across2 = (across + squared * (along - mean).square()).sum(dim=0)
    angles = torch.atan2((across2 / u2).sqrt(), 1 + mean)
    if not ((norms2 >= SMALLEST_NORM**2) & norms2.isfinite() & angles.isfinite()).all():
        raise NonFiniteGradientError(
            "a gradient of the pair is too small or too large to square; scale the samples"
        )
    return angles


def _gradient_changes(mlp: MLP, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return alpha and delta of each layer's gradient, the last layer first."""
    alphas, slopes = [x], []
    for layer, weight in enumerate(mlp.weights[:-1], start=1):
        values, slope = _activation_change(mlp.activation, *(alphas[-1] @ weight.T))
        alphas.append(values * mlp.scale(layer))
        slopes.append(slope * mlp.scale(layer))

    ones = x.new_ones(x.shape[1], 1)
    delta = torch.stack([ones, 0 * ones])
    changes = [(alphas[-1], delta)]
    for layer in range(mlp.depth, 0, -1):
        (slope, d_slope), back = slopes[layer - 1], delta @ mlp.weights[layer]
        delta = torch.stack([slope * back[0], slope * back[1] + d_slope * back.sum(dim=0)])
        changes.append((alphas[layer - 1], delta))
    return changes


def _first_change(mlp: MLP, x1: Tensor, x2: Tensor) -> Tensor:
    """Return the shorter row of each pair, and its change: one to a far shorter row would cancel.

    The gradient of a homogeneous network grows with its input and keeps its direction. So of rows
    at less than 60 degrees the longer is shrunk until the difference is orthogonal to the shorter.
    """
    norm1, norm2 = (torch.linalg.vector_norm(x, dim=1, keepdim=True) for x in (x1, x2))
    base, other = torch.where(norm1 <= norm2, x1, x2), torch.where(norm1 <= norm2, x2, x1)
    if mlp.depth and not mlp.activation.homogeneous:
        return torch.stack([base, other - base])
    scale, across = split_along(other, base)
    near = scale * torch.minimum(norm1, norm2) > 0.5 * torch.maximum(norm1, norm2)
    return torch.stack([base, torch.where(near, across / scale, other - base)])


def _layer_parts(alpha: Tensor, delta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return of one layer's gradient u = delta alpha^T and its change du, all (k,):

    |u|², the part c of du = c u + r with r orthogonal to u, |r|², and |u + du|².

    With d alpha = a alpha + p and d delta = b delta + q, where p is orthogonal to alpha and q to
    delta, the four terms of

        du = (a + b + ab) delta alpha^T + (1 + b) delta p^T + (1 + a) q alpha^T + q p^T

    are orthogonal. So |r|² is a sum of squares, free of the cancellation in |du|² - <u, du>²/|u|².
    """
    (a, p2, alpha2), (b, q2, delta2) = _split(alpha), _split(delta)
    across = (1 + b).square() * delta2 * p2 + (1 + a).square() * alpha2 * q2 + p2 * q2
    moved, d_moved = (change.sum(dim=0) for change in (alpha, delta))
    squared_moved = vecdot(moved, moved) * vecdot(d_moved, d_moved)
    return alpha2 * delta2, a + b + a * b, across, squared_moved


def _split(change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return c, |r|² and |v|² of dv = c v + r with r orthogonal to v, row by row."""
    v, dv = change
    squared = vecdot(v, v)
    c = torch.where(squared > 0, vecdot(v, dv) / squared, 0.0)
    r = dv - c.unsqueeze(1) * v
    return c, vecdot(r, r), squared


def _activation_change(activation: Activation, z: Tensor, dz: Tensor) -> tuple[Tensor, Tensor]:
    """Return sigma and sigma' at pre-activations ``z``, and their changes with ``dz``."""
    value, slope = activation.function(z), activation.derivative(z)
    d_value = activation.function(z + dz) - value
    d_slope = activation.derivative(z + dz) - slope
    ones = torch.ones_like(z)
    same_side = ones.bool()
    for edge in (0.0, *activation.kinks):  # at 0 a kink need not be declared
        same_side &= (z > edge) == (z + dz > edge)
    if activation.homogeneous:  # linear on either side of 0, where d_slope is exactly 0
        d_value = torch.where(same_side, slope * dz, d_value)
    else:
        near, middle = same_side & (dz.abs() < MIDPOINT_BELOW), z + dz / 2
        d_value = torch.where(near, dz * activation.derivative(middle), d_value)
        _, curvature = vjp(activation.derivative, middle, ones)
        d_slope = torch.where(near, dz * curvature, d_slope)
    return torch.stack([value, d_value]), torch.stack([slope, d_slope])
