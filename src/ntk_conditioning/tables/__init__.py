"""Typed Parquet tables, each declared in ``<table>.yaml`` beside this module.

A file is sorted by its table's keys and carries its documentation; equal rows give equal bytes.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from ntk_conditioning.errors import UserError
from ntk_conditioning.files import atomic

FOLDER = Path(__file__).parent

_Path = str | os.PathLike[str]
_TYPES = {kind: pa.type_for_alias(kind) for kind in ("bool", "int64", "float64", "string")}
_TYPES["float64[]"] = pa.list_(pa.float64())
_COLUMN = re.compile(r"([\w\[\]]+)(\?)?(?: \[(.+?)\])?, (.+)")
_AS_IN = re.compile(r"as in (\w+)")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TableError(UserError):
    """Rows, a file or a declaration do not fit a table."""


@dataclass(frozen=True)
class Table:
    """A table's declaration: ``keys`` name the columns that identify and order its rows.

    ``studies`` are the sections of the config that must be there for a run to have the table,
    ``axes`` the keys of its study after which files of its rows are named, None if it has none.
    ``like`` is the table whose columns it has, if it has no columns of its own. One job computes a
    ``whole`` table, which has no rows beside it; another processor gives a ``chaotic`` one other
    numbers, as rounding grows in it.
    """

    name: str
    description: str
    keys: tuple[str, ...]
    columns: tuple[pa.Field, ...]
    studies: tuple[str, ...] = ()
    axes: tuple[str, ...] | None = None
    like: str = ""
    whole: bool = False
    chaotic: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        names = {"table": self.name, "description": self.description}
        return pa.schema(self.columns, {**names, "keys": ",".join(self.keys)})


def get(table: Table | str) -> Table:
    """Return a table by its name, or itself; `TableError` says if there is none.

    >>> get("angles").keys
    ('kernel', 'dataset', 'activation', 'depth', 'seed')
    """
    if isinstance(table, str) and table not in TABLES:
        raise TableError(f"no table {table!r}; there are {', '.join(TABLES)}")
    return TABLES[table] if isinstance(table, str) else table


@cache
def declared(path: Path) -> Table:
    """Return the table that a YAML file declares.

    A column is ``float64? [degrees], smallest angle``: its type (``float64[]`` is a list), ``?`` if
    it may be missing, its unit if it has one, and what it means; or ``as in TABLE``, the column of
    that name of a table beside it. ``columns: as in TABLE`` are all of its columns.

    Raises `TableError` if the file declares a column in another way.
    """
    content = yaml.load(path.read_text(encoding="utf-8"), _LOADER)
    texts, study, like = content.pop("columns"), content.pop("study", []), ""
    if isinstance(texts, str):
        like = _AS_IN.sub(r"\1", texts)
        columns = declared(path.with_name(f"{like}.yaml")).columns
    else:
        columns = tuple(_column(path, name, str(text)) for name, text in texts.items())
    content |= {"studies": [study] if isinstance(study, str) else study}
    given: Any = {key: tuple(v) if isinstance(v, list) else v for key, v in content.items()}
    return Table(path.stem, columns=columns, like=like, **given)


def _column(path: Path, name: str, text: str) -> pa.Field:
    if (other := _AS_IN.fullmatch(text)) and path.with_name(f"{other[1]}.yaml").is_file():
        schema = declared(path.with_name(f"{other[1]}.yaml")).schema
        if name in schema.names:
            return schema.field(name)
    parts = _COLUMN.fullmatch(text)
    if not parts or parts[1] not in _TYPES:
        raise TableError(f"{path}: {name}: {text!r} is not `type, description`")
    kind, missing, unit, description = parts.groups()
    texts = {"description": description, **({"unit": unit} if unit else {})}
    return pa.field(name, _TYPES[kind], bool(missing), texts)


#: All tables by name.
TABLES: Mapping[str, Table] = {path.stem: declared(path) for path in sorted(FOLDER.glob("*.yaml"))}


def from_rows(table: Table | str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table; `TableError` if one does not fit the declaration."""
    table, rows = get(table), list(rows)
    for row in rows:
        if odd := row.keys() ^ table.schema.names:
            names = ", ".join(sorted(odd))
            raise TableError(f"table {table.name}: columns missing or unknown in a row: {names}")
    return checked(table, pa.Table.from_pylist(rows, schema=table.schema))


def checked(table: Table, data: pa.Table) -> pa.Table:
    """Return ``data`` sorted by the keys; `TableError` if it does not fit the declaration."""
    if not data.schema.equals(table.schema, check_metadata=False):
        names = ", ".join(data.schema.names)
        raise TableError(f"table {table.name}: the columns are {names}, not as declared")
    for column in table.columns:
        if not column.nullable and data[column.name].null_count:
            raise TableError(f"table {table.name}: column {column.name} has missing values")
    keys = list(table.keys)
    data = data.sort_by([(key, "ascending") for key in keys])
    if repeated := len(data) - len(data.select(keys).group_by(keys).aggregate([])):
        raise TableError(f"table {table.name}: {repeated} rows repeat the key ({', '.join(keys)})")
    return pa.Table.from_batches(data.combine_chunks().to_batches(), schema=table.schema)


def write(path: _Path, table: Table | str, data: pa.Table | Iterable[Mapping[str, Any]]) -> None:
    """Write a table, or rows, to ``path`` as zstd Parquet, whole or not at all; see `checked`."""
    table = get(table)
    data = checked(table, data) if isinstance(data, pa.Table) else from_rows(table, data)
    with atomic(Path(path)) as temporary:
        pq.write_table(data, temporary, compression="zstd", version="2.6")


def read(
    path: _Path | Sequence[str], table: Table | str, *, columns: list[str] | None = None
) -> pa.Table:
    """Return the rows of one file or several, with all ``columns`` or some.

    `TableError` says if a file is missing, damaged or another table.
    """
    table = get(table)
    if not isinstance(path, str | os.PathLike):  # as notebooks get them, of several experiments
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


def collect(
    paths: Iterable[_Path], table: Table | str, *, columns: Collection[str] | None = None
) -> pa.Table:
    """Return the rows of many files of one table, sorted by its keys; no rows without files.

    ``columns``, if not all, must contain the keys. `TableError` names all missing or damaged files.
    """
    table = get(table)
    names = table.schema.names if columns is None else columns
    part = replace(table, columns=tuple(c for c in table.columns if c.name in names))
    read_parts, problems = [part.schema.empty_table()], []
    for path in paths:
        try:
            read_parts.append(read(path, table, columns=part.schema.names).cast(part.schema))
        except TableError as error:
            problems.append(str(error))
    if problems:
        raise TableError("\n".join(problems))
    return checked(part, pa.concat_tables(read_parts).combine_chunks())
