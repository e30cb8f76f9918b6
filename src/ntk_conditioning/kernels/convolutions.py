"""Convolutions in any dimension as products of unfolded samples.

torch's float64 convolutions on a CPU run far below the rate of a matrix product. Here the windows
of a few samples at a time, so many as stay in the caches, are laid out as columns of a matrix.
The dimensions of samples (n, channels, ...) behind the channels are called places.
"""

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


def is_slow(x: Tensor) -> bool:
    """Return whether torch's own convolutions of ``x`` run far below the rate of products."""
    return x.device.type == "cpu" and x.dtype == torch.float64


def unfold(x: Tensor, g: Geometry) -> Tensor:
    """Return the windows (n, groups, channels/groups · kernel, positions) of ``x``."""
    n, channels = x.shape[:2]
    out = g.windows(tuple(x.shape[2:]))
    x = functional.pad(x, [p for side in reversed(g.padding) for p in (side, side)]).contiguous()
    steps = x.stride()[2:]
    within = [a * b for a, b in zip(steps, g.dilation, strict=True)]
    apart = [a * b for a, b in zip(steps, g.stride, strict=True)]
    strides = (*x.stride()[:2], *within, *apart)
    windows = x.as_strided((n, channels, *g.kernel, *out), strides, x.storage_offset())
    return windows.reshape(n, g.groups, -1, math.prod(out))


def by_position(y: Tensor, groups: int) -> Tensor:
    """Return ``y`` (n, channels, ...) as (n, groups, channels/groups, positions)."""
    return y.reshape(len(y), groups, y.shape[1] // groups, -1)


def parts(x: Tensor, g: Geometry) -> Iterator[slice]:
    """Yield so many samples at a time that their windows stay in the caches."""
    windows = math.prod(g.windows(tuple(x.shape[2:]))) * math.prod(g.kernel)
    size = max(1, UNFOLDED // (windows * x.shape[1] * x.element_size()))
    yield from (slice(top, top + size) for top in range(0, len(x), size))


def weight_gradients(x: Tensor, delta: Tensor, g: Geometry, *, out: Tensor | None = None) -> Tensor:
    """Return the gradients (n, out, in/groups, *kernel) by the weight of a convolution.

    ``x`` (n, in, ...) are its inputs and ``delta`` (n, out, ...) the gradients at its outputs.
    """
    rows, inputs = by_position(delta, g.groups), x.shape[1] // g.groups
    shape = len(x), delta.shape[1], inputs, *g.kernel
    # Windows of a single entry need no laying out, and on a GPU this was not measured.
    if x.device.type == "cpu" and not is_slow(x) and math.prod(g.kernel) > 1:
        made = _grouped_weight_gradients(x, delta, g, shape)
        return made if out is None else out.copy_(made)
    result = x.new_empty(shape) if out is None else out
    matrices = result.view(*rows.shape[:3], -1)
    for part in parts(x, g):
        torch.matmul(rows[part], unfold(x[part], g).mT, out=matrices[part])
    return result


def _grouped_weight_gradients(
    x: Tensor, delta: Tensor, g: Geometry, shape: tuple[int, ...]
) -> Tensor:
    """Return the same by one backward pass of torch's, in which each sample is a group."""
    grouped = delta.reshape(1, -1, *delta.shape[2:]), x.reshape(1, -1, *x.shape[2:])
    weight = x.new_empty(shape).flatten(0, 1)  # whose entries do not matter
    options = g.stride, g.padding, g.dilation, False, [0] * len(g.kernel), len(x) * g.groups
    _, made, _ = torch.ops.aten.convolution_backward(
        *grouped, weight, None, *options, (False, True, False)
    )
    gradients: Tensor = made.view(shape)
    return gradients


def convolve(x: Tensor, weight: Tensor, g: Geometry) -> Tensor:
    """Return the convolution (n, out, ...) of ``x`` (n, in, ...) without a bias."""
    result = x.new_empty(len(x), len(weight), *g.windows(tuple(x.shape[2:])))
    rows, matrices = by_position(result, g.groups), weight.reshape(g.groups, -1, weight[0].numel())
    for part in parts(x, g):
        torch.matmul(matrices, unfold(x[part], g), out=rows[part])
    return result


def convolve_back(delta: Tensor, weight: Tensor, g: Geometry, places: tuple[int, ...]) -> Tensor:
    """Return the gradient (n, in, *places) by the input of a convolution; its adjoint."""
    groups, (inputs, *kernel) = g.groups, weight.shape[1:]
    edges = [d * (k - 1) - p for d, k, p in zip(g.dilation, g.kernel, g.padding, strict=True)]
    if max(g.stride) == 1 and min(edges) >= 0:
        turned = weight.view(groups, -1, inputs, *kernel).transpose(1, 2)
        turned = turned.flip([*range(3, turned.ndim)]).flatten(0, 1)
        return convolve(
            delta, turned, Geometry(g.kernel, g.stride, tuple(edges), g.dilation, groups)
        )
    padded = [m + 2 * p for m, p in zip(places, g.padding, strict=True)]
    total = delta.new_zeros(len(delta), groups * inputs, *padded)
    matrices = weight.reshape(groups, -1, weight[0].numel()).mT
    for part in parts(total, g):
        windows = matrices @ by_position(delta[part], groups)
        windows = windows.view(-1, groups * inputs, *kernel, *delta.shape[2:])
        for offset in product(*map(range, kernel)):
            spans = zip(offset, g.dilation, g.stride, delta.shape[2:], strict=True)
            index: Any = [slice(o * d, o * d + s * (m - 1) + 1, s) for o, d, s, m in spans]
            at: Any = (..., *offset, *(slice(None) for _ in offset))
            total[(part, slice(None), *index)] += windows[at]
    kept: Any = tuple(slice(p, p + m) for m, p in zip(places, g.padding, strict=True))
    return total[(slice(None), slice(None), *kept)]


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
        return convolve_back(deltas[0], weight, g, tuple(shape[2:])), None, None


class _Transposed(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor, g: Geometry, places: tuple[int, ...]
    ) -> Tensor:
        context.save_for_backward(weight)
        context.shape = g, x.shape
        made = convolve_back(x, weight, g, places)
        return made.clone() if made._is_view() else made  # the caller may change it in place

    @staticmethod
    def backward(context: Any, *deltas: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = context.saved_tensors
        g, shape = context.shape
        back = convolve(deltas[0], weight, g)
        kept: Any = tuple(slice(m) for m in shape[2:])  # output_padding may leave room for one more
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
