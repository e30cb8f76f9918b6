"""The datasheets of whole and drawn datasets become one table."""

from __future__ import annotations

from pathlib import Path

import aggregate_datasets
import pandas as pd
import pyarrow.parquet as pq
import pytest

from ntk_conditioning import tables
from ntk_conditioning.tables.datasets import DATASETS
from ntk_workflow.plan.cells import Grid

GRID = Grid(["nngp"], ["relu"], {"synthetic": [1], "digits": [1]}, [32, 1], drawn=["digits"])


def row(dataset: str, seed: int | None) -> dict[str, object]:
    return {
        "dataset": dataset,
        "seed": seed,
        "n": 4,
        "d": 3,
        "classes": None if seed is None else 2,
        "class_min": None if seed is None else 1,
        "class_max": None if seed is None else 3,
        "dtype": "uint8",
        "scaling": "none",
        "min": 0.0,
        "max": 9.0,
        "norm_min": 1.0,
        "norm_median": 2.0,
        "norm_max": 3.0,
        "constant_columns": 0,
        "gram_rank": 3,
        "duplicates": 0,
        "min_angle": 1.5,
        "i": 0,
        "j": 1,
        "sha256": "0" * 64,
    }


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    for dataset, draw, seed in (
        ("synthetic", "all", None),
        ("digits", "seed-1", 1),
        ("digits", "seed-32", 32),
    ):
        data = tables.from_rows(DATASETS, [row(dataset, seed)])
        tables.write(tmp_path / dataset / f"{draw}.parquet", DATASETS, data)
    output = f"--output={tmp_path}/datasets.parquet"
    return [f"--cells={tmp_path}", f"--grids={GRID.to_json()}", output]


def test_pandas_reads_it_with_missing_seeds(arguments, tmp_path):
    assert aggregate_datasets.main(arguments) == 0
    path = tmp_path / "datasets.parquet"
    found = pd.read_parquet(path, dtype_backend="numpy_nullable")
    assert found["dataset"].tolist() == ["digits", "digits", "synthetic"]
    assert found["seed"].tolist() == [1, 32, pd.NA]
    assert found["classes"].isna().tolist() == [False, False, True]
    assert pd.read_parquet(path)["seed"].isna().tolist() == [False, False, True]
    description = pq.read_schema(path).field("min_angle").metadata[b"description"]
    assert b"not duplicates" in description


def test_grids_that_share_a_dataset_give_its_rows_once(arguments):
    cells, _, output = arguments
    grids = ["--grids", GRID.to_json(), GRID.to_json()]
    assert aggregate_datasets.main([cells, *grids, output]) == 0


def test_a_missing_datasheet_is_one_line(arguments, tmp_path, capsys):
    (tmp_path / "digits/seed-32.parquet").unlink()
    assert aggregate_datasets.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "seed-32.parquet: no such table" in line


def test_keys_with_a_missing_seed_are_sorted_and_unique():
    rows = [row("b", None), row("b", 2), row("a", None), row("b", 1)]
    found = tables.from_rows(DATASETS, rows).select(["dataset", "seed"]).to_pylist()
    assert [(r["dataset"], r["seed"]) for r in found] == [
        ("a", None),
        ("b", 1),
        ("b", 2),
        ("b", None),
    ]
    with pytest.raises(tables.TableError, match="1 rows repeat the key"):
        tables.from_rows(DATASETS, [*rows, row("b", None)])
