"""Smallest angle between the gradients of any two samples, without an (n, n) array.

All pairs are screened by their cosines in float32, layer by layer: after some layers that of two
unit gradients g and h is at most <g, h> over these + |g| |h| over the others, and most pairs are
out of the question. Those whose cosine is as near to the largest as rounding are computed in
float64, and those that even this cannot order by the accurate formula of `pair_angle`.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import normalize

from ntk_conditioning.angles.gradient_angle import (
    SMALLEST_NORM,
    NonFiniteGradientError,
    ZeroGradientError,
    pair_angle,
)
from ntk_conditioning.angles.pairs import MinAngle, find_duplicates, spans
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks import gradient_tiles
from ntk_conditioning.networks.gradient_tiles import Panel, Panels
from ntk_conditioning.networks.mlp import (
    MLP,
    GradientFactors,
    check_inputs,
    gradient_factors,
    is_linear,
    linear_map,
)

MEMORY = 2**32  # bytes that gradients may take in a search, by default
EXACT_AT_ONCE = 1024  # samples whose gradients are in float64 before they are rounded
MOST_WAITING = 1 << 18  # pairs that may wait for the accurate formula
GATHERED_AT_ONCE = 1 << 12  # pairs that are gathered at once
GATHERING = 4096  # a gathered pair costs as much as a block of so many pairs of a tile


class UnresolvedGradientError(UserError):
    """Rounding decides the gradients: those of a sample differ with the samples beside it."""

    def __init__(self, what: str, mlp: MLP) -> None:
        digits = "" if mlp.dtype == torch.float64 else "float64, "
        super().__init__(
            f"{what}, as rounding has it, which grows over {mlp.depth} layers; give fewer layers, "
            f"{digits}or an activation that is less steep"
        )


@torch.no_grad()
def min_angle(
    mlp: MLP,
    x: Tensor,
    *,
    tile: int | None = None,
    memory: int = MEMORY,
    exclude_duplicates: bool = False,
) -> MinAngle:
    """Return the smallest angle between the gradients at any two rows of ``x`` (n, d), in radians.

    It is computed in float64, whatever the network's dtype; of equal angles the lowest pair is
    returned. Equal rows are counted and have angle 0; ``exclude_duplicates`` keeps the first row of
    each value. ``memory`` is the number of bytes for gradients; if it does not hold those of all
    samples in float32, some are computed more than once. ``tile`` is the side of a tile, by default
    a shape that suits the device. ``x`` has the network's dtype and device.

    Raises:
        ShapeError: if ``x`` does not fit the network.
        UserError: if there are no two (distinct) rows.
        ZeroGradientError: if the gradient at a row is zero.
        NonFiniteGradientError: if it overflows or its square underflows, or the row has entries
            that are not finite.
        UnresolvedGradientError: if the network is so deep, and its activation such, that rounding
            grows until it decides the gradients.
    """
    check_inputs(mlp, x)
    duplicates = find_duplicates(x.numpy(force=True))
    first = torch.from_numpy(duplicates.first).to(x.device)
    n = len(first)
    gradients = _UnitGradients(mlp.to(torch.float64), (x if n == len(x) else x[first]).double())
    rows, columns = gradient_tiles.tile_shape(x.device) if tile is None else (tile, tile)
    shape = min(rows, n), min(columns, n)
    options = {"row_bytes": gradients.row_bytes, "memory": memory, "least": shape[0]}
    panels = Panels(n, gradient_tiles.panel_rows(n, **options), gradients.rounded)
    with gradient_tiles.full_precision():
        for number in range(len(panels.spans)):
            panels[number]  # computes its norms
        gradients.require_directions(first)
        if duplicates.examples and not exclude_duplicates:
            return MinAngle(0.0, *duplicates.examples[0], duplicates=duplicates.pairs, candidates=0)
        if n < 2:
            raise UserError(f"{n} distinct samples have no smallest angle; give two")
        search = _Search(gradients, shape)
        for i, j in panels.pairs():
            search.screen(panels[i], panels[j])
        search.measure()
    angle, *pair = search.best
    i, j = first[pair].tolist()
    return MinAngle(angle, i, j, duplicates.pairs, search.measured)


class _UnitGradients:
    """Gradients divided by their norms, as factors.

    ``rest`` (blocks, n) holds the norms over the blocks that come after each one.
    """

    def __init__(self, mlp: MLP, x: Tensor) -> None:
        self.mlp, self.x = mlp, x
        self._screened = mlp, x
        if mlp.depth and is_linear(mlp):  # one map gives gradients of the same inner products
            self._screened = MLP((x.new_ones(1, mlp.dim),), mlp.activation), x @ linear_map(mlp)
        network, _ = self._screened
        factors = gradient_tiles.factor_bytes(network, torch.float32)
        #: What one sample takes in float32.
        self.row_bytes = mlp.dim * torch.float32.itemsize + factors
        self.rest = x.new_zeros(network.depth + 1, len(x), dtype=torch.float32)
        self._norms = x.new_empty(len(x))

    def rounding(self, dtype: torch.dtype) -> float:
        """Return how far a cosine may be off: a sum of k products by k roundings at most.

        See Higham (2002), "Accuracy and Stability of Numerical Algorithms", section 3.1.
        """
        widths = [self.mlp.dim, *(weight.shape[0] for weight in self.mlp.weights[:-1])]
        longest = max([self.mlp.dim, *(a + b for a, b in pairwise(widths))])
        k = longest + self.mlp.depth + 12
        u, u64 = (torch.finfo(t).eps / 2 for t in (dtype, torch.float64))
        return k * u / (1 - k * u) + 8 * k * u64

    def exact(self, rows: slice | Tensor) -> tuple[GradientFactors, Tensor]:
        """Return unit gradients in float64, alphas of norm 1, and norms of blocks (blocks, n)."""
        network, x = self._screened
        factors = gradient_factors(network, x[rows])
        norms = factors.squared_norms().sqrt_().unsqueeze(1)
        self._norms[rows] = norms[:, 0]
        sizes = [vector_norm(alpha, dim=1, keepdim=True) for alpha in factors.alphas]
        alphas = [normalize(alpha, eps=SMALLEST_NORM) for alpha in factors.alphas]
        alphas[-1] *= sizes[-1] / norms  # where delta is 1
        deltas = [
            delta * (size / norms) for delta, size in zip(factors.deltas, sizes, strict=False)
        ]
        shares = [vector_norm(part, dim=1) for part in (*deltas, alphas[-1])]
        return GradientFactors(tuple(alphas), tuple(deltas)), torch.stack(shares)

    def rounded(self, span: slice) -> GradientFactors:
        """Return unit gradients in float32, and fill ``rest``."""
        result: GradientFactors | None = None
        for rows in spans(span.stop, EXACT_AT_ONCE, start=span.start):
            unit, shares = self.exact(rows)
            after = shares.square().flip(0).cumsum(0).flip(0)[1:]
            self.rest[:-1, rows] = after.sqrt().float()
            result = result or unit.empty(span.stop - span.start, torch.float32)
            part = result.rows(slice(rows.start - span.start, rows.stop - span.start))
            parts = zip((*part.alphas, *part.deltas), (*unit.alphas, *unit.deltas), strict=True)
            for rounded, exact in parts:
                rounded.copy_(exact)
        assert result is not None
        return result

    def require_directions(self, names: Tensor) -> None:
        """Raise an error that calls the rows by their ``names`` if a gradient has no direction."""
        failures = (
            (self._norms == 0, ZeroGradientError, "zero, or its square underflows,"),
            (self._norms < SMALLEST_NORM, NonFiniteGradientError, "too small to square"),
            (~self._norms.isfinite(), NonFiniteGradientError, "not finite"),
        )
        for failed, error, what in failures:
            if len(rows := names[failed]):
                raise error(
                    f"the gradient is {what} at {len(rows)} distinct samples, the first is row "
                    f"{rows[0]}; remove them from the dataset"
                )


class _Search:
    """The pair of the smallest angle: first by float32, then float64, then the accurate formula.

    ``best`` is the smallest angle and its pair; ``_floor`` a lower bound of the largest cosine.
    """

    def __init__(self, gradients: _UnitGradients, shape: tuple[int, int]) -> None:
        self._gradients, self._shape = gradients, shape
        self._single, self._double = map(gradients.rounding, (torch.float32, torch.float64))
        self._floor = -1.0
        self._waiting = torch.empty(0, 2, dtype=torch.int64, device=gradients.x.device)
        self._cosines = gradients.x.new_empty(0)
        self.best = (math.inf, 0, 0)
        self.measured = 0

    def screen(self, left: Panel, right: Panel) -> None:
        """Keep all pairs between two panels that may have the smallest angle."""
        for r, c in gradient_tiles.tiles(left.span, right.span, self._shape, upper=True):
            pairs, cosine = self._possible(left.rows(r), right.rows(c), r, c)
            if len(cosine):
                self._floor = max(self._floor, float(cosine.max()) - self._single)
                kept = (cosine >= self._floor - self._single) & self._undecided(pairs)
                if kept.any():
                    self._keep(pairs[kept], cosine[kept])

    def _possible(
        self, rows: GradientFactors, columns: GradientFactors, r: slice, c: slice
    ) -> tuple[Tensor, Tensor]:
        """Return pairs (k, 2) of a tile that may be closest, with their cosines in float32."""
        total = self._gradients.rest.new_zeros(r.stop - r.start, c.stop - c.start)
        if r.start == c.start:  # pairs of one sample, or that come twice: below every cosine
            total[:, : len(total)] = total.new_full((len(total),) * 2, -math.inf).tril()
        rest, least = self._gradients.rest, self._floor - self._single
        for block in range(len(rest)):
            gradient_tiles.add_layer(total, rows, columns, block)
            possible = torch.addr(total, rest[block, r], rest[block, c]) >= least
            left = len(rest) - 1 - block
            if left and GATHERING * int(possible.count_nonzero()) <= left * total.numel():
                break
        pairs = torch.nonzero(possible)
        cosine = total[pairs[:, 0], pairs[:, 1]]
        if left:
            parts = torch.split(pairs, GATHERED_AT_ONCE)
            cosine = torch.cat([cosines(rows, columns, part) for part in parts])
        return pairs + pairs.new_tensor([r.start, c.start]), cosine

    def _keep(self, pairs: Tensor, cosine: Tensor) -> None:
        """Compute cosines of pairs in float64, and let pairs wait that may be closest."""
        (rows, i), (columns, j) = (torch.unique(p, return_inverse=True) for p in pairs.unbind(1))
        (left, _), (right, _) = self._gradients.exact(rows), self._gradients.exact(columns)
        products = self._gradients.x.new_empty(len(rows), len(columns))
        gradient_tiles.inner_products(products, left, right)
        exact = products[i, j]
        # Rounding differs, as other samples are beside these; it grows from layer to layer.
        off = float((exact - cosine).abs().max())
        if off > self._single + self._double:
            what = f"two cosines of the same gradients differ by {off:.2g}"
            raise UnresolvedGradientError(what, self._gradients.mlp)
        self._floor = max(self._floor, float(exact.max()) - self._double)
        self._waiting = torch.cat([self._waiting, pairs])
        self._cosines = torch.cat([self._cosines, exact])
        if len(self._waiting) > MOST_WAITING:
            self.measure()

    def measure(self) -> None:
        """Compute the angles of the waiting pairs and remember the smallest."""
        x, closest = self._gradients.x, self._waiting[self._cosines >= self._floor - self._double]
        self._waiting, self._cosines = self._waiting[:0], self._cosines[:0]
        for part in torch.split(closest, GATHERED_AT_ONCE):
            i, j = part[self._undecided(part)].T
            angles = pair_angle(self._gradients.mlp, x[i], x[j])
            self.measured += len(angles)
            found = zip(angles.tolist(), i.tolist(), j.tolist(), strict=True)
            self.best = min([self.best, *found])

    def _undecided(self, pairs: Tensor) -> Tensor:
        """Return which pairs may replace the best: if its angle is zero, only lower pairs."""
        angle, *best = self.best
        i, j = pairs.unbind(1)
        return (angle > 0) | (i < best[0]) | ((i == best[0]) & (j < best[1]))


def cosines(rows: GradientFactors, columns: GradientFactors, pairs: Tensor) -> Tensor:
    """Return the inner products (k,) of unit gradients, for pairs (k, 2) of a row and a column."""
    i, j = pairs.unbind(1)
    total: Tensor = torch.linalg.vecdot(rows.alphas[-1][i], columns.alphas[-1][j])
    for layer in range(len(rows.deltas)):
        alpha = torch.linalg.vecdot(rows.alphas[layer][i], columns.alphas[layer][j])
        total += alpha * torch.linalg.vecdot(rows.deltas[layer][i], columns.deltas[layer][j])
    return total
