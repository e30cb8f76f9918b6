"""Cells that are done: kept where no job deletes them, and found again by what they depend on.

Snakemake deletes a job's outputs before it starts and after it has failed. So a cell is written
into a folder of checkpoints and linked to its place. Its name there holds a digest of all that it
depends on: a job that runs again keeps the cells whose digest is still the same, and computes the
others. The cells themselves hold no digest, so that equal numbers are equal bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
from importlib import metadata
from pathlib import Path

import ntk_conditioning
from ntk_conditioning import tables
from ntk_conditioning.files import atomic, sha256
from ntk_conditioning.tables import Table
from ntk_workflow.provenance.digests import source_digest

#: Libraries whose version may change a cell.
LIBRARIES = ("numpy", "pyarrow", "scipy", "torch")

#: Arguments that cannot change a cell, or that enter its digest by what is in the files.
APART = (
    "activation_file",
    "checkpoints",
    "data",
    "depths",
    "memory_gb",
    "outputs",
    "seeds",
    "threads",
    "widths",
)


class Checkpoints:
    """The cells of one call of a program, and where each of them is kept."""

    def __init__(self, args: argparse.Namespace, *, program: str) -> None:
        """Take what all cells depend on.

        That is the ``program`` with all that it imports and the activation's files, every argument
        that can change a cell, and the versions of the libraries.
        """
        source = Path(ntk_conditioning.__file__).parents[1]
        self._folder = Path(args.checkpoints)
        self._common = {
            "code": source_digest(program, *args.activation_file, source=source),
            "options": {name: value for name, value in vars(args).items() if name not in APART},
            "versions": {library: metadata.version(library) for library in LIBRARIES},
        }
        self._data: dict[Path, str] = {}

    def path(self, data: Path, *, place: str, **own: object) -> Path:
        """Return where a cell is kept; the name holds a digest of all that it depends on.

        ``place`` is its name without that digest, ``own`` what only this cell depends on.
        """
        if data not in self._data:
            self._data[data] = sha256(data)
        text = json.dumps(self._common | own | {"data": self._data[data]}, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self._folder / f"{place}-{digest}.parquet"


def is_kept(path: Path, table: Table) -> bool:
    """Return whether there is a checkpoint that can be read."""
    try:
        tables.read(path, table)
    except tables.TableError:
        return False
    return True


def forget_others(path: Path) -> None:
    """Delete the checkpoints of the same cell that depended on something else."""
    seed, _, _ = path.stem.rpartition("-")
    for other in path.parent.glob(f"{seed}-*{path.suffix}"):
        if other != path:
            other.unlink(missing_ok=True)


def place(path: Path, output: Path) -> None:
    """Give a checkpoint its name among the outputs as well, atomically."""
    if output.exists() and output.samefile(path):
        return
    with atomic(output) as temporary:
        try:
            os.link(path, temporary)
        except OSError:  # a file system without hard links
            shutil.copyfile(path, temporary)
