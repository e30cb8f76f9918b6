"""The real program describes a prepared dataset, or says in one line what is wrong."""

import json
from pathlib import Path
from typing import Any

import describe_dataset
import numpy as np
import pytest

from ntk_conditioning import tables
from ntk_conditioning.data import datasets
from ntk_conditioning.data.prepared import PreparedSamples, content_digest, save_prepared


@pytest.fixture
def prepared(tmp_path: Path):
    """Write a prepared dataset with its datasheet and return the program's arguments."""

    def write(x: np.ndarray, y: np.ndarray | None = None, **how: Any) -> list[str]:
        dataset = PreparedSamples("tiny", x, y, "unit_interval", (0.0, 10.0))
        save_prepared(tmp_path / "seed-3.npz", dataset)
        sheet = datasets.describe(dataset, available=50, **how)
        (tmp_path / "seed-3.json").write_text(json.dumps(sheet))
        files = [f"--data={tmp_path}/seed-3.npz", f"--datasheet={tmp_path}/seed-3.json"]
        return [*files, "--dataset=mine", f"--output={tmp_path}/out/seed-3.parquet"]

    return write


X = np.array([[3, 4, 9], [0, 5, 9], [3, 4, 9], [3, 4, 9]], dtype=np.uint8)


def test_a_row_by_hand(prepared, tmp_path):
    y, output, written = np.array([1, 1, 7, 1]), tmp_path / "out/seed-3.parquet", []
    for _ in range(2):
        assert describe_dataset.main(prepared(X, y, seed=3, balanced=False)) == 0
        written.append(output.read_bytes())
    assert written[0] == written[1]
    (row,) = tables.read(output, "datasets").to_pylist()
    floats = {name: row.pop(name) for name in ("norm_min", "norm_median", "norm_max", "min_angle")}
    expected = {"dataset": "mine", "seed": 3, "n": 4, "d": 3, "dtype": "uint8", "i": 0, "j": 1}
    expected |= {"classes": 2, "class_min": 1, "class_max": 3, "scaling": "unit_interval"}
    expected |= {"min": 0.0, "max": 9.0, "constant_columns": 1, "gram_rank": 2, "duplicates": 3}
    digest = content_digest(PreparedSamples("tiny", X, y, "unit_interval", (0.0, 10.0)))
    assert row == expected | {"sha256": digest}
    # both samples, (0.3, 0.4, 0.9) and (0, 0.5, 0.9), have norm² 1.06 and inner product 1.01
    angle = np.degrees(np.arccos(1.01 / 1.06))
    np.testing.assert_allclose(list(floats.values()), [1.06**0.5] * 3 + [angle], rtol=1e-14)


def test_what_does_not_exist_is_missing(prepared, tmp_path):
    assert describe_dataset.main(prepared(np.full((3, 2), 5.0))) == 0
    (row,) = tables.read(tmp_path / "out/seed-3.parquet", "datasets").to_pylist()
    names = ("seed", "classes", "class_min", "class_max", "min_angle", "i", "j")
    assert [name for name in row if row[name] is None] == list(names)
    assert row["duplicates"] == 3
