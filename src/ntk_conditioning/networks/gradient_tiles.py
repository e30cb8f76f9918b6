"""Inner products of gradients of many samples, in bounded memory.

The gradients of two panels of samples are held at once, and the pairs between them are computed in
tiles. If the memory allows, one panel holds all samples, and every gradient is computed once.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ntk_conditioning import threads
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.mlp import MLP, GradientFactors

#: Rows and columns of a tile, by device: on a CPU it stays in the caches from layer to layer.
TILE = {"cpu": (256, 4096), "cuda": (4096, 8192)}
#: The same where each thread of a CPU works on its own tiles, and the fewest for which that pays.
PIECE, LEAST_PIECES = (128, 1024), 4

_LOCK = Lock()
_INSIDE: list[bool] = []  # for each block of `full_precision` that runs, whether it allows TF32
_SETTERS: list[Callable[[bool | None], None]] = []  # the caller's, while a block runs


@contextmanager
def full_precision(*, tf32: bool = False) -> Iterator[None]:
    """Keep float32 products from being rounded to TF32 or bfloat16, whatever the caller allowed.

    This holds for matrices and for cuDNN's convolutions, which torch rounds to TF32 by default.
    With ``tf32``, a GPU may still round to TF32, but nothing to less. Threads may overlap inside.
    """
    with _LOCK:
        if not _INSIDE:
            _SETTERS[:] = [_setter()]
        _INSIDE.append(tf32)
        _SETTERS[0](all(_INSIDE))
    try:
        yield
    finally:
        with _LOCK:
            _INSIDE.remove(tf32)
            _SETTERS[0](all(_INSIDE) if _INSIDE else None)


def _setter() -> Callable[[bool | None], None]:
    """Return a function that allows TF32 or not, or for None restores what the caller allowed."""
    settings: Any = torch.backends
    gpu, cpu, cudnn = settings.cuda.matmul, settings.mkldnn.matmul, settings.cudnn
    try:
        allowed, convolutions = torch.get_float32_matmul_precision(), cudnn.allow_tf32
    except RuntimeError:  # the caller used the newer settings, which torch does not let one mix
        before = {part: part.fp32_precision for part in (gpu, cudnn.conv, cudnn.rnn, cpu)}

        def set_newer(tf32: bool | None) -> None:
            for part, precision in before.items():
                kept = "tf32" if tf32 and part is not cpu else "ieee"
                part.fp32_precision = precision if tf32 is None else kept

        return set_newer

    def set_older(tf32: bool | None) -> None:
        torch.set_float32_matmul_precision(allowed if tf32 is None else "highest")
        cudnn.allow_tf32 = convolutions if tf32 is None else tf32
        if tf32:
            gpu.allow_tf32 = True

    return set_older


def tile_shape(device: torch.device) -> tuple[int, int]:
    """Return the rows and columns of a tile that suit a device."""
    return TILE.get(device.type, TILE["cuda"])


def tiling(pairs: int, device: torch.device) -> tuple[tuple[int, int], int]:
    """Return the rows and columns of a tile for so many pairs, and how many tiles to do at once."""
    at_once = threads.count(device)
    if at_once > 1 and pairs >= LEAST_PIECES * at_once * math.prod(PIECE):
        return PIECE, at_once
    return tile_shape(device), 1


def factor_bytes(mlp: MLP, dtype: torch.dtype) -> int:
    """Return what the factored gradient of one sample takes beside the sample itself."""
    return 2 * sum(len(weight) for weight in mlp.weights[:-1]) * dtype.itemsize


def panel_rows(n: int, *, row_bytes: int, memory: int, least: int) -> int:
    """Return how many of ``n`` rows make a panel, so that two (or one of all) fit into ``memory``.

    Panels are equally large, and no smaller than ``least`` rows, whatever the memory.

    >>> [panel_rows(100, row_bytes=8, memory=memory, least=30) for memory in (800, 799, 1)]
    [100, 34, 30]
    """
    if n * row_bytes <= memory:
        return max(1, n)
    rows = max(1, least, memory // (2 * row_bytes))
    return max(1, least, math.ceil(n / math.ceil(n / rows)))


@dataclass(frozen=True, eq=False)
class Panel:
    """Gradients of the samples ``span``, in a form of which ``rows`` gives some samples'."""

    span: slice
    factors: Any

    def rows(self, r: slice) -> Any:
        """The gradients of the samples ``r``, numbered among all samples."""
        return self.factors.rows(slice(r.start - self.span.start, r.stop - self.span.start))


