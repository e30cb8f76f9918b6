"""Studies of a run: what their programs measure and fit, beside theory and slower ways."""

import math
from pathlib import Path

import evaluate_laws
import fit_finite_width
import fit_width_slopes
import measure_activations
import measure_architectures
import measure_finite_width
import measure_linearity
import measure_orthogonality
import measure_phase
import measure_phase_of_data
import measure_precision
import measure_whole_dataset
import numpy as np
import pandas as pd
import pytest
import torch
from torch.func import functional_call, jacrev, vmap

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, load_prepared, save_prepared
from ntk_conditioning.data.subsets import draw_on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.networks import activations
from ntk_conditioning.spectra.unresolved import reach
from ntk_conditioning.theory.sphere import equicorrelated
from ntk_conditioning.threads import limit_threads
from ntk_workflow.trainings.networks import initial_network
from tests.support.clone import ROOT
from tests.support.sources import write_prepared
from tests.support.trainings import to_words

PROGRAMS = {"orthogonality": measure_orthogonality, "linearity": measure_linearity}


@pytest.fixture
def measure(tmp_path):
    """Return a function that measures networks by a study's program, and returns the rows."""
    write_prepared(tmp_path / "all.npz", n=12, d=5)

    def call(study, hidden, options="", *, widths="3 6", seeds="1"):
        output = tmp_path / f"{study}.parquet"
        words = f"--data {tmp_path}/all.npz --dataset tiny --samples 4 --steps 3 --activation tanh"
        words += f" --architecture one --hidden {hidden} --widths {widths} --seeds {seeds}"
        words += " --radii 1 2 --directions 2" if study == "linearity" else ""
        assert PROGRAMS[study].main(f"{words} {options} --output {output}".split()) == 0
        return tables.read(output, study).to_pandas()

    return call


def test_angles_of_every_layer_before_and_after_training(measure):
    assert len(measure("orthogonality", "m m m")) == 2 * 3 * 2  # widths, layers, moments
    rows = measure("orthogonality", "12 m 10")
    initial = rows.query("width == 6 and label_scale == 0")
    assert initial["hidden"].unique() == ["12-6-10"]
    assert initial["layer_width"].tolist() == [12, 6, 10]
    assert initial["fan_in"].tolist() == [5, 12, 6]
    assert (rows.query("layer == 1")["cos_mean"] == 0).all()
    assert (rows.query("layer > 1")["cos_mean"] > 0).all()
    assert (rows.query("label_scale > 0")["loss"] < 1).all()


def test_a_longer_training_goes_on_from_a_shorter_one(measure):
    both, *apart = (measure("orthogonality", "m m", f"--steps {n}") for n in ("2 7", "2", "7"))
    keys = list(tables.get("orthogonality").keys)
    apart = pd.concat(apart).drop_duplicates(keys).sort_values(keys, ignore_index=True)
    pd.testing.assert_frame_equal(both, apart)
    losses = both.query("layer == 1").pivot(index="width", columns="steps", values="loss")
    assert (losses[7] < losses[2]).all()
    assert (losses[2] < 1).all()


def test_terms_and_bounds_of_every_radius(measure):
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


def test_slopes_are_fitted_for_each_seed(measure, tmp_path):
    given = {"widths": "8 16 32", "seeds": "1 2"}
    rows, _ = (measure(study, "m m m", **given) for study in PROGRAMS)
    words = [f"--{study}={tmp_path}/{study}.parquet" for study in PROGRAMS]
    assert fit_width_slopes.main([*words, f"--output={tmp_path}/slopes.parquet"]) == 0
    slopes = tables.read(tmp_path / "slopes.parquet", "width_slopes").to_pandas()
    assert not slopes.query("quantity == 'cos_mean' and layer == 1").size  # exactly orthogonal
    network = "seed == 2 and layer == 3 and label_scale == 1"
    points = rows.query(network).sort_values("width")
    row = slopes.query(f"quantity == 'cos_mean' and {network}").iloc[0]
    expected, _ = np.polyfit(np.log(points["width"]), np.log(points["cos_mean"]), 1)
    assert row["slope"] == pytest.approx(expected, rel=1e-12)
    assert (row["points"], row["width_min"], row["width_max"]) == (3, 8, 32)
    assert row["falls"] == (np.diff(points["cos_mean"]) < 0).all()
    terms = slopes.query("quantity == 'quadratic_term'")
    assert sorted(zip(terms["radius"], terms["seed"], strict=True)) == [
        (radius, seed) for radius in (1, 2) for seed in (1, 2)
    ]
    assert slopes.query("quantity == 'hessian_norm'")["radius"].tolist() == [0, 0]


