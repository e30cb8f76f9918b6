"""Checkpoints of cells: found again, by what each cell depends on, after a job was killed.

Snakemake deletes a job's outputs before it starts and after it has failed. So each cell is also
written into a folder of checkpoints, under a name that holds a digest of all that it depends on. A
job that runs again computes only the cells that have no checkpoint of their digest. The files
themselves hold no digest, so that equal numbers are equal bytes.
"""

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.tables import Table
from ntk_workflow.checkpoints.origin import origin, origin_digest

#: Options that cannot change a cell, or that enter its digest by themselves.
APART = {"activation", "activation_file", "checkpoints", "data", "depths", "memory_gb", "output"}
APART |= {"infinite_width", "network", "own_network", "seeds", "threads", "widths"}


@dataclass(frozen=True)
class Cell:
    """A cell of a row: its coordinates, and the prepared dataset (.npz) that it is computed from.

    Cells of an activation differ in one ``axis``, the "depth" or the "width", and in the seed,
    which is None where nothing is random. Where there are networks of several kinds, they have a
    ``model``, and ``of_model`` is what else that means; where several widths, a ``width``.

    >>> cell = Cell("relu", "depth", 2, seed=1, data=Path("all.npz"))
    >>> cell.name, cell.place
    ('relu, depth 2, seed 1', 'relu/depth-2/seed-1')
    """

    activation: str
    axis: str
    value: int
    seed: int | None
    data: Path
    model: str = ""
    of_model: tuple[Any, ...] = ()
    width: int | None = None

    @property
    def coordinates(self) -> dict[str, str | int | None]:
        """The columns of the table that say which cell it is."""
        model: dict[str, str | int | None]
        model = {"model": self.model, "width": self.width} if self.model else {}
        return model | {"activation": self.activation, self.axis: self.value, "seed": self.seed}

    @property
    def random_seed(self) -> int:
        """The seed of a cell in which something is random."""
        if self.seed is None:
            raise ValueError(f"{self.name} has no seed")
        return self.seed

    @property
    def name(self) -> str:
        """What log lines call it."""
        seed = "" if self.seed is None else f", seed {self.seed}"
        model = f"{self.model}, " if self.model else ""
        model += f"width {self.width}, " if self.width else ""
        return f"{model}{self.activation}, {self.axis} {self.value}{seed}"

    @property
    def place(self) -> str:
        """Where it is among the checkpoints, without the digest."""
        seed = "none" if self.seed is None else self.seed
        model = f"{self.model}/" if self.model else ""
        model += f"width-{self.width}/" if self.width else ""
        return f"{model}{self.activation}/{self.axis}-{self.value}/seed-{seed}"


class Checkpoints:
    """The checkpoints of one call of a program."""

    def __init__(self, args: argparse.Namespace, program: str) -> None:
        """Take the options of the ``program`` (its file), of which all but those `APART` count."""
        self._folder: Path = args.checkpoints
        options = {name: value for name, value in vars(args).items() if name not in APART}
        self._common = origin(program, args.activation_file, options)
        self._digest_of = cache(sha256)

    def path(self, cell: Cell) -> Path:
        """Return the checkpoint's path, which holds a digest of all that the cell depends on."""
        of_cell = {"activation": cell.activation, "data": self._digest_of(cell.data)}
        of_cell["model"] = repr((cell.model, cell.width, *cell.of_model))
        digest = origin_digest(self._common | of_cell)
        return self._folder / f"{cell.place}-{digest}.parquet"

    def read(self, cell: Cell, table: Table) -> pa.Table | None:
        """Return the cell's rows of the table, or None if no checkpoint of it can be read."""
        try:
            return tables.read(self.path(cell), table)
        except tables.TableError:
            return None

    def write(self, cell: Cell, table: Table, data: pa.Table) -> None:
        """Write the cell's rows, and delete the checkpoints of the same cell with other digests."""
        path = self.path(cell)
        tables.write(path, table, data)
        for other in path.parent.glob(f"{Path(cell.place).name}-*{path.suffix}"):
            if other != path:
                other.unlink(missing_ok=True)
