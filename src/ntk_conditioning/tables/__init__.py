"""Typed Parquet tables: what a column means is written once, here and in the files' metadata.

Each table is declared in ``<table>.yaml``, beside the module that makes it a `Table`; this module
writes and reads them. A table on disk is sorted by its keys, compressed with zstd and carries its
own documentation, and the same rows always give the same bytes.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from ntk_conditioning.errors import UserError
from ntk_conditioning.files import atomic

_TYPES = {kind: pa.type_for_alias(kind) for kind in ("bool", "int64", "float64", "string")}
_TYPES["float64[]"] = pa.list_(pa.float64())
_COLUMN = re.compile(r"([\w\[\]]+)(\?)?(?: \[(.+?)\])?, (.+)")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TableError(UserError):
    """Rows, a file or a declaration do not fit a table."""


@dataclass(frozen=True)
class Table:
    """A table's declaration: ``keys`` name the columns that identify and order its rows."""

    name: str
    description: str
    keys: tuple[str, ...]
    columns: tuple[pa.Field, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        names = {"table": self.name, "description": self.description}
        return pa.schema(self.columns, {**names, "keys": ",".join(self.keys)})

    def markdown(self) -> str:
        """Return the table's documentation as a Markdown section."""
        keys = ", ".join(f"`{key}`" for key in self.keys)
        lines = [f"### `{self.name}`", "", f"{self.description} Sorted by {keys}.", ""]
        lines += ["| column | type | meaning |", "| --- | --- | --- |"]
        for column in self.columns:
            text = {key.decode(): value.decode() for key, value in column.metadata.items()}
            unit = f" [{text['unit']}]" if "unit" in text else ""
            kind = column.type
            if pa.types.is_list(kind):  # its own name, list<item: …>, is a tag in Markdown
                kind = f"list of {kind.value_type}"
            if column.nullable:
                kind = f"{kind}, may be missing"
            lines.append(f"| `{column.name}` | {kind} | {text['description']}{unit} |")
        return "\n".join(lines) + "\n"


def declared(module: str, *, like: Table | None = None) -> Table:
    """Return the table that the YAML file beside ``module``, a ``__file__``, declares.

    A column is ``float64? [degrees], smallest angle``: its type (``float64[]`` is a list), ``?`` if
    it may be missing, its unit if it has one, and what it means; or ``as in TABLE``, a column of
    the table ``like``.

    Raises `TableError` if the file declares no table, or a column in another way.
    """
    path = Path(module).with_suffix(".yaml")
    content = yaml.load(path.read_text(encoding="utf-8"), _LOADER)
    if not isinstance(content, dict) or set(content) != {"description", "keys", "columns"}:
        raise TableError(f"{path}: a table has a description, keys and columns")
    if unknown := set(content["keys"]) - set(content["columns"]):
        raise TableError(f"{path}: keys that are no columns: {', '.join(sorted(unknown))}")
    columns = []
    for name, text in content["columns"].items():
        parts = _COLUMN.fullmatch(str(text))
        if like and text == f"as in {like.name}" and name in like.schema.names:
            columns.append(like.schema.field(name))
        elif parts and parts[1] in _TYPES:
            kind, missing, unit, description = parts.groups()
            texts = {"description": description, **({"unit": unit} if unit else {})}
            columns.append(pa.field(name, _TYPES[kind], bool(missing), texts))
        else:
            raise TableError(f"{path}: {name}: {text!r} is not `type, description`")
    return Table(path.stem, content["description"], tuple(content["keys"]), tuple(columns))


def from_rows(table: Table, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table; `TableError` if one does not fit the declaration."""
    rows = list(rows)
    for row in rows:
        if odd := row.keys() ^ table.schema.names:
            names = ", ".join(sorted(odd))
            raise TableError(f"table {table.name}: columns missing or unknown in a row: {names}")
    try:
        return checked(table, pa.Table.from_pylist(rows, schema=table.schema))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TableError(f"table {table.name}: {error}") from error


def checked(table: Table, data: pa.Table) -> pa.Table:
    """Return ``data`` sorted by the keys; `TableError` if it does not fit the declaration."""
    if not data.schema.equals(table.schema, check_metadata=False):
        names = ", ".join(data.schema.names)
        raise TableError(f"table {table.name}: the columns are {names}, not as declared")
    for column in table.columns:
        if not column.nullable and data[column.name].null_count:
            raise TableError(f"table {table.name}: column {column.name} has missing values")
    order = pc.sort_indices(data, [(key, "ascending") for key in table.keys]).to_numpy()
    if (order[1:] < order[:-1]).any():  # a large table is not copied for nothing
        data = data.take(order)
    keys = list(table.keys)
    if repeated := len(data) - len(data.select(keys).group_by(keys).aggregate([])):
        raise TableError(f"table {table.name}: {repeated} rows repeat the key ({', '.join(keys)})")
    return pa.Table.from_batches(data.combine_chunks().to_batches(), schema=table.schema)


def write(path: str | os.PathLike[str], table: Table, data: pa.Table) -> None:
    """Write ``data`` to ``path`` as zstd Parquet, whole or not at all; see `checked`."""
    data = checked(table, data)
    with atomic(Path(path)) as temporary:
        pq.write_table(data, temporary, compression="zstd", version="2.6")


def read(
    path: str | os.PathLike[str] | Sequence[str], table: Table, *, columns: list[str] | None = None
) -> pa.Table:
    """Return the rows of one file or several, with all ``columns`` or some.

    `TableError` says if a file is missing, damaged or another table.
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
