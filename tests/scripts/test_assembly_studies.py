"""Programs that study assemblies of neurons: tables, kept widths, mistakes in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ntk_conditioning import tables
from ntk_conditioning.tables.linearity import LINEARITY
from ntk_conditioning.tables.orthogonality import ORTHOGONALITY
from ntk_conditioning.tables.width_slopes import WIDTH_SLOPES
from tests import assemblies

STUDIES = ("orthogonality", "linearity")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return assemblies.archive(tmp_path)


def test_angles_of_every_layer_before_and_after_training(data, tmp_path):
    names = ("deep", "bottleneck")
    for name in names:
        assert not assemblies.measure("orthogonality", data, tmp_path, architecture=name)
    output = tmp_path / "orthogonality.parquet"
    assert not assemblies.aggregate("orthogonality", tmp_path, output, architectures=names)
    found = tables.read(output, ORTHOGONALITY).to_pandas()
    assert len(found) == 2 * 2 * 3 * 2  # architectures, widths, layers, moments
    bottleneck = found.query("architecture == 'bottleneck' and width == 6 and not trained")
    assert bottleneck["hidden"].unique() == ["12-6-10"]
    assert bottleneck["layer_width"].tolist() == [12, 6, 10]
    assert bottleneck["fan_in"].tolist() == [5, 12, 6]
    assert (found.query("layer == 1")["cos_mean"] == 0).all()
    assert (found.query("layer > 1")["cos_mean"] > 0).all()
    moments = found.groupby("trained")["loss"].sum()
    assert moments[True] < moments[False]


def test_terms_and_bounds_of_every_radius(data, tmp_path):
    names = ("two_layer", "deep", "densenet")
    for name in names:
        assert not assemblies.measure("linearity", data, tmp_path, architecture=name)
    output = tmp_path / "linearity.parquet"
    assert not assemblies.aggregate("linearity", tmp_path, output, architectures=names)
    found = tables.read(output, LINEARITY).to_pandas()
    assert len(found) == 3 * 2 * 2  # architectures, widths, radii
    assert (found["quadratic_term"] >= found["quadratic_term_fixed"] * 0.5).all()
    assert found.query("architecture == 'two_layer'")["bound"].notna().all()
    assert found.query("architecture != 'two_layer'")["bound"].isna().all()
    assert found.query("architecture == 'densenet'")["bound_fixed"].isna().all()
    two = found.query("architecture == 'two_layer'")
    assert (two["quadratic_term"] <= two["bound"]).all()
    # one hidden layer on 4 samples of 5 features: W (m, 4) in their span, and u (m,)
    assert two.query("width == 6")["parameters"].unique() == [6 * 4 + 6]


def test_slopes_are_fitted_for_each_seed(data, tmp_path):
    widths, seeds = (8, 16, 32), (1, 2)
    for study in STUDIES:
        assert not assemblies.measure(study, data, tmp_path, widths=widths, seeds=seeds)
        output = tmp_path / f"{study}.parquet"
        options = {"architectures": ["deep"], "widths": widths}
        assert not assemblies.aggregate(study, tmp_path, output, **options)
    assert not assemblies.fit(tmp_path)
    slopes = tables.read(tmp_path / "width_slopes.parquet", WIDTH_SLOPES).to_pandas()
    assert not slopes.query("quantity == 'cos_mean' and layer == 1").size  # exactly orthogonal
    cells = tables.read(tmp_path / "orthogonality.parquet", ORTHOGONALITY).to_pandas()
    own = cells.query("seed == 2 and layer == 3 and trained").sort_values("width")
    row = slopes.query("quantity == 'cos_mean' and seed == 2 and layer == 3 and trained").iloc[0]
    expected, _ = np.polyfit(np.log(own["width"]), np.log(own["cos_mean"]), 1)
    assert row["slope"] == pytest.approx(expected, rel=1e-12)
    assert (row["points"], row["width_min"], row["width_max"]) == (3, 8, 32)
    assert row["falls"] == (np.diff(own["cos_mean"]) < 0).all()
    terms = slopes.query("quantity == 'quadratic_term'")
    assert sorted(zip(terms["radius"], terms["seed"], strict=True)) == [
        (radius, seed) for radius in (1, 2) for seed in seeds
    ]
    assert slopes.query("quantity == 'hessian_norm'")["radius"].tolist() == [0, 0]


@pytest.mark.parametrize("study", STUDIES)
def test_widths_that_are_done_are_kept_and_bytes_repeat(study, data, tmp_path, caplog):
    caplog.set_level("INFO")
    kept = f"--checkpoints={tmp_path / 'kept'}"
    one, two = tmp_path / "one", tmp_path / "two"
    assert not assemblies.measure(study, data, one, kept)
    assert not assemblies.measure(study, data, two)
    caplog.clear()
    (one / study / "tiny/deep/tanh/width-6.parquet").unlink()
    assert not assemblies.measure(study, data, one, kept, widths=(3, 6, 9))
    told = [record.getMessage() for record in caplog.records if "width" in record.getMessage()]
    assert told == ["width 3: kept", "width 6: kept", "width 9: computed"]
    for width in (3, 6):
        name = f"{study}/tiny/deep/tanh/width-{width}.parquet"
        assert (one / name).read_bytes() == (two / name).read_bytes()
    caplog.clear()
    assert not assemblies.measure(study, data, one, kept, seeds=(1, 2))
    assert "width 3: computed" in [record.getMessage() for record in caplog.records]


def test_the_two_classes_may_be_named(data, tmp_path):
    assert not assemblies.measure("orthogonality", data, tmp_path / "a")
    assert not assemblies.measure("orthogonality", data, tmp_path / "b", "--classes", "0", "1")
    assert not assemblies.measure("orthogonality", data, tmp_path / "c", "--classes", "1", "2")
    name = "orthogonality/tiny/deep/tanh/width-3.parquet"
    lowest, named, other = ((tmp_path / one / name).read_bytes() for one in "abc")
    assert lowest == named != other


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--classes", "0", "7"], "are not two of its labels, which are 0 to 2"),
        (["--samples=9"], "9 samples asked for; it must be 2 to 8"),
        (["--activation=tahn"], "did you mean 'tanh'"),
        (["--hidden", "m", "k"], "--hidden"),
        (["--step-size=1e300", "--steps=9"], "diverged in step"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(data, tmp_path, capsys, options, told):
    assert assemblies.measure("orthogonality", data, tmp_path / "one", *options) == 2
    lines = capsys.readouterr().err.splitlines()
    assert told in lines[-1]
    assert sum("error" in line for line in lines) == 1
    assert not list(tmp_path.glob("one/**/*.parquet"))


def test_samples_need_labels(tmp_path, capsys):
    data = assemblies.archive(tmp_path, labelled=False)
    assert assemblies.measure("linearity", data, tmp_path) == 2
    assert "has no labels" in capsys.readouterr().err
