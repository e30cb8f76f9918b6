"""The precision study's table: complete, the same bytes twice, mistakes in one line."""

from __future__ import annotations

from pathlib import Path

import measure_precision
import numpy as np
import pytest

from ntk_conditioning import tables
from ntk_conditioning.tables.precision import PRECISION, reach

SIZES = ["--samples=4", "--dim=6", "--width=16", "--depths", "0", "1", "--points=5"]


def run(path: Path, *options: str) -> int:
    return measure_precision.main([*SIZES, "--seeds", "1", "32", "--output", str(path), *options])


def test_every_problem_has_a_row_for_each_of_its_recipes(tmp_path):
    assert run(tmp_path / "table.parquet") == 0
    found = tables.read(tmp_path / "table.parquet", PRECISION).to_pandas()
    problems = found.groupby(["kernel", "activation", "depth", "seed"])["method"].value_counts()
    assert set(problems) == {5}
    recipes = found.groupby(["kernel", "activation", "depth"])["method"].nunique()
    assert recipes.to_dict() == {
        ("empirical_ntk", "linear", 0): 6,
        ("empirical_ntk", "linear", 1): 6,
        ("empirical_ntk", "relu", 1): 5,
        ("infinite_ntk", "relu", 1): 3,
    }
    assert (found["kappa"].notna() == found["resolved"]).all()
    assert (found["kappa"] == found["ratio"])[found["resolved"]].all()
    expected = np.abs(found["ratio"] / found["kappa_reference"] - 1)
    np.testing.assert_allclose(found["relative_error"], expected, rtol=1e-6, atol=1e-15)
    assert found["width"].isna().equals(found["kernel"] == "infinite_ntk")


def test_the_same_problems_give_the_same_bytes(tmp_path):
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    assert [run(path) for path in paths] == [0, 0]
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--dim=3"], "4 samples in 3 dimensions have a singular Gram matrix"),
        (["--points=0"], "0 is not above zero"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_table(tmp_path, capsys, options, told):
    assert run(tmp_path / "table.parquet", *options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert not list(tmp_path.iterdir())


def test_reach_is_where_the_errors_stay_small():
    kappa, error = [1e2, 1e4, 1e6, 1e8], [0.0, 0.02, 0.5, 0.001]
    assert reach(kappa, error, tolerance=0.1) == 1e4
    assert reach(kappa, error, tolerance=0.01) == 1e2
    assert reach(kappa, error, tolerance=1.0) == 1e8
    assert np.isnan(reach([1.0], [0.5], tolerance=0.1))
