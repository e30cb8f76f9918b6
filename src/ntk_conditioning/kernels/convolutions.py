"""Convolutions in any dimension as products of unfolded samples.

torch's float64 convolutions on a CPU run far below the rate of a matrix product. Here the windows
of a few samples at a time, so many as stay in the caches, are laid out as rows of a matrix.
Samples (n, channels, ...) are kept with the channels last in memory, so that a row is made of few
runs. The dimensions behind the channels are called places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

#: Bytes of the windows that are laid out at once.
UNFOLDED = 2**22


@dataclass(frozen=True)
class Geometry:
    """How the windows of a convolution lie: a number for each dimension of places."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def windows(self, places: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many windows there are in each dimension."""
        options = zip(places, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple((m + 2 * p - d * (k - 1) - 1) // s + 1 for m, k, s, p, d in options)


def same_padding(x: Tensor, kernel: tuple[int, ...], dilation: tuple[int, ...]) -> Tensor:
    """Return ``x`` with the zeros around it that torch calls padding="same"."""
    sides: list[int] = []
    for k, d in zip(reversed(kernel), reversed(dilation), strict=True):
        around = d * (k - 1)
        sides += [around // 2, around - around // 2]
    return functional.pad(x, sides)


def unfold(x: Tensor, g: Geometry) -> Tensor:
    """Return the windows (n, groups, positions, kernel · channels/groups) of ``x``."""
    n, channels = x.shape[:2]
    places = tuple(x.shape[2:])
    x = x.movedim(1, -1)
    if any(g.padding):
        x = functional.pad(x, [0, 0, *(p for side in reversed(g.padding) for p in (side, side))])
    else:
        x = x.contiguous()
    out, steps = g.windows(places), x.stride()[1:-1]
    size = (n, *out, *g.kernel, g.groups, channels // g.groups)
    apart = [a * b for a, b in zip(steps, g.stride, strict=True)]
    within = [a * b for a, b in zip(steps, g.dilation, strict=True)]
    strides = (x.stride(0), *apart, *within, channels // g.groups, 1)
    windows = x.as_strided(size, strides, x.storage_offset())
    if g.groups > 1:
        windows = windows.movedim(-2, 1)
        return windows.reshape(n, g.groups, math.prod(out), -1)
    return windows.reshape(n, 1, math.prod(out), -1)


def positions(y: Tensor, groups: int) -> Tensor:
    """Return ``y`` (n, channels, ...) as (n, groups, positions, channels/groups)."""
    n, channels = y.shape[:2]
    y = y.movedim(1, -1).reshape(n, -1, groups, channels // groups)
    return y.movedim(2, 1)


def parts(x: Tensor, g: Geometry) -> Iterator[slice]:
    """Yield so many samples at a time that their windows stay in the caches."""
    windows = math.prod(g.windows(tuple(x.shape[2:]))) * math.prod(g.kernel)
    size = max(1, UNFOLDED // (windows * x.shape[1] * x.element_size()))
    yield from (slice(top, top + size) for top in range(0, len(x), size))


def weight_gradients(x: Tensor, delta: Tensor, g: Geometry) -> Tensor:
    """Return the gradients (n, out, in/groups, *kernel) by the weight of a convolution.

    ``x`` (n, in, ...) are its inputs and ``delta`` (n, out, ...) the gradients at its outputs.
    """
    n, inputs, outputs = len(x), x.shape[1], delta.shape[1]
    k = math.prod(g.kernel)
    result = x.new_empty(n, g.groups, outputs // g.groups, inputs // g.groups, k)
    rows = positions(delta, g.groups)
    for part in parts(x, g):
        gradients = rows[part].mT @ unfold(x[part], g)
        gradients = gradients.view(*gradients.shape[:3], k, inputs // g.groups)
        result[part].copy_(gradients.movedim(-2, -1))
    return result.view(n, outputs, inputs // g.groups, *g.kernel)


def convolve(x: Tensor, weight: Tensor, g: Geometry) -> Tensor:
    """Return the convolution (n, out, ...) of ``x`` (n, in, ...) without a bias."""
    n, outputs = len(x), len(weight)
    out = g.windows(tuple(x.shape[2:]))
    by_group = weight.view(g.groups, outputs // g.groups, weight.shape[1], -1)
    matrices = by_group.permute(0, 3, 2, 1).reshape(g.groups, -1, outputs // g.groups)
    result = _channels_last(x, (n, outputs, *out))
    by_place = result.movedim(1, -1).view(n, -1, g.groups, outputs // g.groups)
    for part in parts(x, g):
        windows = unfold(x[part], g)
        rows = by_place[part]
        for group in range(g.groups):
            flat = windows[:, group].reshape(-1, windows.shape[-1])
            made = rows[:, :, group]
            if g.groups == 1:
                torch.mm(flat, matrices[group], out=made.view(len(flat), -1))
            else:
                made.copy_((flat @ matrices[group]).view(made.shape))
    return result


def _channels_last(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return an empty tensor of this shape, with its channels the last in memory."""
    n, channels, *places = shape
    strides = like.new_empty(n, *places, channels, device="meta").movedim(-1, 1).stride()
    return torch.empty_strided(shape, strides, dtype=like.dtype, device=like.device)


def convolve_back(
    delta: Tensor, weight: Tensor, g: Geometry, inputs: int, places: tuple[int, ...]
) -> Tensor:
    """Return the gradient (n, in, *places) by the input of a convolution; its adjoint."""
    n, groups = len(delta), g.groups
    if all(s == 1 for s in g.stride):
        by_group = weight.view(groups, -1, *weight.shape[1:]).transpose(1, 2)
        turned = by_group.flatten(0, 1).flip(tuple(range(2, weight.ndim)))
        edges = [d * (k - 1) - p for d, k, p in zip(g.dilation, g.kernel, g.padding, strict=True)]
        if min(edges) >= 0:
            back = Geometry(g.kernel, g.stride, tuple(edges), g.dilation, groups)
            return convolve(delta, turned.contiguous(), back)
    padded = [m + 2 * p for m, p in zip(places, g.padding, strict=True)]
    total = delta.new_zeros(n, *padded, groups, inputs // groups)
    rows = delta.movedim(1, -1).unflatten(-1, (groups, -1)).unsqueeze(-2)
    matrices = weight.view(groups, -1, *weight.shape[1:])
    for offsets in product(*(range(k) for k in g.kernel)):
        index: list[Any] = [slice(None)]
        for o, d, s, m in zip(offsets, g.dilation, g.stride, delta.shape[2:], strict=True):
            index.append(slice(o * d, o * d + s * (m - 1) + 1, s))
        total[tuple(index)] += (rows @ matrices[(..., *offsets)]).squeeze(-2)
    kept = [slice(p, p + m) for m, p in zip(places, g.padding, strict=True)]
    return total[(slice(None), *kept)].flatten(-2).movedim(-1, 1)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, g: Geometry) -> Tensor:
        context.save_for_backward(weight)
        context.shape = g, x.shape
        return convolve(x, weight, g)

    @staticmethod
    def backward(context: Any, *deltas: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = context.saved_tensors
        g, shape = context.shape
        return convolve_back(deltas[0], weight, g, shape[1], tuple(shape[2:])), None, None


class _Transposed(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor, g: Geometry, places: tuple[int, ...]
    ) -> Tensor:
        context.save_for_backward(weight)
        context.shape = g, x.shape
        made = convolve_back(x, weight, g, weight.shape[1] * g.groups, places)
        return made.clone() if made._is_view() else made  # the caller may change it in place

    @staticmethod
    def backward(context: Any, *deltas: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = context.saved_tensors
        g, shape = context.shape
        back = convolve(deltas[0], weight, g)
        kept = tuple(slice(m) for m in shape[2:])  # output_padding may leave room for one more
        return back[(..., *kept)], None, None, None


def differentiable(g: Geometry) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the convolution of (x, weight) that autograd differentiates by x."""

    def call(x: Tensor, weight: Tensor) -> Tensor:
        made: Tensor = _Convolution.apply(x, weight, g)  # type: ignore[no-untyped-call]
        return made

    return call


def differentiable_transposed(
    g: Geometry, places: tuple[int, ...]
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the transposed convolution of (x, weight), to ``places``."""

    def call(x: Tensor, weight: Tensor) -> Tensor:
        made: Tensor = _Transposed.apply(x, weight, g, places)  # type: ignore[no-untyped-call]
        return made

    return call
