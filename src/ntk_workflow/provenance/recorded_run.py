"""A run to be read, whether it is a folder of results or a bundle: its tables and its record."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from ntk_conditioning.errors import UserError, one_line


class RunError(UserError):
    """A folder or an archive is no run, or a file in it cannot be read."""


class _Files(Protocol):
    """The files below ``results/{run}/``, by their path in it."""

    def names(self) -> list[str]: ...

    def content(self, name: str) -> bytes: ...


class _Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        folders = (self.path / "tables", self.path / "record")
        return [
            file.relative_to(self.path).as_posix()
            for folder in folders
            for file in folder.glob("*")
        ]

    def content(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


class _Bundle:
    """A zipped BagIt bag, whose payload holds ``results/{run}/``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with zipfile.ZipFile(path) as archive:
            self.members = archive.namelist()
        folders = {
            "/".join(parts[:4])
            for parts in (PurePosixPath(name).parts for name in self.members)
            if len(parts) > 5 and (parts[1], parts[2], parts[4]) == ("data", "results", "tables")
        }
        if len(folders) != 1:
            raise RunError(f"{path} is no bundle: it has no one folder */data/results/*/tables")
        self.folder = folders.pop() + "/"

    def names(self) -> list[str]:
        inside = (name for name in self.members if name.startswith(self.folder))
        return [name.removeprefix(self.folder) for name in inside]

    def content(self, name: str) -> bytes:
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(self.folder + name)


class RecordedRun:
    """A finished run: a folder like ``results/demo``, or the bundle that was made of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._files: _Files = _Folder(path) if path.is_dir() else _Bundle(path)
        except FileNotFoundError:
            raise RunError(f"{path} does not exist; give a folder of results or a bundle") from None
        except (OSError, zipfile.BadZipFile) as error:
            raise RunError(f"{path} is neither a folder nor a zip archive: {error}") from error
        self._names = frozenset(self._files.names())
        self.tables = sorted(
            name.removeprefix("tables/").removesuffix(".parquet")
            for name in self._names
            if PurePosixPath(name).parent.name == "tables" and name.endswith(".parquet")
        )
        if not self.tables:
            raise RunError(f"{path} has no tables/*.parquet; give a folder like results/demo")

    def table(self, name: str) -> pa.Table:
        """Return a table of the run."""
        content = pa.BufferReader(self._content(f"tables/{name}.parquet"))
        try:
            return pq.read_table(content, partitioning=None)
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{self.path}: table {name} is damaged: {one_line(error)}") from error

    def config(self) -> Mapping[str, Any] | None:
        """Return the config that was in force, None where it is not recorded."""
        return self._mapping("record/config.yaml")

    def versions(self) -> Mapping[str, Any] | None:
        """Return the versions of the software, None where they are not recorded."""
        return self._mapping("record/versions.json")

    def jobs(self) -> list[Mapping[str, Any]] | None:
        """Return the jobs that made the run, None where they are not recorded."""
        found = self._mapping("record/jobs.json")
        if found is None:
            return None
        if not isinstance(found.get("jobs"), list):
            raise RunError(f"{self.path}: record/jobs.json has no list of jobs")
        jobs: list[Mapping[str, Any]] = found["jobs"]
        return jobs

    def _mapping(self, name: str) -> Mapping[str, Any] | None:
        found = self._parsed(name)
        if found is None or isinstance(found, dict):
            return found
        raise RunError(f"{self.path}: {name} holds no keys")

    def _parsed(self, name: str) -> Any:
        if name not in self._names:
            return None
        try:
            text = self._content(name).decode()
            return yaml.safe_load(text) if name.endswith(".yaml") else json.loads(text)
        except (UnicodeDecodeError, yaml.YAMLError, json.JSONDecodeError) as error:
            raise RunError(f"{self.path}: {name} is damaged: {one_line(error)}") from error

    def _content(self, name: str) -> bytes:
        try:
            return self._files.content(name)
        except (OSError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
            raise RunError(f"{self.path}: {name} cannot be read: {one_line(error)}") from error
