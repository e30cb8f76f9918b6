"""Cells: the grid points of a run and the relative path of each one's file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product

#: The kernel of networks of finite width; every other kernel is a limit, without weights.
EMPIRICAL = "empirical_ntk"

#: Kernels that are inner products of model gradients, between which angles are measured.
GRADIENT_KERNELS = (EMPIRICAL, "infinite_ntk")


@dataclass(frozen=True)
class Grid:
    """A product of axes, with the depths of each dataset."""

    kernels: Sequence[str]
    activations: Sequence[str]
    depths: Mapping[str, Sequence[int]]
    seeds: Sequence[int]

    def to_json(self) -> str:
        """Return the grid as JSON, the form in which it is passed to programs."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Grid:
        """Return the grid that `to_json` wrote.

        Raises:
            ValueError: if the text is not such JSON.
        """
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"not a grid: {error}") from error

    def _points(self) -> Iterator[tuple[str, str, str, int]]:
        for kernel, (dataset, depths), activation in product(
            self.kernels, self.depths.items(), self.activations
        ):
            for depth in depths:
                yield kernel, dataset, activation, depth


def spectrum_cells(grids: Iterable[Grid]) -> list[str]:
    """Return the relative paths of all spectra of the grids, each once.

    >>> spectrum_cells([Grid(["nngp"], ["relu"], {"digits": [1]}, [32])])
    ['nngp/digits/relu/depth-1/seed-32.parquet']
    """
    return list(
        dict.fromkeys(
            f"{kernel}/{dataset}/{activation}/depth-{depth}/seed-{seed}.parquet"
            for grid in grids
            for kernel, dataset, activation, depth in grid._points()
            for seed in grid.seeds
        )
    )


def angle_cells(grids: Iterable[Grid]) -> list[str]:
    """Return the relative paths of all smallest gradient angles of the grids, each once.

    At infinite width no seed enters, and the file is called ``seed-none``.

    >>> angle_cells([Grid(["infinite_ntk"], ["relu"], {"digits": [1]}, [1, 32])])
    ['infinite_ntk/digits/relu/depth-1/seed-none.parquet']
    """
    return list(
        dict.fromkeys(
            f"{kernel}/{dataset}/{activation}/depth-{depth}/seed-{seed}.parquet"
            for grid in grids
            for kernel, dataset, activation, depth in grid._points()
            if kernel in GRADIENT_KERNELS
            for seed in (grid.seeds if kernel == EMPIRICAL else ["none"])
        )
    )
