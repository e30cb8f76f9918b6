"""Tables are the same to pandas, polars and DuckDB, and carry the documentation of the page."""

from __future__ import annotations

import importlib
import pkgutil
from itertools import count

import document_tables
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ntk_conditioning import tables
from ntk_conditioning.tables import Table
from ntk_conditioning.tables.collection import collect

ALL = tuple(document_tables.TABLES.values())
VALUES = {
    pa.string(): ["Grüße", "", "a|b"],
    pa.int64(): [-3, 2**53 - 1, 0],
    pa.float64(): [0.1, float("inf"), -5e-324],
    pa.bool_(): [True, False, True],
    pa.list_(pa.float64()): [[1.5, 0.1], [], [float("inf")]],
}
POLARS = {
    pa.string(): pl.String,
    pa.int64(): pl.Int64,
    pa.float64(): pl.Float64,
    pa.bool_(): pl.Boolean,
    pa.list_(pa.float64()): pl.List(pl.Float64),
}
DUCKDB = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.list_(pa.float64()): "DOUBLE[]",
}


@pytest.fixture(params=ALL, ids=lambda table: table.name)
def table(request) -> Table:
    return request.param


@pytest.fixture
def path(table, tmp_path):
    """Write rows with every kind of value; what may be missing is missing in the last one."""
    rows = [{column.name: VALUES[column.type][n] for column in table.columns} for n in range(3)]
    rows.append({c.name: None if c.nullable else VALUES[c.type][0] for c in table.columns})
    for number, row in zip(count(), rows, strict=False):
        key = next(name for name in table.keys if row[name] is not None)
        kind = type(row[key])
        row[key] = f"{row[key]} {number}" if kind is str else kind(number)
    tables.write(tmp_path / "t.parquet", table, tables.from_rows(table, rows))
    return tmp_path / "t.parquet"


@pytest.fixture
def written(table, path):
    return tables.read(path, table).to_pylist()


def test_pandas_reads_values_and_missing_ones(table, path, written):
    frame = pd.read_parquet(path)
    assert list(frame.columns) == [column.name for column in table.columns]
    for column in table.columns:
        for found, value in zip(
            frame[column.name], [row[column.name] for row in written], strict=True
        ):
            if isinstance(value, list):
                assert list(found) == value
            elif value is None:
                assert found is None or pd.isna(found)
            else:
                assert found == value


def test_pandas_keeps_types_where_it_is_asked_to(table, path, written):
    frame = pd.read_parquet(path, dtype_backend="pyarrow")
    back = pa.Table.from_pandas(frame, preserve_index=False)
    assert [field.type for field in back.schema] == [column.type for column in table.columns]
    assert back.to_pylist() == written


def test_polars_reads_the_same(table, path, written):
    frame = pl.read_parquet(path)
    expected = {column.name: POLARS[column.type] for column in table.columns}
    assert dict(frame.schema) == expected
    assert frame.to_dicts() == written


def test_duckdb_reads_the_same(table, path, written):
    with duckdb.connect() as database:
        relation = database.read_parquet(str(path))
        names = relation.columns
        types = [str(kind) for kind in relation.types]
        assert types == [DUCKDB[column.type] for column in table.columns]
        rows = relation.fetchall()
    assert [dict(zip(names, row, strict=True)) for row in rows] == written


def test_the_page_says_what_the_file_says(table, path):
    page = document_tables.README.read_text(encoding="utf-8")
    section = page.split(f"### `{table.name}`\n")[1].split("\n### ")[0]
    copy = path.with_name("copy.parquet")
    tables.write(copy, table, collect([path], table))
    schema = pq.read_schema(copy)
    assert schema.metadata[b"description"].decode() in section
    assert schema.metadata[b"keys"].decode().split(",") == list(table.keys)
    for field in schema:
        described = field.metadata[b"description"].decode()
        unit = field.metadata.get(b"unit", b"").decode()
        assert f"| {described}{f' [{unit}]' if unit else ''} |\n" in section
        assert f"| `{field.name}` | {table.schema.field(field.name).type}" in section


def test_every_declared_table_is_on_the_page():
    names = [module.name for module in pkgutil.iter_modules(tables.__path__)]
    modules = [importlib.import_module(f"{tables.__name__}.{name}") for name in names]
    values = [value for module in modules for value in vars(module).values()]
    declared = {value.name for value in values if isinstance(value, Table)}
    assert declared == {table.name for table in ALL}


def test_units_are_in_the_file(tmp_path):
    schema = document_tables.TABLES["angles"].schema
    assert schema.field("min_angle").metadata[b"unit"] == b"degrees"
