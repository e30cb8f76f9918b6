"""Checkpoints of cells: found again, by all that a cell depends on, after a job was killed.

Snakemake deletes a job's outputs before it starts and after it has failed. So each cell is also
written into a folder of checkpoints, under a name with a digest of all that it depends on. A job
that runs again computes only the cells that have no checkpoint of their digest.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_workflow.cli import UsageError, logger

Cell = Mapping[str, Any]

#: Libraries whose version may change a result.
LIBRARIES = ("numpy", "pyarrow", "scipy", "torch")

log = logger(__file__)


class Checkpoints:
    """The rows of a table's cells that are done, in a ``folder``; without one nothing is kept.

    A cell is a dictionary of all that its rows depend on, its columns among the table's keys and
    the digest of the ``code`` included; versions of libraries are added to it.
    """

    def __init__(self, folder: Path | None, table: str) -> None:
        self._folder, self._table = folder, tables.get(table)

    def read(self, cell: Cell) -> list[dict[str, Any]] | None:
        """Return the rows of a cell, or None if no checkpoint of it can be read."""
        if self._folder is None:
            return None
        try:
            data = tables.read(self._path(self._folder, cell), self._table)
        except tables.TableError:
            return None
        log.info("%s: kept", self._in_words(cell))
        return list(data.to_pylist())

    def write(self, cell: Cell, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep the rows of a cell, and delete those of the same cell with another digest."""
        if self._folder is not None:
            path = self._path(self._folder, cell)
            tables.write(path, self._table, rows)
            for other in path.parent.glob(f"{self._name(cell)}-{'?' * 16}.parquet"):
                if other != path:
                    other.unlink(missing_ok=True)
        log.info("%s: computed", self._in_words(cell))

    def _path(self, folder: Path, cell: Cell) -> Path:
        if not cell["code"]:
            raise UsageError("--checkpoints: give --code, too, which says for how long they hold")
        versions = {library: metadata.version(library) for library in LIBRARIES}
        content = json.dumps({**cell, "versions": versions}, sort_keys=True, default=str)
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        return folder / f"{self._name(cell)}-{digest}.parquet"

    def _name(self, cell: Cell) -> str:
        return "-".join(str(cell[key]) for key in self._table.keys if key in cell)

    def _in_words(self, cell: Cell) -> str:
        return ", ".join(f"{key} {cell[key]}" for key in self._table.keys if key in cell)
