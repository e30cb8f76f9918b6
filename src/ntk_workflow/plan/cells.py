"""Cells: the grid points of a run and the relative path of each one's file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import PurePath

from ntk_conditioning.networks.architectures import MODELS

#: The NTK of networks of finite width.
EMPIRICAL = "empirical_ntk"
#: Kernels of networks of finite width; every other kernel is a limit, without weights.
FINITE = (EMPIRICAL, "empirical_nngp")
INFINITE = ("infinite_ntk", "nngp")

#: Kernels that are inner products of model gradients, between which angles are measured.
GRADIENT_KERNELS = (EMPIRICAL, "infinite_ntk")


@dataclass(frozen=True)
class Grid:
    """A product of axes, with the depths of each dataset.

    ``drawn`` names the datasets of which every seed draws its own samples; the others are whole.
    """

    kernels: Sequence[str]
    activations: Sequence[str]
    depths: Mapping[str, Sequence[int]]
    seeds: Sequence[int]
    drawn: Sequence[str] = ()

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

    def points(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield kernel, dataset, activation and depth of every grid point."""
        for kernel, (dataset, depths), activation in product(
            self.kernels, self.depths.items(), self.activations
        ):
            for depth in depths:
                yield kernel, dataset, activation, depth


@dataclass(frozen=True)
class TrainingGrid:
    """The networks that one experiment trains, with the depths of each dataset."""

    experiment: str
    depths: Mapping[str, Sequence[int]]
    models: Sequence[str]
    activations: Sequence[str]

    def to_json(self) -> str:
        """Return the grid as JSON, the form in which it is passed to programs."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> TrainingGrid:
        """Return the grid that `to_json` wrote.

        Raises:
            ValueError: if the text is not such JSON.
        """
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"not a grid of trainings: {error}") from error


def training_cells(grids: Iterable[TrainingGrid]) -> list[str]:
    """Return the relative paths of all trainings of the grids.

    >>> training_cells([TrainingGrid("fig3", {"digits": [1]}, ["mlp"], ["relu"])])
    ['fig3/digits/mlp/relu/depth-1.parquet']
    """
    return [
        f"{grid.experiment}/{dataset}/{model}/{activation}/depth-{depth}.parquet"
        for grid in grids
        for dataset, depths in grid.depths.items()
        for model, activation, depth in product(grid.models, grid.activations, depths)
    ]


def training_kernel_cells(grids: Iterable[TrainingGrid]) -> list[str]:
    """Return the relative paths of the kernels where the grids' trainings begin: those of mlp.

    >>> training_kernel_cells([TrainingGrid("fig3", {"digits": [1]}, ["mlp", "fc"], ["relu"])])
    ['fig3/digits/mlp/relu/depth-1.parquet']
    """
    return training_cells(
        replace(grid, models=[name for name in grid.models if not MODELS[name].by_modules])
        for grid in grids
    )


def rows(grids: Iterable[Grid]) -> dict[tuple[str, str, str], tuple[int, ...]]:
    """Return the depths, ascending, of each row (kernel, dataset, activation) of the grids.

    >>> rows([Grid(["nngp"], ["relu"], {"digits": depths}, [32]) for depths in ([2, 1], [1, 4])])
    {('nngp', 'digits', 'relu'): (1, 2, 4)}
    """
    found: dict[tuple[str, str, str], set[int]] = {}
    for grid in grids:
        for kernel, dataset, activation, depth in grid.points():
            found.setdefault((kernel, dataset, activation), set()).add(depth)
    return {row: tuple(sorted(depths)) for row, depths in found.items()}


def draws(seeds: Iterable[int], *, drawn: bool) -> list[str]:
    """Return the names of a dataset's draws: one for each seed, or ``all``, the whole dataset.

    >>> draws([1, 32], drawn=True), draws([1, 32], drawn=False)
    (['seed-1', 'seed-32'], ['all'])
    """
    return [f"seed-{seed}" for seed in seeds] if drawn else ["all"]


def datasheet_cells(grids: Iterable[Grid]) -> list[str]:
    """Return the relative paths of the datasheets of all draws of the grids, each once.

    >>> datasheet_cells([Grid(["nngp"], ["relu"], {"a": [1], "b": [1]}, [32], drawn=["b"])])
    ['a/all.parquet', 'b/seed-32.parquet']
    """
    return list(
        dict.fromkeys(
            f"{dataset}/{draw}.parquet"
            for grid in grids
            for dataset in grid.depths
            for draw in draws(grid.seeds, drawn=dataset in grid.drawn)
        )
    )


def spectrum_cells(grids: Iterable[Grid]) -> list[str]:
    """Return the relative paths of all spectra of the grids, each once.

    >>> spectrum_cells([Grid(["nngp"], ["relu"], {"digits": [1]}, [32])])
    ['nngp/digits/relu/depth-1/seed-32.parquet']
    """
    return list(
        dict.fromkeys(
            f"{kernel}/{dataset}/{activation}/depth-{depth}/seed-{seed}.parquet"
            for grid in grids
            for kernel, dataset, activation, depth in grid.points()
            for seed in grid.seeds
        )
    )


def angle_cells(grids: Iterable[Grid]) -> list[str]:
    """Return the relative paths of all smallest gradient angles of the grids, each once.

    At infinite width no seed enters, and the file is called ``seed-none``, unless every seed draws
    its own samples.

    >>> grid = Grid(["infinite_ntk"], ["relu"], {"digits": [1]}, [1, 32])
    >>> angle_cells([grid])
    ['infinite_ntk/digits/relu/depth-1/seed-none.parquet']
    """
    return list(
        dict.fromkeys(
            f"{kernel}/{dataset}/{activation}/depth-{depth}/seed-{seed}.parquet"
            for grid in grids
            for kernel, dataset, activation, depth in grid.points()
            if kernel in GRADIENT_KERNELS
            for seed in (grid.seeds if kernel == EMPIRICAL or dataset in grid.drawn else ["none"])
        )
    )


def depths_in(paths: Iterable[str]) -> list[str]:
    """Return the depths of cells from their paths, each once.

    >>> depths_in(["relu/depth-2/seed-1.parquet", "relu/depth-2/seed-32.parquet"])
    ['2']
    """
    return list(dict.fromkeys(PurePath(path).parent.name.removeprefix("depth-") for path in paths))


def seeds_in(paths: Iterable[str]) -> list[str]:
    """Return the seeds of cells from their paths, each once.

    >>> seeds_in(["relu/depth-0/seed-none.parquet", "relu/depth-1/seed-none.parquet"])
    ['none']
    """
    return list(dict.fromkeys(PurePath(path).stem.removeprefix("seed-") for path in paths))
