"""Studies without data of a run: activations, precision, and networks of growing width."""

import math
from pathlib import Path

import measure_activations
import measure_precision
import numpy as np
import pandas as pd
import pytest

from ntk_conditioning import tables
from ntk_conditioning.spectra.summary import reach
from ntk_conditioning.tables import TABLES
from tests import width_studies


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return width_studies.archive(tmp_path)


def table(folder: Path, name: str, kind: str = "") -> pd.DataFrame:
    return tables.read(folder / f"{name}.parquet", TABLES[kind or name]).to_pandas()


def test_angles_of_every_layer_before_and_after_training(data, tmp_path):
    for name in ("deep", "bottleneck"):
        assert not width_studies.measure("orthogonality", data, tmp_path, architecture=name)
    assert not width_studies.aggregate("orthogonality", tmp_path)
    rows = table(tmp_path, "orthogonality")
    assert len(rows) == 2 * 2 * 3 * 2  # architectures, widths, layers, moments
    bottleneck = rows.query("architecture == 'bottleneck' and width == 6 and label_scale == 0")
    assert bottleneck["hidden"].unique() == ["12-6-10"]
    assert bottleneck["layer_width"].tolist() == [12, 6, 10]
    assert bottleneck["fan_in"].tolist() == [5, 12, 6]
    assert (rows.query("layer == 1")["cos_mean"] == 0).all()
    assert (rows.query("layer > 1")["cos_mean"] > 0).all()
    assert (rows.query("label_scale > 0")["loss"] < 1).all()


def test_a_longer_training_goes_on_from_a_shorter_one(data, tmp_path):
    rows = {}
    for steps in (("2",), ("7",), ("2", "7")):
        assert not width_studies.measure("orthogonality", data, tmp_path, "--steps", *steps)
        assert not width_studies.aggregate("orthogonality", tmp_path)
        rows[steps] = table(tmp_path, "orthogonality").query("label_scale == 1")
    both = rows.pop(("2", "7"))
    apart = pd.concat(rows.values()).sort_values([*TABLES["orthogonality"].keys])
    pd.testing.assert_frame_equal(both.reset_index(drop=True), apart.reset_index(drop=True))
    losses = both.query("layer == 1").pivot(index="width", columns="steps", values="loss")
    assert (losses[7] < losses[2]).all()
    assert (losses[2] < 1).all()


def test_terms_and_bounds_of_every_radius(data, tmp_path):
    for name in ("two_layer", "deep", "densenet"):
        assert not width_studies.measure("linearity", data, tmp_path, architecture=name)
    assert not width_studies.aggregate("linearity", tmp_path)
    rows = table(tmp_path, "linearity")
    assert len(rows) == 3 * 2 * 2  # architectures, widths, radii
    assert (rows["quadratic_term"] >= rows["quadratic_term_fixed"] * 0.5).all()
    assert rows.query("architecture != 'two_layer'")["bound"].isna().all()
    assert rows.query("architecture == 'densenet'")["bound_fixed"].isna().all()
    two_layer = rows.query("architecture == 'two_layer'")
    assert (two_layer["quadratic_term"] <= two_layer["bound"]).all()
    # one hidden layer on 4 samples of 5 features: W (m, 4) in their span, and u (m,)
    assert two_layer.query("width == 6")["parameters"].unique() == [6 * 4 + 6]


