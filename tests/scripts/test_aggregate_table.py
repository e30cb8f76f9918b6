"""Rows become tables: one program for all of them, and one for condition numbers."""

import os
import subprocess
import sys

import aggregate_conditioning
import aggregate_table
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import aggregation, memory
from ntk_conditioning import tables
from ntk_conditioning.tables.conditioning import CONDITIONING
from ntk_conditioning.tables.registry import TABLES
from tests.rows import plain, write


@pytest.mark.parametrize("name", TABLES)
def test_rows_become_the_table_of_that_name(name, tmp_path):
    table = TABLES[name]
    key = table.keys[0]
    values = "bca" if table.schema.field(key).type == pa.string() else (2, 3, 1)
    rows = [write(tmp_path / f"{value}.parquet", table, {key: value}) for value in values]
    output = tmp_path / f"{name}.parquet"
    for given in (rows, []):
        call = [f"--table={name}", f"--output={output}", "--rows", *map(str, given)]
        assert aggregate_table.main(call) == 0
        expected = [plain(table, **{key: value}) for value in sorted(values)] if given else []
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
        assert aggregate_conditioning.main([f"--output={output}", "--rows", *map(str, given)]) == 0
        points = tables.read(output, CONDITIONING).to_pylist()
        assert [(point["depth"], point["seeds"]) for point in points] == expected


#: Once imported, a program is called in a process of its own for each folder.
PEAKS = """
import importlib, os, re, sys
from pathlib import Path
sys.path[:0] = ["src", "scripts"]
name, few, many, *options = sys.argv[1:]
program = importlib.import_module(name)
for folder in (few, many):
    if os.fork():
        assert os.wait()[1] == 0
        continue
    rows = sorted(map(str, Path(folder).rglob("*.parquet")))
    assert program.main([*options, "--rows", *rows]) == 0
    print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
    sys.exit(0)
"""
# Of the 13 kB that a cell adds to the peak, 8 are its eigenvalues, before and after sorting.
MOST = 40_000


@pytest.mark.slow
@pytest.mark.skipif(not memory.STATUS.exists(), reason="only Linux tells the peak")
def test_memory_grows_little_with_the_number_of_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda number: None)  # waiting for the disk takes minutes
    folders = [tmp_path / name for name in ("few", "many")]
    for folder, seeds in zip(folders, (3, 7), strict=True):
        aggregation.write_rows(folder, seeds=seeds, datasets=1)
    for program in aggregation.PROGRAMS:
        table = tmp_path / f"{program}.parquet"
        command = [sys.executable, "-c", PEAKS, program, *map(str, folders), f"--output={table}"]
        command += ["--table=spectra"] if program == "aggregate_table" else []
        # of several threads each may hold what it has read, or not
        options = {"env": os.environ | {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}}
        options |= {"cwd": memory.ROOT, "stdout": subprocess.PIPE}
        done = subprocess.run(command, check=True, **options)
        first, last = (1024 * int(line) for line in done.stdout.splitlines())
        assert last - first < (1400 - 600) * MOST
        blocks, points = 1400 * aggregation.BLOCKS, 200
        number = blocks if program == "aggregate_table" else points
        assert pq.read_metadata(table).num_rows == number
