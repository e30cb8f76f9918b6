"""Rows and files of any table for tests."""

from pathlib import Path
from typing import Any

from ntk_conditioning import tables
from ntk_conditioning.tables import Table

_PLAIN = {"string": "none", "int64": 1, "double": 1.5, "bool": False}


def plain(table: Table | str, **values: Any) -> dict[str, Any]:
    """Return a row: what is not given is missing, or a plain value of its type."""
    table = tables.get(table) if isinstance(table, str) else table
    row = {c.name: None if c.nullable else _PLAIN.get(str(c.type), []) for c in table.columns}
    return row | values


def write(path: Path, table: Table | str, *rows: dict[str, Any]) -> Path:
    """Write a table of rows, each completed by plain values, and return its path."""
    tables.write(path, table, [plain(table, **row) for row in rows])
    return path
