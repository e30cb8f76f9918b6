"""The best rate of every network is written, and what stands in the way is said."""

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


WIDEN = "of its grid; widen it, or try learning_rates: auto"
EDGES = [f"the best rate {edge} {WIDEN}" for edge in ("0.05 is the lowest", "0.2 is the highest")]
NONE = "no rate is good; try lower ones or more epochs"


@pytest.mark.parametrize(
    ("criterion", "rates", "advice"),
    [("final_loss", [0.05, 0.2], EDGES), ("epochs_to_loss", [None, None], [NONE, NONE])],
)
def test_best_rates_are_written_and_edges_are_logged(arguments, capsys, criterion, rates, advice):
    assert select_learning_rates.main(to_words(arguments | {"criterion": criterion})) == 0
    logged = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    best = tables.read(arguments["output"], "learning_rates").to_pylist()
    assert [row["relative_rate"] for row in best] == rates
    places = [f"fig3/tiny/mlp/relu/depth-{depth}" for depth in LOSSES]
    assert logged == [f"{place}: {line}" for place, line in zip(places, advice, strict=True)]
