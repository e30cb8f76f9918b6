"""Studies without data of a run: activations, precision, and networks of growing width."""

import math
from itertools import product
from pathlib import Path

import fit_width_slopes
import measure_activations
import measure_linearity
import measure_orthogonality
import measure_precision
import numpy as np
import pandas as pd
import pytest

from ntk_conditioning import tables
from ntk_conditioning.spectra.unresolved import reach
from tests.support.clone import ROOT
from tests.support.sources import write_prepared

PROGRAMS = {"orthogonality": measure_orthogonality, "linearity": measure_linearity}


def measure(study, hidden, options="", *, widths="3 6", seeds="1"):
    """Measure networks by a study's program, and return the rows."""
    write_prepared(Path("all.npz"), n=12, d=5)
    words = "--data all.npz --dataset tiny --samples 4 --steps 3 --activation tanh"
    words += f" --architecture one --hidden {hidden} --widths {widths} --seeds {seeds}"
    words += " --radii 1 2 --directions 2" if study == "linearity" else ""
    assert PROGRAMS[study].main(f"{words} {options} --output {study}.parquet".split()) == 0
    return tables.read(Path(f"{study}.parquet"), study).to_pandas()


def test_angles_of_every_layer_before_and_after_training():
    assert len(measure("orthogonality", "m m m")) == 2 * 3 * 2  # widths, layers, moments
    rows = measure("orthogonality", "12 m 10")
    initial = rows.query("width == 6 and label_scale == 0")
    assert initial["hidden"].unique() == ["12-6-10"]
    assert initial["layer_width"].tolist() == [12, 6, 10]
    assert initial["fan_in"].tolist() == [5, 12, 6]
    assert (rows.query("layer == 1")["cos_mean"] == 0).all()
    assert (rows.query("layer > 1")["cos_mean"] > 0).all()
    assert (rows.query("label_scale > 0")["loss"] < 1).all()


def test_a_longer_training_goes_on_from_a_shorter_one():
    both, *apart = (measure("orthogonality", "m m", f"--steps {n}") for n in ("2 7", "2", "7"))
    keys = list(tables.get("orthogonality").keys)
    apart = pd.concat(apart).drop_duplicates(keys).sort_values(keys, ignore_index=True)
    pd.testing.assert_frame_equal(both, apart)
    losses = both.query("layer == 1").pivot(index="width", columns="steps", values="loss")
    assert (losses[7] < losses[2]).all()
    assert (losses[2] < 1).all()


def test_terms_and_bounds_of_every_radius():
    deep, dense = measure("linearity", "m m m"), measure("linearity", "m m", "--dense")
    two_layer = measure("linearity", "m")
    for rows in (deep, dense, two_layer):
        assert len(rows) == 2 * 2  # widths, radii
        assert (rows["quadratic_term"] >= rows["quadratic_term_fixed"] * 0.5).all()
    assert deep["bound"].isna().all()
    assert dense["bound"].isna().all()
    assert dense["bound_fixed"].isna().all()
    assert (two_layer["quadratic_term"] <= two_layer["bound"]).all()
    # one hidden layer on 4 samples of 5 features: W (m, 4) in their span, and u (m,)
    assert two_layer.query("width == 6")["parameters"].unique() == [6 * 4 + 6]


