"""Rows become tables, and condition numbers of spectra are summarised."""

import aggregate_table
import pandas as pd
import pyarrow as pa
import pytest

from ntk_conditioning import tables
from ntk_conditioning.tables import TABLES
from tests.support.rows import plain, write


@pytest.mark.parametrize("name", TABLES)
def test_rows_become_the_table_of_that_name(name, tmp_path):
    table = TABLES[name]
    key = table.keys[0]
    values = "bca" if table.schema.field(key).type == pa.string() else (2, 3, 1)
    rows = [write(tmp_path / f"{value}.parquet", table, {key: value}) for value in values]
    output = tmp_path / f"{name}.parquet"
    whole = [plain(table, **{key: value}) for value in sorted(values)]
    for given, expected in ((rows, whole), ([], [])):
        call = [f"--table={name}", f"--output={output}", "--rows", *map(str, given)]
        assert aggregate_table.main(call) == 0
        assert tables.read(output, table).to_pylist() == expected


def test_seeds_that_are_missing_come_last_and_pandas_reads_them(tmp_path):
    table, output = TABLES["datasets"], tmp_path / "datasets.parquet"
    whole = write(tmp_path / "all.parquet", table, {"seed": None})
    drawn = write(tmp_path / "drawn.parquet", table, {"seed": 32}, {"seed": 1})
    call = ["--table=datasets", f"--output={output}", "--rows", str(whole), str(drawn)]
    assert aggregate_table.main(call) == 0
    found = pd.read_parquet(output, dtype_backend="numpy_nullable")
    assert found["seed"].tolist() == [1, 32, pd.NA]


def test_condition_numbers_are_summarised_by_curve_point(tmp_path):
    spectra, output = TABLES["spectra"], tmp_path / "conditioning.parquet"
    rows = []
    for depth in (3, 1):
        cells = ({"depth": depth, "seed": seed} for seed in (1, 2))
        rows.append(write(tmp_path / f"{depth}.parquet", spectra, *cells))
    for given, expected in ((rows, [(1, 2), (3, 2)]), ([], [])):
        call = ["--table=conditioning", "--summarize", f"--output={output}", "--rows"]
        assert aggregate_table.main([*call, *map(str, given)]) == 0
        points = tables.read(output, "conditioning").to_pylist()
        assert [(point["depth"], point["seeds"]) for point in points] == expected
