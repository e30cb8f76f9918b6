"""Checkpoints of cells: found again, by all that a cell depends on, after a job was killed.

Snakemake deletes a job's outputs before it starts and after it has failed. So each cell is also
written into a folder of checkpoints, and the next job computes only the cells that have none.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.errors import UserError
from ntk_workflow.cli import log

#: Libraries whose version may change a result.
LIBRARIES = ("numpy", "pyarrow", "scipy", "torch")


def digest(depends_on: Mapping[str, Any]) -> str:
    """Return a digest of all that a result depends on, to which libraries' versions are added."""
    versions = {library: metadata.version(library) for library in LIBRARIES}
    content = json.dumps({**depends_on, "versions": versions}, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


class Checkpoints:
    """The rows of a table's cells that are done, in a ``folder``; without one nothing is kept.

    A ``cell`` is a dictionary of all that its rows depend on, its columns among the table's keys
    and the digest of the ``code`` included.
    """

    def __init__(self, folder: Path | None, table: str) -> None:
        self._folder, self._table = folder, tables.get(table)

    def read(self, cell: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """Return the rows of a cell, or None if no checkpoint of it can be read."""
        if self._folder is None:
            return None
        if not cell["code"]:
            raise UserError("--checkpoints: give --code, too, which says for how long they hold")
        try:
            path = self._folder / f"{self._name(cell)}-{digest(cell)}.parquet"
            rows: list[dict[str, Any]] = tables.read(path, self._table).to_pylist()
        except tables.TableError:
            return None
        log.info("%s: kept", self._in_words(cell))
        return rows

    def write(self, cell: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep the rows of a cell, in place of those of the same cell with another digest."""
        if self._folder is not None:
            for other in self._folder.glob(f"{self._name(cell)}-{'?' * 16}.parquet"):
                other.unlink(missing_ok=True)
            path = self._folder / f"{self._name(cell)}-{digest(cell)}.parquet"
            tables.write(path, self._table, rows)
        log.info("%s: computed", self._in_words(cell))

    def _name(self, cell: Mapping[str, Any]) -> str:
        return "-".join(str(cell[key]) for key in self._table.keys if key in cell)

    def _in_words(self, cell: Mapping[str, Any]) -> str:
        return ", ".join(f"{key} {cell[key]}" for key in self._table.keys if key in cell)
