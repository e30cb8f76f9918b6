"""The best rate of every network is written, and where its grid was too short."""

from pathlib import Path

import pytest
import select_learning_rates

from ntk_conditioning import tables
from tests.support.rows import write
from tests.support.trainings import to_words

POINT = {"experiment": "fig3", "dataset": "tiny", "model": "mlp", "activation": "relu"}
#: Final losses at both rates, by depth.
LOSSES = {0: {0.05: 0.5, 0.2: 0.75}, 2: {0.05: 0.5, 0.2: 0.25}}


@pytest.fixture
def arguments(tmp_path: Path) -> dict[str, object]:
    """Return the options of a call, with the curves and kernels of two networks."""
    curves = [
        POINT | {"depth": depth, "relative_rate": rate, "epoch": epoch, "train_loss": value}
        for depth, losses in LOSSES.items()
        for rate, loss in losses.items()
        for epoch, value in enumerate((1.0, loss))
    ]
    write(tmp_path / "training.parquet", "training", *curves)
    kernels = [POINT | {"depth": depth, "critical_learning_rate": 1.0} for depth in LOSSES]
    write(tmp_path / "kernels.parquet", "training_kernels", *kernels)
    files = {name: tmp_path / f"{name}.parquet" for name in ("training", "kernels", "output")}
    return files | {"criterion": "final_loss", "loss-level": 0.1}


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        ("final_loss", [(0.05, "lowest"), (0.2, "highest")]),
        ("epochs_to_loss", [(None, "none"), (None, "none")]),
    ],
)
def test_best_rates_and_edges_of_grids_are_written(arguments, criterion, expected):
    assert select_learning_rates.main(to_words(arguments | {"criterion": criterion})) == 0
    best = tables.read(arguments["output"], "learning_rates").to_pylist()
    assert [(row["relative_rate"], row["edge"]) for row in best] == expected
