"""Typed Parquet tables: what a column means is written once, here and in the files' metadata.

One submodule per table declares its columns; this module writes and reads them. A table on disk
is sorted by its keys, compressed with zstd and carries its own documentation, and the same rows
always give the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ntk_conditioning.errors import UserError
from ntk_conditioning.files import atomic


class TableError(UserError):
    """Rows or a file do not fit a table's declaration."""


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type, what it means, its unit, and whether it may be missing."""

    name: str
    type: pa.DataType
    description: str
    unit: str = ""
    nullable: bool = False

    @property
    def field(self) -> pa.Field:
        metadata = {"description": self.description, **({"unit": self.unit} if self.unit else {})}
        return pa.field(self.name, self.type, self.nullable, metadata)


@dataclass(frozen=True)
class Table:
    """A table's declaration: ``keys`` name the columns that identify and order its rows."""

    name: str
    description: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        metadata = {
            "table": self.name,
            "description": self.description,
            "keys": ",".join(self.keys),
        }
        return pa.schema([column.field for column in self.columns], metadata)

    def only(self, columns: Collection[str]) -> Table:
        """Return the declaration of these columns alone, the keys among them."""
        kept = tuple(column for column in self.columns if column.name in columns)
        return replace(self, columns=kept)

    def markdown(self) -> str:
        """Return the table's documentation as a Markdown section."""
        lines = [
            f"### `{self.name}`",
            "",
            f"{self.description} Sorted by {', '.join(f'`{key}`' for key in self.keys)}.",
            "",
            "| column | type | meaning |",
            "| --- | --- | --- |",
        ]
        for column in self.columns:
            unit = f" [{column.unit}]" if column.unit else ""
            missing = ", may be missing" if column.nullable else ""
            lines.append(
                f"| `{column.name}` | {column.type}{missing} | {column.description}{unit} |"
            )
        return "\n".join(lines) + "\n"


def from_rows(table: Table, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table of the declared types.

    Raises:
        TableError: if a row lacks a column, has an unknown one, or misses a required value.
    """
    rows = list(rows)
    expected = {column.name for column in table.columns}
    for row in rows:
        if set(row) != expected:
            odd = ", ".join(sorted(set(row) ^ expected))
            raise TableError(f"table {table.name}: columns missing or unknown in a row: {odd}")
    try:
        return checked(table, pa.Table.from_pylist(rows, schema=table.schema))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TableError(f"table {table.name}: {error}") from error


def checked(table: Table, data: pa.Table) -> pa.Table:
    """Return ``data`` sorted by the keys if it fits the declaration.

    Raises:
        TableError: for other columns or types, a missing required value, or a repeated key.
    """
    if not data.schema.equals(table.schema, check_metadata=False):
        raise TableError(
            f"table {table.name}: the columns are {data.schema.names}, not as declared"
        )
    for column in table.columns:
        if not column.nullable and data[column.name].null_count:
            raise TableError(f"table {table.name}: column {column.name} has missing values")
    order = pc.sort_indices(data, [(key, "ascending") for key in table.keys]).to_numpy()
    if (order[1:] < order[:-1]).any():  # a large table is not copied for nothing
        data = data.take(order)
    distinct = data.select(list(table.keys)).group_by(list(table.keys)).aggregate([])
    if distinct.num_rows != data.num_rows:
        raise TableError(
            f"table {table.name}: {data.num_rows - distinct.num_rows} rows repeat the key "
            f"({', '.join(table.keys)})"
        )
    return pa.Table.from_batches(data.combine_chunks().to_batches(), schema=table.schema)


def write(path: str | os.PathLike[str], table: Table, data: pa.Table) -> None:
    """Write ``data`` to ``path`` as zstd Parquet, whole or not at all.

    Raises:
        TableError: if the data do not fit the table's declaration.
    """
    data = checked(table, data)
    with atomic(Path(path)) as temporary:
        pq.write_table(data, temporary, compression="zstd", version="2.6")


def read(
    path: str | os.PathLike[str] | Sequence[str], table: Table, *, columns: list[str] | None = None
) -> pa.Table:
    """Return the rows of one file, or of several, with all or some ``columns`` only.

    Raises:
        TableError: if the file is missing, is not Parquet, or is not this table.
    """
    if not isinstance(path, str | os.PathLike):
        return pa.concat_tables([read(each, table, columns=columns) for each in path])
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(table.schema, check_metadata=False):
                raise TableError(f"{path}: not a {table.name} table of this version; delete it")
            return file.read(columns=columns, use_threads=False)
    except FileNotFoundError as error:
        raise TableError(f"{path}: no such table; correct the path, or make it") from error
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{path}: not a readable Parquet file ({error}); delete it") from error
