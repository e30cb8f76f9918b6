"""A run to be read, whether it is a folder of results or a bundle: its tables and its record."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ntk_conditioning.errors import UserError, one_line
from ntk_workflow.config import parse_yaml


class RunError(UserError):
    """A folder or an archive is no run, or a file in it cannot be read."""


class RecordedRun:
    """A finished run: a folder like ``results/demo``, or the bundle that was made of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive: zipfile.ZipFile | None = None
        self._folder = ""  # of the run in the archive
        try:
            names = self._names_in_folder() if path.is_dir() else self._names_in_bundle()
        except FileNotFoundError:
            raise RunError(f"{path} does not exist; give a folder of results or a bundle") from None
        except (OSError, zipfile.BadZipFile) as error:
            raise RunError(f"{path} is neither a folder nor a zip archive: {error}") from error
        self._names = frozenset(names)
        paths = [PurePosixPath(name) for name in names if name.endswith(".parquet")]
        self.tables = sorted(path.stem for path in paths if path.parent.name == "tables")
        if not self.tables:
            raise RunError(f"{path} has no tables/*.parquet; give a folder like results/demo")

    def table(self, name: str) -> pa.Table:
        """Return a table of the run."""
        content = pa.BufferReader(self._content(f"tables/{name}.parquet"))
        try:
            return pq.read_table(content, partitioning=None)
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{self.path}: table {name} is damaged: {one_line(error)}") from error

    def record(self, name: str) -> Mapping[str, Any] | None:
        """Return ``config.yaml``, ``versions.json`` or ``jobs.json``, None if there is none."""
        name = f"record/{name}"
        if name not in self._names:
            return None
        try:
            text = self._content(name).decode()
            content = parse_yaml(text, name) if name.endswith(".yaml") else json.loads(text)
        except UserError as error:
            raise RunError(f"{self.path}: {error}") from error
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise RunError(f"{self.path}: {name} is damaged: {one_line(error)}") from error
        if isinstance(content, dict):
            return content
        raise RunError(f"{self.path}: {name} holds no keys")

    def _names_in_folder(self) -> list[str]:
        files = [*self.path.glob("tables/*"), *self.path.glob("record/*")]
        return [file.relative_to(self.path).as_posix() for file in files]

    def _names_in_bundle(self) -> list[str]:
        """Return the names below ``results/{run}/`` in the payload of a zipped BagIt bag."""
        self._archive = zipfile.ZipFile(self.path)
        members = self._archive.namelist()
        folders = {
            "/".join(parts[:4])
            for parts in (PurePosixPath(name).parts for name in members)
            if len(parts) > 5 and (parts[1], parts[2], parts[4]) == ("data", "results", "tables")
        }
        if len(folders) != 1:
            raise RunError(
                f"{self.path} is no bundle: it has no one folder */data/results/*/tables"
            )
        self._folder = folders.pop() + "/"
        inside = (name for name in members if name.startswith(self._folder))
        return [name.removeprefix(self._folder) for name in inside]

    def _content(self, name: str) -> bytes:
        try:
            if self._archive:
                return self._archive.read(self._folder + name)
            return (self.path / name).read_bytes()
        except (OSError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
            raise RunError(f"{self.path}: {name} cannot be read: {one_line(error)}") from error
