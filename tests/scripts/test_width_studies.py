"""Studies of wide networks: what their tables hold, and the exponents fitted to them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ntk_conditioning import tables
from ntk_conditioning.tables.registry import TABLES
from tests import width_studies


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return width_studies.archive(tmp_path)


def table(folder: Path, name: str) -> pd.DataFrame:
    return tables.read(folder / f"{name}.parquet", TABLES[name]).to_pandas()


def test_angles_of_every_layer_before_and_after_training(data, tmp_path):
    for name in ("deep", "bottleneck"):
        assert not width_studies.measure("orthogonality", data, tmp_path, architecture=name)
    assert not width_studies.aggregate("orthogonality", tmp_path)
    rows = table(tmp_path, "orthogonality")
    assert len(rows) == 2 * 2 * 3 * 2  # architectures, widths, layers, moments
    bottleneck = rows.query("architecture == 'bottleneck' and width == 6 and not trained")
    assert bottleneck["hidden"].unique() == ["12-6-10"]
    assert bottleneck["layer_width"].tolist() == [12, 6, 10]
    assert bottleneck["fan_in"].tolist() == [5, 12, 6]
    assert (rows.query("layer == 1")["cos_mean"] == 0).all()
    assert (rows.query("layer > 1")["cos_mean"] > 0).all()
    losses = rows.groupby("trained")["loss"].sum()
    assert losses[True] < losses[False]


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
    network = "seed == 2 and layer == 3 and trained"
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
