"""Neural tangent kernel of a finite network, and the smallest angle between its gradients.

Neither the (n, p) Jacobian nor, for the angle, the (n, n) kernel is ever formed. With the factored
gradients of `networks.gradient_factors`,

    K = sum over l of (A_(l-1) A_(l-1)^T) * (D_l D_l^T)

entry by entry, where the rows of A and D are the alphas and deltas of the samples.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ntk_conditioning.angles import MinAngle, find_duplicates, upper_tiles
from ntk_conditioning.errors import UserError
from ntk_conditioning.gradient_angle import ZeroGradientError, pair_angle
from ntk_conditioning.networks import MLP, GradientFactors, check_inputs, gradient_factors

__all__ = [
    "NonFiniteGradientError",
    "NotLinearError",
    "TooFewSamplesError",
    "linear_factor",
    "min_angle",
    "ntk",
    "pair_angle",
]

# Pairs that may wait for the accurate formula, and pairs whose inputs are gathered for it at once.
MOST_WAITING = 1 << 16
GATHERED_AT_ONCE = 1 << 12


class NotLinearError(UserError):
    """The network has an activation other than the identity."""


class NonFiniteGradientError(UserError):
    """The gradient at a sample is not finite, so that no angle to it exists."""


class TooFewSamplesError(UserError):
    """There are fewer than two samples to take an angle between."""


@torch.no_grad()
def ntk(mlp: MLP, x: Tensor, x2: Tensor | None = None, *, tile: int | None = None) -> Tensor:
    """Return the empirical NTK (n, n2): inner products of the gradients at ``x`` and ``x2``.

    K_ij = <grad f(x_i), grad f(x2_j)> over all weights, for ``x`` (n, d) and ``x2`` (n2, d); in
    the network's type and on its device. Without ``x2`` only the tiles of the upper triangle are
    computed and then mirrored, so that the result is exactly symmetric. ``tile`` is the side of a
    tile, by default one that suits n.

    Raises:
        ShapeError: if the inputs do not fit the network.

    >>> import numpy as np
    >>> from ntk_conditioning import activations
    >>> from ntk_conditioning.networks import init_mlp
    >>> relu, generator = activations.get("relu"), np.random.default_rng(0)
    >>> model = init_mlp(2, depth=0, width=1, activation=relu, generator=generator)
    >>> ntk(model, torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64)).tolist()
    [[5.0, 2.0], [2.0, 1.0]]
    """
    rows = gradient_factors(mlp, x)
    columns = rows if x2 is None else gradient_factors(mlp, x2)
    n, n2 = len(x), len(columns.alphas[0])
    tile = tile or _tile_side(max(n, n2), x.device)
    products = _TileProducts(rows, columns, tile)
    k = x.new_empty(n, n2)
    if x2 is not None:
        for top in range(0, n, tile):
            for left in range(0, n2, tile):
                r, c = slice(top, min(top + tile, n)), slice(left, min(left + tile, n2))
                k[r, c] = products(r, c)
        return k
    for r, c in upper_tiles(n, tile):
        k[r, c] = products(r, c)
        # Within a diagonal tile too: a BLAS may round the two triangles differently.
        k[c, r] = k[r, c].T if r != c else k[r, c].triu() + k[r, c].triu(1).T
    return k


def _tile_side(n: int, device: torch.device) -> int:
    """Return a side that skips most of the lower half, fits a CPU's cache and fills a GPU."""
    return min(512, max(256, n // 5)) if device.type == "cpu" else 4096


class _TileProducts:
    """Tiles of the inner products of two sets of gradients, in buffers used again and again."""

    def __init__(self, rows: GradientFactors, columns: GradientFactors, tile: int) -> None:
        self._rows, self._columns = rows, columns
        entries = min(tile, len(rows.alphas[0])) * min(tile, len(columns.alphas[0]))
        self._buffers = rows.alphas[0].new_empty(3, entries)

    def __call__(self, r: slice, c: slice) -> Tensor:
        """Return the tile of rows ``r`` and columns ``c``, valid until the next call."""
        shape = (r.stop - r.start, c.stop - c.start)
        total, alpha, delta = (b[: math.prod(shape)].view(shape) for b in self._buffers.unbind())
        *alphas, last = zip(self._rows.alphas, self._columns.alphas, strict=True)
        torch.mm(last[0][r], last[1][c].T, out=total)  # the last layer's delta is 1
        deltas = zip(self._rows.deltas, self._columns.deltas, strict=True)
        for (a, a2), (d, d2) in zip(alphas, deltas, strict=True):
            torch.mm(a[r], a2[c].T, out=alpha)
            torch.mm(d[r], d2[c].T, out=delta)
            total.addcmul_(alpha, delta)
        return total


@torch.no_grad()
def linear_factor(mlp: MLP, x: Tensor) -> Tensor:
    """Return F (n, q) with F F^T the NTK of a linear network, for `conditioning_from_factor`.

    In a linear network delta_l is the same vector b_l for every sample, so that
    F = (|b_1| A_0, …, |b_(L+1)| A_L) = x S with S the stacked maps from the input. If n > d these
    columns are reduced to d without changing F F^T, by the QR factorisation of S^T.

    Raises:
        NotLinearError: if the network has hidden layers whose activation is not linear.
        ShapeError: if ``x`` does not fit the network.
    """
    check_inputs(mlp, x)
    if mlp.depth and mlp.activation.negative_slope != 1.0:
        raise NotLinearError(f"a network of {mlp.activation.name} has no linear factor; use ntk")
    n, d = x.shape
    # With the rows of the identity for samples the alphas are the maps themselves.
    factors = gradient_factors(mlp, torch.eye(d, dtype=x.dtype, device=x.device) if n > d else x)
    sizes = [*(torch.linalg.vector_norm(delta[0]) for delta in factors.deltas), 1.0]
    stacked = torch.cat([a * b for a, b in zip(factors.alphas, sizes, strict=True)], dim=1)
    if n <= d:
        return stacked
    triangle: Tensor = torch.linalg.qr(stacked.T, mode="r").R
    return torch.mm(x, triangle.T)


@torch.no_grad()
def min_angle(
    mlp: MLP, x: Tensor, *, tile: int | None = None, exclude_duplicates: bool = False
) -> MinAngle:
    """Return the smallest angle between the gradients at any two rows of ``x`` (n, d).

    Computed in float64 whatever the network's type, in memory O(n · depth · width + tile²). All
    pairs are screened by cosine, tile by tile, and those within rounding of the largest cosine are
    computed by `pair_angle`. Pairs of equal rows are counted; their angle is exactly 0, unless
    ``exclude_duplicates`` keeps one row of each value only.

    Raises:
        ShapeError: if ``x`` does not fit the network.
        TooFewSamplesError: if there are no two (distinct) rows.
        ZeroGradientError: if the gradient at a row is zero.
        NonFiniteGradientError: if it overflows, or the row has entries that are not finite.
    """
    check_inputs(mlp, x)
    exact = mlp.to(torch.float64)
    duplicates = find_duplicates(x.numpy(force=True))
    kept = torch.from_numpy(duplicates.first).to(x.device)
    distinct = x[kept].double()
    factors = _unit_gradients(exact, distinct, kept)
    if duplicates.example is not None and not exclude_duplicates:
        return MinAngle(0.0, *duplicates.example, duplicates=duplicates.pairs, candidates=0)
    if len(kept) < 2:
        raise TooFewSamplesError(f"{len(kept)} distinct samples have no smallest angle; give two")

    tile = tile or _tile_side(len(kept), x.device)
    products = _TileProducts(factors, factors, tile)
    search = _Search(exact, distinct)
    for r, c in upper_tiles(len(kept), tile):
        cosines = products(r, c)
        if r == c:
            cosines += cosines.new_full(cosines.shape, -math.inf).tril()
        search.screen(cosines, r.start, c.start)
    search.refine()
    i, j = kept[list(search.pair)].tolist()
    return MinAngle(search.angle, i, j, duplicates.pairs, search.refined)


def _unit_gradients(mlp: MLP, x: Tensor, names: Tensor) -> GradientFactors:
    """Return the gradients divided by their norms; errors call the rows by their ``names``."""
    factors = gradient_factors(mlp, x)
    norms = factors.squared_norms().sqrt_().unsqueeze(1)
    failures = (
        (norms == 0, ZeroGradientError, "zero"),
        (~norms.isfinite(), NonFiniteGradientError, "not finite"),
    )
    for failed, error, what in failures:
        rows = names[failed.squeeze(1)]
        if len(rows):
            raise error(
                f"the gradient is {what} at {len(rows)} distinct samples, the first is row "
                f"{rows[0]}; remove them from the dataset"
            )
    # Once in each layer: in delta where there is one, in the last alpha where delta is 1.
    *alphas, last = factors.alphas
    return GradientFactors((*alphas, last / norms), tuple(d.div_(norms) for d in factors.deltas))


class _Search:
    """The pair of the smallest angle, from tiles of cosines and then by the accurate formula.

    A computed cosine is off by at most (2w + L + 5) eps, for layers up to w wide: two inner
    products of length w, their product, the sum over layers and the two norms. Only pairs whose
    cosines differ by more than twice that are ordered by their cosines.
    """

    def __init__(self, mlp: MLP, x: Tensor) -> None:
        self._mlp, self._x = mlp, x
        widest = max(mlp.dim, mlp.width)
        self._margin = 2 * (2 * widest + mlp.depth + 5) * torch.finfo(torch.float64).eps
        self._largest = -2.0  # below every cosine, above the mask of the diagonal tiles
        self._waiting: list[tuple[Tensor, Tensor]] = []
        self.angle = math.inf
        self.pair = (0, 0)
        self.refined = 0

    def screen(self, cosines: Tensor, top: int, left: int) -> None:
        """Keep the pairs of a tile, whose first pair is (``top``, ``left``), that may be it."""
        largest = float(cosines.max())
        if largest < self._largest - self._margin:
            return
        self._largest = max(self._largest, largest)
        found = torch.nonzero(cosines >= self._largest - self._margin)
        pairs = found + found.new_tensor([top, left])
        self._waiting.append((pairs, cosines[found[:, 0], found[:, 1]]))
        if sum(len(pairs) for pairs, _ in self._waiting) > MOST_WAITING:
            self.refine()

    def refine(self) -> None:
        """Compute the angles of the waiting pairs and remember the smallest."""
        if not self._waiting:
            return
        pairs, cosines = (torch.cat(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting.clear()
        pairs = pairs[cosines >= self._largest - self._margin]
        for start in range(0, len(pairs), GATHERED_AT_ONCE):
            self._refine(pairs[start : start + GATHERED_AT_ONCE])

    def _refine(self, pairs: Tensor) -> None:
        angles = pair_angle(self._mlp, self._x[pairs[:, 0]], self._x[pairs[:, 1]])
        self.refined += len(pairs)
        best = int(angles.argmin())
        if float(angles[best]) < self.angle:
            self.angle = float(angles[best])
            first, second = pairs[best].tolist()
            self.pair = (first, second)
