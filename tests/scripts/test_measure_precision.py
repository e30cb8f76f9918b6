"""The precision study's table: complete, the same bytes twice, mistakes in one line."""

import measure_precision
import numpy as np

from ntk_conditioning import tables
from ntk_conditioning.tables.precision import PRECISION, reach

SIZES = ["--samples=4", "--dim=6", "--width=16", "--depths", "0", "1", "--points=5"]


def test_every_problem_has_a_row_for_each_of_its_recipes_and_the_same_bytes_again(tmp_path):
    one, two = (tmp_path / name for name in ("one.parquet", "two.parquet"))
    for path in (one, two):
        assert measure_precision.main([*SIZES, "--seeds", "1", "32", f"--output={path}"]) == 0
    assert one.read_bytes() == two.read_bytes()
    rows = tables.read(one, PRECISION).to_pandas()
    problems = rows.groupby(["kernel", "activation", "depth", "seed"])["method"].value_counts()
    assert set(problems) == {5}
    recipes = rows.groupby(["kernel", "activation", "depth"])["method"].nunique()
    expected = {("empirical_ntk", "linear", 0): 6, ("empirical_ntk", "linear", 1): 6}
    expected |= {("empirical_ntk", "relu", 1): 5, ("infinite_ntk", "relu", 1): 3}
    assert recipes.to_dict() == expected
    assert (rows["kappa"].notna() == rows["resolved"]).all()
    assert (rows["kappa"] == rows["ratio"])[rows["resolved"]].all()
    errors = np.abs(rows["ratio"] / rows["kappa_reference"] - 1)
    np.testing.assert_allclose(rows["relative_error"], errors, rtol=1e-6, atol=1e-15)
    assert rows["width"].isna().equals(rows["kernel"] == "infinite_ntk")


def test_reach_is_where_the_errors_stay_small():
    kappa, error = [1e2, 1e4, 1e6, 1e8], [0.0, 0.02, 0.5, 0.001]
    reached = [reach(kappa, error, tolerance=tolerance) for tolerance in (0.1, 0.01, 1.0)]
    assert reached == [1e4, 1e2, 1e8]
    assert np.isnan(reach([1.0], [0.5], tolerance=0.1))