def test_slopes_are_fitted_for_each_seed(data, tmp_path):
    widths, seeds = (8, 16, 32), (1, 2)
    for study in ("orthogonality", "linearity"):
        assert not width_studies.measure(study, data, tmp_path, widths=widths, seeds=seeds)
        assert not width_studies.aggregate(study, tmp_path)
    assert not width_studies.fit(tmp_path)
    slopes = table(tmp_path, "width_slopes")
    assert not slopes.query("quantity == 'cos_mean' and layer == 1").size  # exactly orthogonal
    network = "seed == 2 and layer == 3 and label_scale == 1"
    points = table(tmp_path, "orthogonality").query(network).sort_values("width")
    row = slopes.query(f"quantity == 'cos_mean' and {network}").iloc[0]
    expected, _ = np.polyfit(np.log(points["width"]), np.log(points["cos_mean"]), 1)
    assert row["slope"] == pytest.approx(expected, rel=1e-12)
    assert (row["points"], row["width_min"], row["width_max"]) == (3, 8, 32)
    assert row["falls"] == (np.diff(points["cos_mean"]) < 0).all()
    terms = slopes.query("quantity == 'quadratic_term'")
    points = [(radius, seed) for radius in (1, 2) for seed in seeds]
    assert sorted(zip(terms["radius"], terms["seed"], strict=True)) == points
    assert slopes.query("quantity == 'hessian_norm'")["radius"].tolist() == [0, 0]


def test_the_two_classes_may_be_named(data, tmp_path):
    written = []
    for options in ((), ("--classes", "0", "1"), ("--classes", "1", "2")):
        assert not width_studies.measure("orthogonality", data, tmp_path, *options)
        written.append((tmp_path / "orthogonality/tiny/deep/tanh.parquet").read_bytes())
    assert written[0] == written[1] != written[2]


EXAMPLE = Path(__file__).resolve().parents[2] / "docs/examples/swish.py"


@pytest.mark.usefixtures("activation_registry")
def test_every_activation_has_a_row_as_it_is_and_normalised(tmp_path):
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    names = ("relu", "normrelu", "normalized_gelu", "swish")
    for path in paths:
        options = ["--activation", *names, f"--activation-file={EXAMPLE}", f"--output={path}"]
        assert measure_activations.main(options) == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()
    rows = table(tmp_path, "one", "activations").set_index("activation")
    assert set(rows.index) == {*names, *(f"normalized_{name}" for name in names if "_" not in name)}
    relu, normal = rows.loc["relu"], rows.loc["normalized_relu"]
    assert relu["mean"] == pytest.approx(1 / math.sqrt(2 * math.pi))
    assert relu["deviation"] == pytest.approx(math.sqrt((1 - 1 / math.pi) / 2))
    # both kinds of μ, the fixed point and the slope there are those of agarwal2021deep
    assert relu["non_linearity"] == pytest.approx((math.pi - 2) / (2 * math.pi - 2), abs=1e-14)
    assert relu["non_affinity"] == pytest.approx(1 / 2 - 1 / math.pi, abs=1e-14)
    assert (relu["fixed_point"], relu["slope_at_fixed_point"]) == (1, pytest.approx(1))
    assert (normal["fixed_point"], normal["normalized"], normal["base"]) == (0, True, "relu")
    assert normal["slope_at_fixed_point"] == pytest.approx(1 - relu["non_linearity"], abs=1e-13)
    assert rows.loc["normrelu", "scale"] == pytest.approx(1.05, abs=5e-5)
    assert rows["scale"].notna().equals(rows["base"] == "normrelu")
    squares = np.stack(rows["coefficients"]) ** 2
    np.testing.assert_allclose(squares.sum(axis=1) + rows["tail"], 1, atol=1e-13)
    np.testing.assert_allclose(squares[:, 1], rows["a_1"] ** 2)
    assert rows.filter(like="_error").to_numpy().max() < 1e-12


SIZES = ["--samples=4", "--dim=6", "--width=16", "--depths", "0", "1", "--points=5"]


def test_every_problem_has_a_row_for_each_of_its_recipes_and_the_same_bytes_again(tmp_path):
    one, two = (tmp_path / name for name in ("one.parquet", "two.parquet"))
    for path in (one, two):
        assert measure_precision.main([*SIZES, "--seeds", "1", "32", f"--output={path}"]) == 0
    assert one.read_bytes() == two.read_bytes()
    rows = table(tmp_path, "one", "precision")
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
