"""The map of conditioning: the program writes what is measured beside what the laws expect."""

from pathlib import Path

import measure_phase
import pytest

from ntk_conditioning import tables
from ntk_conditioning.tables.phase import PHASE
from ntk_workflow.cli import limit_threads
from tests.trainings import to_words


@pytest.mark.parametrize("shape", ["uniform", "equicorrelated", "two_clusters", "power_law"])
def test_places_are_measured_beside_the_laws(tmp_path: Path, shape: str):
    limit_threads(1)
    given = {"shape": shape, "parameters": 0 if shape == "uniform" else 0.5, "activation": "relu"}
    given |= {"samples": (8, 96), "samples_per_dimension": (0.5, 4), "depths": (4, 1)}
    given |= {"seeds": (1, 32), "output": tmp_path / "phase.parquet"}
    assert measure_phase.main(to_words(given)) == 0
    rows = tables.read(tmp_path / "phase.parquet", PHASE).to_pylist()
    # of 8 samples four a dimension are left out
    assert [(row["n"], row["d"]) for row in rows[::4]] == [(8, 16), (96, 24), (96, 192)]
    for row in rows:
        assert row["kappa"] == pytest.approx(row["lambda_max"] / row["lambda_min"])
        assert row["bulk_max"] <= row["lambda_max"] * (1 + 1e-12)
        assert row["bulk_min"] >= row["lambda_min"] * (1 - 1e-12)  # of a part of the directions
        assert (row["gram_kappa"] is None) == (row["n"] > row["d"])
        if shape == "power_law":
            assert row["law_lambda_max"] is None
        elif row["n"] == 96:
            assert row["lambda_max"] == pytest.approx(row["law_lambda_max"], rel=0.1)
            assert row["lambda_min"] == pytest.approx(row["law_lambda_min"], rel=0.2)