@pytest.mark.usefixtures("activation_registry")
def test_every_activation_has_a_row_as_it_is_and_normalised(tmp_path):
    names, path = ("relu", "normrelu", "normalized_gelu", "swish"), tmp_path / "one.parquet"
    file = f"--activation-file={ROOT}/docs/examples/swish.py"
    assert measure_activations.main(["--activation", *names, file, f"--output={path}"]) == 0
    rows = tables.read(path, "activations").to_pandas().set_index("activation")
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


def test_every_problem_has_a_row_for_each_of_its_recipes_and_the_same_bytes_again(tmp_path):
    written, path = [], tmp_path / "rows.parquet"
    sizes = "--samples=4 --dim=6 --width=16 --depths 0 1 --points=5 --seeds 1 32"
    for _ in range(2):
        assert measure_precision.main([*sizes.split(), f"--output={path}"]) == 0
        written.append(path.read_bytes())
    assert written[0] == written[1]
    rows = tables.read(path, "precision").to_pandas()
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


def test_products_bound_what_the_exact_kernel_has(tmp_path):
    write_prepared(tmp_path / "tiny.npz", n=60, d=9)
    given = {"dataset": "tiny", "data": tmp_path / "tiny.npz", "activation": ("relu", "linear")}
    given |= {"depths": (0, 2), "width": 32, "seeds": (1, 2), "threads": 1}

    def rows(name, **sizes):
        output = tmp_path / name
        assert measure_whole_dataset.main(to_words(given | sizes | {"output": output})) == 0
        found = tables.read(output, "whole_dataset").to_pylist()
        keys = ("activation", "depth", "seed", "n")
        return {tuple(row[key] for key in keys): row for row in found}

    exact = rows("exact", samples=(6, 24, 60))
    bounds = rows("bounds", samples=(6, 24), bounded=(60,))
    products = {key: row for key, row in bounds.items() if row["method"] == "products"}
    assert [*products] == [("relu", 2, 1, 60), ("relu", 2, 2, 60)]  # others have no kappa
    for key, row in products.items():
        few, whole = exact[(*key[:3], 24)], exact[key]
        top = whole["lambda_max"]
        assert top - row["lambda_max_error"] <= row["lambda_max"] <= top * (1 + 1e-12)
        assert row["kappa"] is None
        at_least = row["lambda_max"] / few["lambda_min"] * (1 - 1e-9)
        assert at_least <= row["kappa_bound"] <= whole["kappa"]
        assert row["effective_rank_low"] < row["effective_rank"] < row["effective_rank_high"]
    assert exact["linear", 0, 1, 60]["kappa"] is exact["linear", 0, 1, 60]["kappa_bound"] is None
    assert exact["relu", 2, 1, 6] == bounds["relu", 2, 1, 6]


@pytest.fixture
def given(tmp_path: Path):
    write_prepared(tmp_path / "mine.npz", n=50, d=20, labels=())
    given = {"dataset": "mine", "data": tmp_path / "mine.npz", "activation": ("relu", "tanh")}
    given |= {"samples": (4, 9), "widths": (8, 32, 64), "depths": (1, 2, 4, 16), "seeds": 1}
    return given | {"networks": 60, "threads": 1, "output": tmp_path / "rows.parquet"}