class Panels:
    """Panels of ``size`` of ``n`` samples, of which the two used last are kept in memory.

    Pass ``panels[i]`` directly to a function: with another reference a third stays in memory.
    """

    def __init__(self, n: int, size: int, compute: Callable[[slice], Any]) -> None:
        self.spans = [slice(top, min(top + size, n)) for top in range(0, n, size)]
        self._compute = compute
        self._kept: dict[int, Panel] = {}

    def __getitem__(self, number: int) -> Panel:
        panel = self._kept.pop(number, None)
        if panel is None:
            if len(self._kept) == 2:  # before another is computed: three would not fit
                del self._kept[next(iter(self._kept))]
            panel = Panel(self.spans[number], self._compute(self.spans[number]))
        self._kept[number] = panel  # as the one used last
        return panel

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield all pairs of panels i <= j in an order that finds one of the two still kept.

        >>> computed: list[int] = []
        >>> panels = Panels(4, 1, lambda rows: computed.append(rows.start))
        >>> [f"{i}{j}" for i, j in panels.pairs() if panels[i] and panels[j]], computed
        (['00', '01', '02', '03', '13', '12', '11', '22', '23', '33'], [0, 1, 2, 3, 1, 2, 3])
        """
        for i in range(len(self.spans)):
            others = range(i, len(self.spans))
            yield from ((i, j) for j in (reversed(others) if i % 2 else others))


def tiles(
    rows: slice, columns: slice, shape: tuple[int, int], *, upper: bool
) -> Iterator[tuple[slice, slice]]:
    """Yield tiles, ``shape`` large at most, that cover the pairs of rows and columns.

    With ``upper``, only those with i <= j: a tile on the diagonal begins with a square, which has
    its lower triangle, too; ``shape`` is at least as wide as high then.

    >>> [(r.start, c.start, c.stop) for r, c in tiles(slice(4), slice(4), (2, 3), upper=True)]
    [(0, 0, 3), (0, 3, 4), (2, 2, 4)]
    """
    height, width = shape
    if min(shape) < 1:
        raise UserError(f"tile={min(shape)}: give a whole number above zero")
    first, left = rows.start or 0, columns.start or 0
    for top in range(first, rows.stop, height):
        r = slice(top, min(top + height, rows.stop))
        for start in range(max(top, left) if upper else left, columns.stop, width):
            yield r, slice(start, min(start + width, columns.stop))


def each_tile(
    work: Callable[[slice, slice, Any, Any], None],
    panels: Sequence[Panels],
    shape: tuple[int, int],
    at_once: int = 1,
) -> None:
    """Call ``work`` for tiles of the pairs of rows and columns, ``at_once`` of them at a time.

    ``panels`` are those of rows and columns, or of both in one, and then of pairs i <= j as `tiles`
    has them. ``work`` gets the samples of a tile and their gradients.
    """
    rows, columns, upper = panels[0], panels[-1], len(panels) == 1

    def of_panels(left: Panel, right: Panel) -> None:
        def of_tile(tile: tuple[slice, slice]) -> None:
            r, c = tile
            work(r, c, left.rows(r), right.rows(c))

        threads.each(of_tile, [*tiles(left.span, right.span, shape, upper=upper)], at_once)

    for i, j in rows.pairs() if upper else np.ndindex(len(rows.spans), len(columns.spans)):
        of_panels(rows[i], columns[j])


def mirror(k: Tensor) -> None:
    """Copy the upper triangle of a matrix to the lower one, which a BLAS may round otherwise."""
    for top in range(0, len(k), 256):
        r = slice(top, top + 256)
        square = k[r, r]
        square.copy_(square.triu() + square.triu(1).T)
        k[r.stop :, r] = k[r, r.stop :].T.contiguous()  # in rows: copied faster


def inner_products(total: Tensor, rows: GradientFactors, columns: GradientFactors) -> None:
    """Set ``total`` (n, n') to the inner products of two sets of gradients."""
    total.zero_()
    for layer in range(len(rows.alphas)):
        add_layer(total, rows, columns, layer)


def add_layer(total: Tensor, rows: GradientFactors, columns: GradientFactors, layer: int) -> None:
    """Add one layer's (A A'^T) * (D D'^T) to ``total`` (n, n')."""
    alpha = rows.alphas[layer] @ columns.alphas[layer].T
    if layer == len(rows.deltas):  # the last, where delta is 1
        total.add_(alpha)
    else:
        total.addcmul_(alpha, rows.deltas[layer] @ columns.deltas[layer].T)
