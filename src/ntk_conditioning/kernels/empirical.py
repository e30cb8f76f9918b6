"""Kernels of an `MLP`, NTK and NNGP, and the smallest angle between its gradients.

The gradient of f(x_i) in W_l is delta_l(i) alpha_(l-1)(i)^T (`networks.mlp.gradient_factors`). So

    K = sum over l of (A_(l-1) A_(l-1)^T) * (D_l D_l^T)

entry by entry, where the rows of A and D are the alphas and deltas of the samples, and the (n, p)
Jacobian is never formed. The NNGP kernel is the last term alone, A_L A_L^T.
"""

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning import threads
from ntk_conditioning.angles.gradient_angle import pair_angle
from ntk_conditioning.angles.smallest_angle import UnresolvedGradientError, cosines, min_angle
from ntk_conditioning.networks import gradient_tiles
from ntk_conditioning.networks.gradient_tiles import Panel, Panels
from ntk_conditioning.networks.mlp import (
    MLP,
    GradientFactors,
    check_inputs,
    embeddings,
    gradient_factors,
    linear_factor,
)

__all__ = ["linear_factor", "min_angle", "nngp", "ntk", "pair_angle"]

#: The least default of ``memory``, in bytes: 0.27 GB.
LEAST_MEMORY = 2**28


@torch.no_grad()
def ntk(
    mlp: MLP,
    x: Tensor,
    x2: Tensor | None = None,
    *,
    tile: int | None = None,
    memory: int | None = None,
) -> Tensor:
    """Return the empirical NTK (n, n2): inner products of the gradients at ``x`` and ``x2``.

    K_ij = <grad f(x_i), grad f(x2_j)> over all weights, for ``x`` (n, d) and ``x2`` (n2, d). The
    result has the network's dtype and device; products are never rounded to less. Without ``x2`` it
    is exactly symmetric. ``tile`` is the side of a tile. ``memory`` is the number of bytes for
    gradients beside the kernel, by default half of the kernel's, at least `LEAST_MEMORY`; with less
    than all of them need, some are computed repeatedly.

    Raises:
        ShapeError: if the inputs do not fit the network in shape, dtype or device.
        UnresolvedGradientError: if rounding grows over the layers until it decides an entry.

    >>> from ntk_conditioning.networks import activations
    >>> model = MLP((torch.ones(1, 2),), activations.get("linear"))
    >>> ntk(model, torch.tensor([[1.0, 2.0], [0.0, 1.0]])).tolist()
    [[5.0, 2.0], [2.0, 1.0]]
    """
    row_bytes = gradient_tiles.factor_bytes(mlp, mlp.dtype)
    return _kernel(mlp, x, x2, tile, memory, gradient_factors, row_bytes)


@torch.no_grad()
def nngp(
    mlp: MLP,
    x: Tensor,
    x2: Tensor | None = None,
    *,
    tile: int | None = None,
    memory: int | None = None,
) -> Tensor:
    """Return the empirical NNGP kernel (n, n2): inner products of the last layer's embeddings.

    K_ij = alpha_L(x_i) · alpha_L(x2_j), the NTK of a network of which only the last layer is
    trained (agarwal2021deep, Section 3.1). Arguments, dtype, device and errors are those of `ntk`.
    """

    def last_factors(mlp: MLP, x: Tensor) -> GradientFactors:
        return GradientFactors((embeddings(mlp, x),), ())  # whose delta is 1

    # embeddings of a layer and of the one before exist at once
    row_bytes = 2 * max(len(weight.T) for weight in mlp.weights) * mlp.dtype.itemsize
    return _kernel(mlp, x, x2, tile, memory, last_factors, row_bytes)


def _kernel(
    mlp: MLP,
    x: Tensor,
    x2: Tensor | None,
    tile: int | None,
    memory: int | None,
    factors: Callable[[MLP, Tensor], GradientFactors],
    row_bytes: int,
) -> Tensor:
    """Return the inner products of ``factors``, of ``row_bytes`` per sample; see `ntk`."""
    others = x if x2 is None else x2
    check_inputs(mlp, x)
    check_inputs(mlp, others)
    n, n2 = len(x), len(others)
    shape, at_once = gradient_tiles.tiling(n * n2 // (1 + (x2 is None)), x.device)
    shape = (tile, tile) if tile else shape
    k = x.new_empty(n, n2)
    memory = max(LEAST_MEMORY, k.nbytes // 2) if memory is None else memory
    memory = memory if x2 is None else memory // 2  # two sets of panels share it
    size = gradient_tiles.panel_rows(max(n, n2), row_bytes=row_bytes, memory=memory, least=shape[0])
    rows = columns = Panels(n, size, lambda part: factors(mlp, x[part]))
    if x2 is not None:
        columns = Panels(n2, size, lambda part: factors(mlp, others[part]))
    spans = len(rows.spans), len(columns.spans)
    pairs = rows.pairs() if x2 is None else np.ndindex(*spans)
    with gradient_tiles.full_precision():
        for i, j in pairs:
            _fill(k, rows[i], columns[j], shape, at_once, upper=x2 is None)
        if n and n2:
            ends = ends2 = [factors(mlp, end) for end in (x[:1], x[-1:])]
            if x2 is not None:
                ends2 = [factors(mlp, end) for end in (x2[:1], x2[-1:])]
            _require_resolved(k, ends, ends2, mlp)
    return k


def _require_resolved(
    k: Tensor, rows: Sequence[GradientFactors], columns: Sequence[GradientFactors], mlp: MLP
) -> None:
    """Raise `UnresolvedGradientError` if the corners of ``k`` are decided by rounding.

    They are compared with products of gradients that are computed alone, so with other rounding.
    """
    tolerated = torch.finfo(mlp.dtype).eps ** (1 / 3)
    pair = torch.zeros(1, 2, dtype=torch.int64, device=k.device)
    corners = k[[0, 0, -1, -1], [0, -1, 0, -1]].tolist()
    for corner, (a, b) in zip(corners, product(rows, columns), strict=True):
        alone = float(cosines(a, b, pair))
        if abs(corner - alone) > tolerated * math.prod(
            float(gradient.squared_norms().sqrt()) for gradient in (a, b)
        ):
            what = f"an entry of the kernel is {corner:.6g} or {alone:.6g}"
            raise UnresolvedGradientError(what, mlp)


def _fill(
    k: Tensor,
    left: Panel,
    right: Panel,
    shape: tuple[int, int],
    at_once: int,
    *,
    upper: bool,
) -> None:
    """Set the entries of ``k`` between two panels and, if ``upper``, their mirror."""

    def fill(tile: tuple[slice, slice]) -> None:
        r, c = tile
        entries = k[r, c]
        gradient_tiles.inner_products(entries, left.rows(r), right.rows(c))
        if upper and r.start == c.start:
            # Here both triangles were computed, and a BLAS may round them differently.
            square = entries[:, : len(entries)]
            square.copy_(square.triu() + square.triu(1).T)
        if upper:
            after = slice(max(r.stop, c.start), max(r.stop, c.stop))
            k[after, r] = k[r, after].T

    threads.each(fill, [*gradient_tiles.tiles(left.span, right.span, shape, upper=upper)], at_once)