def test_networks_tend_to_infinite_width(given, tmp_path: Path):
    assert measure_finite_width.main(to_words(given)) == 0
    rows = tables.read(given["output"], "finite_width").to_pylist()
    assert {(row["width"], row["depth"]) for row in rows} == {
        *((8, depth) for depth in (1, 2, 4)),
        *((width, depth) for width in (32, 64) for depth in (1, 2, 4, 16)),
    }
    for row in rows:
        assert row["low"] <= row["median"] <= row["high"]
        if row["activation"] == "tanh":
            assert row["mean"] > row["infinite"] - 3 * row["mean_error"]
        if row["depth"] == 1 and row["width"] == 64:
            assert row["mean"] == pytest.approx(row["infinite"], abs=0.35)

    words = {"rows": given["output"], "output": tmp_path / "laws.parquet"}
    assert fit_finite_width.main(to_words(words)) == 0
    laws = tables.read(tmp_path / "laws.parquet", "finite_width_laws").to_pylist()
    variance = [law for law in laws if law["quantity"] == "variance"]
    assert len(variance) == 4
    for law in variance:
        assert 0.4 < law["exponent"] < 1.6
        assert law["exponent_low"] < law["exponent"] < law["exponent_high"]


def test_infinite_width_is_that_of_the_samples(given):
    measure_finite_width.main(to_words(given | {"samples": 50, "widths": 1, "depths": 1}))
    row = tables.read(given["output"], "finite_width").to_pylist()[0]
    rng = np.random.default_rng(0).standard_normal((50, 20))
    x = rng / np.linalg.norm(rng, axis=1)[:, None]
    kernel = infinite.InfiniteNetwork(x, depth=1, activation=row["activation"]).ntk
    assert row["infinite"] == pytest.approx(np.log(np.linalg.cond(kernel)), rel=1e-9)
    assert row["resolved"] == 0  # a single unit
    assert row["mean"] is None


@pytest.mark.parametrize("shape", ["uniform", "equicorrelated", "two_clusters", "power_law"])
def test_places_are_measured_beside_the_laws(tmp_path: Path, shape: str):
    limit_threads(1)
    given = {shape: 0 if shape == "uniform" else 0.5, "activation": "relu"}
    given |= {"samples": (8, 96), "samples_per_dimension": (0.5, 4), "depths": (4, 1)}
    given |= {"seeds": (1, 32), "output": tmp_path / "phase.parquet"}
    assert measure_phase.main(to_words(given)) == 0
    rows = tables.read(tmp_path / "phase.parquet", "phase").to_pylist()
    # of 8 samples four a dimension are left out
    assert [(row["n"], row["d"]) for row in rows[::4]] == [(8, 16), (96, 24), (96, 192)]
    for row in rows:
        assert row["kappa"] == pytest.approx(row["lambda_max"] / row["lambda_min"])
        assert row["bulk_max"] <= row["lambda_max"] * (1 + 1e-12)
        assert row["bulk_min"] >= row["lambda_min"] * (1 - 1e-12)  # of a part of the directions
        assert row["pair_bound"] >= row["lambda_min"]
        assert (row["gram_kappa"] is None) == (row["n"] > row["d"])
        if row["n"] == 96:
            assert row["lambda_max"] == pytest.approx(row["law_lambda_max"], rel=0.1)
            assert row["lambda_min"] == pytest.approx(row["law_lambda_min"], rel=0.2)
            if shape == "uniform":
                assert row["effective_dimension"] == pytest.approx(row["d"], rel=0.1)


def test_data_are_placed_by_their_mean_and_covariance(tmp_path: Path):
    limit_threads(1)
    x = 3 * equicorrelated(np.random.default_rng(0), n=400, d=31, c=0.5).samples
    save_prepared(tmp_path / "mine.npz", PreparedSamples("mine", x, None))
    given = {"data": tmp_path / "mine.npz", "dataset": "mine", "activation": ("relu", "tanh")}
    given |= {"samples": 100, "depths": (1, 4), "seeds": (1, 2), "output": tmp_path / "p.parquet"}
    assert measure_phase_of_data.main(to_words(given)) == 0
    rows = tables.read(tmp_path / "p.parquet", "phase").to_pylist()
    assert len(rows) == 8
    for row in rows:
        assert (row["shape"], row["dataset"], row["n"], row["d"]) == ("data", "mine", 100, 31)
        assert row["parameter"] == pytest.approx(row["mean_cosine"], abs=0.02)
        assert row["effective_dimension"] == pytest.approx(30, rel=0.15)
        assert row["lambda_max"] == pytest.approx(row["law_lambda_max"], rel=0.05)
        assert row["lambda_min"] == pytest.approx(row["law_lambda_min"], rel=0.2)