def test_slopes_are_fitted_for_each_seed():
    given = {"widths": "8 16 32", "seeds": "1 2"}
    rows, _ = (measure(study, "m m m", **given) for study in PROGRAMS)
    words = [f"--{study}={study}.parquet" for study in PROGRAMS]
    assert fit_width_slopes.main([*words, "--output=slopes.parquet"]) == 0
    slopes = tables.read(Path("slopes.parquet"), "width_slopes").to_pandas()
    assert not slopes.query("quantity == 'cos_mean' and layer == 1").size  # exactly orthogonal
    network = "seed == 2 and layer == 3 and label_scale == 1"
    points = rows.query(network).sort_values("width")
    row = slopes.query(f"quantity == 'cos_mean' and {network}").iloc[0]
    expected, _ = np.polyfit(np.log(points["width"]), np.log(points["cos_mean"]), 1)
    assert row["slope"] == pytest.approx(expected, rel=1e-12)
    assert (row["points"], row["width_min"], row["width_max"]) == (3, 8, 32)
    assert row["falls"] == (np.diff(points["cos_mean"]) < 0).all()
    terms = slopes.query("quantity == 'quadratic_term'")
    assert sorted(zip(terms["radius"], terms["seed"], strict=True)) == [*product((1, 2), (1, 2))]
    assert slopes.query("quantity == 'hessian_norm'")["radius"].tolist() == [0, 0]


@pytest.mark.usefixtures("activation_registry")
def test_every_activation_has_a_row_as_it_is_and_normalised():
    names = ("relu", "normrelu", "normalized_gelu", "swish")
    words = ["--activation", *names, f"--activation-file={ROOT}/docs/examples/swish.py"]
    assert measure_activations.main([*words, "--output=one.parquet"]) == 0
    rows = tables.read(Path("one.parquet"), "activations").to_pandas().set_index("activation")
    assert set(rows.index) == {*names, *(f"normalized_{name}" for name in names if "_" not in name)}
    relu, normal = rows.loc["relu"], rows.loc["normalized_relu"]
    assert relu["mean"] == pytest.approx(1 / math.sqrt(2 * math.pi))
    # both kinds of μ, the fixed point and the slope there are those of agarwal2021deep
    assert relu["non_linearity"] == pytest.approx((math.pi - 2) / (2 * math.pi - 2), abs=1e-14)
    assert relu["non_affinity"] == pytest.approx(1 / 2 - 1 / math.pi, abs=1e-14)
    assert (normal["fixed_point"], normal["normalized"], normal["base"]) == (0, True, "relu")
    assert normal["slope_at_fixed_point"] == pytest.approx(1 - relu["non_linearity"], abs=1e-13)
    assert rows["scale"].notna().equals(rows["base"] == "normrelu")
    squares = np.stack(rows["coefficients"]) ** 2
    np.testing.assert_allclose(squares.sum(axis=1) + rows["tail"], 1, atol=1e-13)


def test_every_problem_has_a_row_for_each_of_its_recipes_and_the_same_bytes_again():
    sizes = "--samples=4 --dim=6 --width=16 --depths 0 1 --points=5 --seeds 1 32 --output"
    for name in ("first", "second"):
        assert measure_precision.main([*sizes.split(), name]) == 0
    assert Path("first").read_bytes() == Path("second").read_bytes()
    rows = tables.read(Path("first"), "precision").to_pandas()
    problems = rows.groupby(["kernel", "activation", "depth", "seed"])["method"].value_counts()
    assert set(problems) == {5}
    recipes = rows.groupby(["kernel", "activation", "depth"])["method"].nunique()
    expected = {("empirical_ntk", "linear", 0): 6, ("empirical_ntk", "linear", 1): 6}
    expected |= {("empirical_ntk", "relu", 1): 5, ("infinite_ntk", "relu", 1): 3}
    assert recipes.to_dict() == expected
    assert (rows["kappa"].notna() == rows["resolved"]).all()
    errors = np.abs(rows["ratio"] / rows["kappa_reference"] - 1)
    np.testing.assert_allclose(rows["relative_error"], errors, rtol=1e-6, atol=1e-15)
    assert rows["width"].isna().equals(rows["kernel"] == "infinite_ntk")


def test_reach_is_where_the_errors_stay_small():
    kappa, error = [1e2, 1e4, 1e6, 1e8], [0.0, 0.02, 0.5, 0.001]
    reached = [reach(kappa, error, tolerance=tolerance) for tolerance in (0.1, 0.01, 1.0)]
    assert reached == [1e4, 1e2, 1e8]
    assert np.isnan(reach([1.0], [0.5], tolerance=0.1))
