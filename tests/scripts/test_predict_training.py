"""Predictions of trainings: the program compares them with the curves that it is given."""

from pathlib import Path
from typing import Any

import numpy as np
import predict_training
import pytest
import train_network

from ntk_conditioning import tables
from ntk_conditioning.training.prediction import parted, times
from tests.support.sources import write_prepared
from tests.support.trainings import training_words


@pytest.mark.parametrize("method", ["eigenvectors", "flow"])
@pytest.mark.parametrize("model", [{}, {"model": "residual_mlp"}], ids=["mlp", "modules"])
def test_wide_networks_are_predicted_and_compared_with_their_curves(
    method: str, model: dict[str, Any]
):
    write_prepared(Path("train.npz"))
    usual = {"data": "train.npz", "experiment": "gd", "dataset": "tiny"}
    usual |= {"activation": "tanh", "width": 512, "seeds": (1, 5), "epochs": 6}
    usual |= {"dtype": "float64", "learning_rates": (0.01, 0.02)} | model
    if method == "eigenvectors":
        usual |= {"loss": "square", "outputs": "scalar", "batch_size": "all"}
    curves = tuple(Path(f"depth-{depth}.parquet") for depth in (1, 2))
    for depth, output in enumerate(curves, 1):
        train_network.main(training_words(usual | {"depth": depth, "output": output}))
    given = usual | {"training": curves, "output": Path("predicted.parquet")}
    assert predict_training.main(training_words(given)) == 0
    rows = tables.read(given["output"], "predictions").to_pylist()
    single = given | {"dtype": "float32", "output": Path("single.parquet")}
    assert predict_training.main(training_words(single)) == 0
    # whatever the training's precision is, a prediction has the digits of float64
    assert single["output"].read_bytes() == given["output"].read_bytes()
    assert len(rows) == 8
    for row in rows:
        assert row["method"] == method
        real, predicted = row["train_loss"], row["predicted_loss"]
        np.testing.assert_allclose(predicted, real, rtol=0.1)  # 1/sqrt(width) is 0.04
        assert row["epochs_to_half"] == times(row["epochs"], real)["epochs_to_half"]
        assert row["parted_epoch"] == parted(row["epochs"], real, predicted)
        assert row["label_energy"][-1] == pytest.approx(1)
        assert 0 <= row["alignment"] <= 1
        assert 1 <= row["effective_kappa"] <= row["kappa"] * (1 + 1e-9)  # two solvers