def test_laws_are_evaluated_on_a_grid(tmp_path: Path):
    given = {"activation": ("relu", "sigmoid"), "samples": 64, "samples_per_dimension": (0.5, 64)}
    given |= {"closest": 0.01, "points": (4, 3), "depths": (1, 4), "output": tmp_path / "laws"}
    assert evaluate_laws.main(to_words(given)) == 0
    rows = tables.read(tmp_path / "laws", "phase_laws").to_pylist()
    assert {row["d"] for row in rows} == {5, 25, 128}  # not a single dimension
    assert sorted({round(row["c"], 12) for row in rows}) == [0.0, 0.9, 0.99]
    gram = [row for row in rows if row["depth"] == 0]
    assert all((row["kappa"] is None) == (row["d"] < 64) for row in gram)
    best = {row["activation"]: row["kappa"] for row in rows if (row["d"], row["depth"]) == (25, 4)}
    assert best["relu"] < best["sigmoid"]


OWN = f"--own-network mine {ROOT}/docs/examples/own_network.py build"


@pytest.fixture
def architectures(tmp_path):
    """Return a function that measures networks, given as words, and returns the rows."""
    write_prepared(tmp_path / "tiny.npz", n=9, d=32)

    def call(*networks: str, more=""):
        words = f"--data {tmp_path}/tiny.npz --dataset tiny --activation relu --samples 6"
        words += f" --seeds 1 2 --image 4 4 2 --output {tmp_path}/rows.parquet {more}"
        words += "".join(f" --network {network}" for network in networks)
        assert measure_architectures.main(words.split()) == 0
        return tables.read(tmp_path / "rows.parquet", "architectures").to_pandas()

    return call


def test_rows_are_those_of_the_networks_by_their_jacobians(architectures, tmp_path):
    """On samples of equal norm, and for images of a mean square of 1 for a pixel."""
    rows = architectures("mlp 8 0 2", "resnet_batch_norm 4 6", "mine 8 2", more=OWN)
    assert (rows["n"] == 6).all()
    assert rows.groupby("model").size().to_dict() == {"mine": 2, "mlp": 4, "resnet_batch_norm": 2}
    x = load_prepared(tmp_path / "tiny.npz").x
    wanted = rows.query("model == 'resnet_batch_norm' and seed == 2").iloc[0]
    size = {"depth": 6, "width": 4, "activation": activations.get("relu"), "image": (4, 4, 2)}
    drawn = draw_on_sphere("tiny", x, 6, seed=1)
    assert np.linalg.norm(drawn, axis=1) == pytest.approx(1)
    network, seen = initial_network("resnet_batch_norm", 4 * drawn, seed=2, **size)
    assert seen.square().sum(1).mean((1, 2)).numpy() == pytest.approx(1)
    weights = dict(network.named_parameters())
    assert wanted["parameters"] == sum(weight.numel() for weight in weights.values())
    jacobian = vmap(
        jacrev(lambda w, one: functional_call(network, w, one[None])[0][0, 0]), (None, 0)
    )({name: weight.detach() for name, weight in weights.items()}, seen)
    flat = torch.cat([part.flatten(1) for part in jacobian.values()], 1)
    k = (flat @ flat.T).numpy()
    assert wanted["lambda_max"] == pytest.approx(np.linalg.eigvalsh(k)[-1], rel=1e-10)
    norms = np.sqrt(np.diag(k))
    angles = np.degrees(np.arccos((k / np.outer(norms, norms))[np.triu_indices(6, 1)]))
    assert wanted["min_angle"] == pytest.approx(angles.min(), rel=1e-8)


def test_a_kind_of_several_widths_has_rows_of_each_and_one_of_infinite_width(architectures):
    rows = architectures("conv 4 1", "conv 8 1", more="--infinite-width conv")
    apart = pd.concat([architectures("conv 4 1"), architectures("conv 8 1")], ignore_index=True)
    finite = rows["kernel"] == "empirical_ntk"
    pd.testing.assert_frame_equal(rows[finite].reset_index(drop=True), apart, check_dtype=False)
    (wide,) = rows[~finite].to_dict("records")
    assert pd.isna(wide["width"])
    assert apart["lambda_max"].mean() == pytest.approx(wide["lambda_max"], rel=0.9)
