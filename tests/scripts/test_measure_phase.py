from pathlib import Path

import evaluate_laws
import measure_phase
import measure_phase_of_data
import numpy as np
import pytest

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_conditioning.theory.sphere import draw
from tests.support.trainings import to_words

OUTPUT = Path("rows.parquet")


@pytest.mark.parametrize("shape", ["uniform", "equicorrelated", "two_clusters", "power_law"])
def test_places_are_measured_beside_the_laws(shape):
    given = {shape: 0 if shape == "uniform" else 0.5, "activation": "relu"}
    given |= {"samples": (8, 96), "samples_per_dimension": (0.5, 4), "depths": (4, 1)}
    given |= {"seeds": (1, 32), "output": OUTPUT}
    assert measure_phase.main(to_words(given)) == 0
    rows = tables.read(OUTPUT, "phase").to_pylist()
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


def test_data_are_placed_by_their_mean_and_covariance():
    x = 3 * draw("equicorrelated", 0.5, np.random.default_rng(0), n=400, d=31).samples
    save_prepared(Path("mine.npz"), PreparedSamples("mine", x, None))
    given = {"data": "mine.npz", "dataset": "mine", "activation": ("relu", "tanh")}
    given |= {"samples": 100, "depths": (1, 4), "seeds": (1, 2), "output": OUTPUT}
    assert measure_phase_of_data.main(to_words(given)) == 0
    rows = tables.read(OUTPUT, "phase").to_pylist()
    assert len(rows) == 8
    for row in rows:
        assert (row["shape"], row["dataset"], row["n"], row["d"]) == ("data", "mine", 100, 31)
        assert row["parameter"] == pytest.approx(row["mean_cosine"], abs=0.02)
        assert row["effective_dimension"] == pytest.approx(30, rel=0.15)
        assert row["lambda_max"] == pytest.approx(row["law_lambda_max"], rel=0.05)
        assert row["lambda_min"] == pytest.approx(row["law_lambda_min"], rel=0.2)


def test_laws_are_evaluated_on_a_grid():
    given = {"activation": ("relu", "sigmoid"), "samples": 64, "samples_per_dimension": (0.5, 64)}
    given |= {"closest": 0.01, "points": (4, 3), "depths": (1, 4), "output": OUTPUT}
    assert evaluate_laws.main(to_words(given)) == 0
    rows = tables.read(OUTPUT, "phase_laws").to_pylist()
    assert {row["d"] for row in rows} == {5, 25, 128}  # not a single dimension
    assert sorted({round(row["c"], 12) for row in rows}) == [0.0, 0.9, 0.99]
    gram = [row for row in rows if row["depth"] == 0]
    assert all((row["kappa"] is None) == (row["d"] < 64) for row in gram)
    best = {row["activation"]: row["kappa"] for row in rows if (row["d"], row["depth"]) == (25, 4)}
    assert best["relu"] < best["sigmoid"]
