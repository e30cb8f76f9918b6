"""Kernels of a finite network, NTK and NNGP, and the smallest angle between its gradients.

Neither the (n, p) Jacobian nor, for the angle, the (n, n) kernel is ever formed. With the factored
gradients of `networks.gradient_factors`,

    K = sum over l of (A_(l-1) A_(l-1)^T) * (D_l D_l^T)

entry by entry, where the rows of A and D are the alphas and deltas of the samples. The NNGP kernel
is the last term alone, A_L A_L^T.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning.angles.gradient_angle import pair_angle
from ntk_conditioning.angles.min_angle import NonFiniteGradientError, TooFewSamplesError, min_angle
from ntk_conditioning.networks.gradient_tiles import (
    Panels,
    Products,
    factor_bytes,
    full_precision,
    panel_rows,
    tile_shape,
    tiles,
)
from ntk_conditioning.networks.mlp import (
    MLP,
    PART,
    GradientFactors,
    NotLinearError,
    check_inputs,
    embeddings,
    gradient_factors,
    linear_embedding_map,
    linear_factor,
)

__all__ = [
    "NonFiniteGradientError",
    "NotLinearError",
    "TooFewSamplesError",
    "linear_embedding_map",
    "linear_factor",
    "min_angle",
    "nngp",
    "ntk",
    "pair_angle",
]

#: Bytes that gradients may take in any case: what a small kernel needs at once.
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

    K_ij = <grad f(x_i), grad f(x2_j)> over all weights, for ``x`` (n, d) and ``x2`` (n2, d); in
    the network's type and on its device, never with products in less than that type's precision.
    Without ``x2`` only the tiles of the upper triangle are computed and then mirrored, so that the
    result is exactly symmetric. ``tile`` is the side of a tile, by default a shape that suits the
    device. ``memory`` is what the gradients may take beside the kernel, in bytes, by default half
    of the kernel's size or `LEAST_MEMORY`: if it does not hold the gradients of all samples, some
    are computed more than once.

    Raises:
        ShapeError: if the inputs do not fit the network.

    >>> import numpy as np
    >>> from ntk_conditioning.networks import activations
    >>> from ntk_conditioning.networks.mlp import init_mlp
    >>> relu, generator = activations.get("relu"), np.random.default_rng(0)
    >>> model = init_mlp(2, depth=0, width=1, activation=relu, generator=generator)
    >>> ntk(model, torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64)).tolist()
    [[5.0, 2.0], [2.0, 1.0]]
    """
    row_bytes = factor_bytes(mlp, mlp.dtype)
    return _kernel(mlp, x, x2, gradient_factors, row_bytes=row_bytes, tile=tile, memory=memory)


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
    trained (agarwal2021deep, Section 3.1). Arguments and errors are those of `ntk`.

    >>> import numpy as np
    >>> from ntk_conditioning.networks.mlp import init_mlp
    >>> model = init_mlp(2, depth=0, width=1, activation="relu", generator=np.random.default_rng(0))
    >>> nngp(model, torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64)).tolist()
    [[5.0, 2.0], [2.0, 1.0]]
    """
    row_bytes = mlp.weights[-1].shape[1] * mlp.dtype.itemsize
    return _kernel(mlp, x, x2, _last_factors, row_bytes=row_bytes, tile=tile, memory=memory)


def _last_factors(mlp: MLP, x: Tensor) -> GradientFactors:
    """Return the factors of the gradients by the last layer, whose delta is 1."""
    part = PART.get(x.device.type, PART["cuda"])
    parts = [embeddings(mlp, x[top : top + part]) for top in range(0, len(x), part)]
    return GradientFactors((torch.cat(parts),), ())


def _kernel(
    mlp: MLP,
    x: Tensor,
    x2: Tensor | None,
    factors: Callable[[MLP, Tensor], GradientFactors],
    *,
    row_bytes: int,
    tile: int | None,
    memory: int | None,
) -> Tensor:
    """Return the inner products of ``factors``, of ``row_bytes`` per sample; see `ntk`."""
    check_inputs(mlp, x)
    others = x if x2 is None else x2
    check_inputs(mlp, others)
    n, n2 = len(x), len(others)
    shape = (tile, tile) if tile else tile_shape(x.device)
    shape = (min(shape[0], n), min(shape[1], n2))
    k = x.new_empty(n, n2)
    memory = max(LEAST_MEMORY, k.nbytes // 2) if memory is None else memory
    if x2 is not None:  # two sets of panels share it
        memory //= 2
    size = panel_rows(max(n, n2), row_bytes=row_bytes, memory=memory, least=shape[0])
    rows = columns = Panels(n, size, lambda part: factors(mlp, x[part]))
    if x2 is not None:
        columns = Panels(n2, size, lambda part: factors(mlp, others[part]))
    products = Products(x, shape)
    with full_precision():
        pairs = rows.pairs() if x2 is None else np.ndindex(len(rows.spans), len(columns.spans))
        for i, j in pairs:
            _fill(k, products, (rows, i), (columns, j), shape)
    return k


def _fill(
    k: Tensor,
    products: Products,
    rows: tuple[Panels, int],
    columns: tuple[Panels, int],
    shape: tuple[int, int],
) -> None:
    """Set the entries of ``k`` between two panels and, between rows of one set, their mirror."""
    one_set = rows[0] is columns[0]
    here, there = (panels[number] for panels, number in (rows, columns))
    for r, c in tiles(here.span, there.span, shape, upper=one_set):
        entries = k[r, c]
        products.kernel(entries, here.rows(r), there.rows(c))
        if one_set and r.start == c.start:
            # Here both triangles were computed, and a BLAS may round them differently.
            square = entries[:, : len(entries)]
            square.copy_(square.triu() + square.triu(1).T)
        if one_set:
            beyond = slice(max(r.stop, c.start), max(r.stop, c.stop))
            k[beyond, r] = k[r, beyond].T
