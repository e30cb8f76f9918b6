"""A run to be read, from a folder of results or an unpacked bundle: its tables and its record."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ntk_conditioning.errors import UserError, one_line
from ntk_workflow.config import parse_yaml


class RunError(UserError):
    """A folder is no run, or a file in it cannot be read."""


class RecordedRun:
    """A finished run: a folder like ``results/demo``.

    ``path`` is what errors name, the bundle if ``folder`` is a part of it.
    """

    def __init__(self, path: Path, folder: Path | None = None) -> None:
        self.path, self._folder = path, folder or path
        self.tables = sorted(file.stem for file in self._folder.glob("tables/*.parquet"))
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
        if not (self._folder / name).is_file():
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

    def _content(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            raise RunError(f"{self.path}: {name} cannot be read: {one_line(error)}") from error
