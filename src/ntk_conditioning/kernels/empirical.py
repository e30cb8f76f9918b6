"""Kernels of an `MLP`, NTK and NNGP, and the smallest angle between its gradients.

The gradient of f(x_i) in W_l is delta_l(i) alpha_(l-1)(i)^T (`networks.mlp.gradient_factors`). So

    K = sum over l of (A_(l-1) A_(l-1)^T) * (D_l D_l^T)

entry by entry, where the rows of A and D are the alphas and deltas of the samples, and the (n, p)
Jacobian is never formed. The NNGP kernel is the last term alone, A_L A_L^T.
"""

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from ntk_conditioning.angles.gradient_angle import pair_angle
from ntk_conditioning.angles.smallest_angle import UnresolvedGradientError, cosines, min_angle
from ntk_conditioning.networks import gradient_tiles
from ntk_conditioning.networks.gradient_tiles import Panels
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
    sets = [x] if x2 is None else [x, x2]
    size = gradient_tiles.panel_rows(
        max(n, n2), row_bytes=row_bytes, memory=memory // len(sets), least=shape[0]
    )

    def fill(r: slice, c: slice, rows: GradientFactors, columns: GradientFactors) -> None:
        gradient_tiles.inner_products(k[r, c], rows, columns)

    def panels(samples: Tensor) -> Panels:
        return Panels(len(samples), size, lambda part: factors(mlp, samples[part]))

    with gradient_tiles.full_precision():
        gradient_tiles.each_tile(fill, [panels(samples) for samples in sets], shape, at_once)
        if x2 is None:
            gradient_tiles.mirror(k)
        if n and n2:
            ends = [{i: factors(mlp, samples[[i]]) for i in (0, -1)} for samples in sets]
            _require_resolved(k, ends[0], ends[-1], mlp)
    return k


def _require_resolved(
    k: Tensor, rows: dict[int, GradientFactors], columns: dict[int, GradientFactors], mlp: MLP
) -> None:
    """Raise `UnresolvedGradientError` if the corners of ``k`` are decided by rounding.

    They are compared with products of gradients that are computed alone, so with other rounding.
    """
    tolerated = torch.finfo(mlp.dtype).eps ** (1 / 3)
    pair = torch.zeros(1, 2, dtype=torch.int64, device=k.device)
    for (i, a), (j, b) in product(rows.items(), columns.items()):
        entry, alone = float(k[i, j]), float(cosines(a, b, pair))
        size = float(a.squared_norms().sqrt() * b.squared_norms().sqrt())
        if abs(entry - alone) > tolerated * size:
            what = f"an entry of the kernel is {entry:.6g} or {alone:.6g}"
            raise UnresolvedGradientError(what, mlp)
