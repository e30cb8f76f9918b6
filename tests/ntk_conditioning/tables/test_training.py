"""Curves become rows, and the best rate is found by its criterion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ntk_conditioning import tables
from ntk_conditioning.tables.training import (
    MEASURED,
    TRAINING,
    TRAINING_KERNELS,
    SelectionError,
    curve_rows,
    epochs_to,
    select_rates,
)

Curves = Mapping[tuple[int, float], Sequence[float]]
POINT = {
    "experiment": "fig3",
    "dataset": "digits",
    "model": "mlp",
    "activation": "relu",
    "depth": 2,
}
_USUAL = {"string": "none", "bool": False, "int64": 1, "double": 0.0}
LABELS = {column.name: _USUAL[str(column.type)] for column in TRAINING.columns} | POINT
FINAL, TO_LOSS = {"fig3": ("final_loss", 0.1)}, {"fig3": ("epochs_to_loss", 0.1)}
NAN = math.nan


def training(curves: Curves, **point: Any) -> pa.Table:
    """Return the table of training losses; a network diverges where its loss is missing."""
    rows = []
    for (seed, rate), losses in curves.items():
        lost = np.flatnonzero(np.isnan(losses))
        rows += curve_rows(
            LABELS | point,
            seed=seed,
            rate=rate,
            steps_per_epoch=2,
            metrics=dict.fromkeys(MEASURED, losses),
            diverged=int(lost[0]) if len(lost) else -1,
            epochs=range(len(losses)),
        )
    return tables.from_rows(TRAINING, rows)


def kernels(*kappas: float | None, **point: Any) -> pa.Table:
    """Return the kernels of seeds 1, 2, …; their critical rates are 1, 2, …."""
    rows = [
        {
            **POINT,
            **point,
            "seed": seed,
            "width": 8,
            "n": 10,
            "n_train": 10,
            "lambda_max": 20.0 / seed,
            "lambda_min": None if kappa is None else 20.0 / seed / kappa,
            "kappa": kappa,
            "critical_learning_rate": float(seed),
        }
        for seed, kappa in enumerate(kappas, start=1)
    ]
    return tables.from_rows(TRAINING_KERNELS, rows)


def best(curves: Curves, rules: Any = FINAL, kappas: Any = (10.0,)) -> dict[str, Any]:
    (row,) = select_rates(training(curves), kernels(*kappas), rules).to_pylist()
    return row


# --- curves ---------------------------------------------------------------------------------------


def test_a_curve_has_a_row_for_every_evaluated_epoch():
    """What is not finite is missing, and divergence stays."""
    found = curve_rows(
        LABELS,
        seed=4,
        rate=0.1,
        steps_per_epoch=7,
        metrics=dict.fromkeys(MEASURED, (1.0, 3.0, math.inf, NAN, NAN)),
        diverged=3,
        epochs=[0, 2, 4],
    )
    rows = [*found]
    assert [(row["epoch"], row["steps"]) for row in rows] == [(0, 0), (2, 14), (4, 28)]
    assert [row["diverged"] for row in rows] == [False, False, True]
    for name in MEASURED:
        assert [row[name] for row in rows] == [1.0, None, None]
    for row in rows:
        assert (row["seed"], row["learning_rate"], row["activation"]) == (4, 0.1, "relu")


# --- epochs to a loss -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([0.05, 0.01], 0),  # before any training
        ([0.1, 0.01], 0),
        ([1.0, 0.1], 2),
        # log10 falls from 0 to -2 in two epochs: -1 is half way
        ([1.0, 0.01], 1),
        ([1.0, 10.0, 0.01], 2 + 2 * 2 / 3),
        ([1.0, 0.5, 0.0], 4),  # exactly zero has no logarithm
        ([1.0, 0.5, 0.2], math.inf),
        ([1.0, None, None], math.inf),
        ([1.0, 0.01, 5.0], 1),  # the first time counts
        ([None], math.inf),
    ],
)
def test_epochs_to_a_loss_are_interpolated_in_its_logarithm(losses, expected):
    found = epochs_to(0.1, range(0, 2 * len(losses), 2), losses)
    assert found == pytest.approx(expected, abs=1e-14)


# --- the best rate --------------------------------------------------------------------------------


def test_the_best_rate_by_final_loss():
    row = best({(1, 0.1): [9, 8, 5], (1, 0.2): [9, 1, 3], (1, 0.4): [9, 7, 4]})
    assert row == POINT | {
        "learning_rate": 0.2,
        "criterion": "final_loss",
        "score": 3.0,
        "loss_level": 0.1,
        "edge": "none",
        "rates": 3,
        "lowest_rate": 0.1,
        "highest_rate": 0.4,
        "diverged_rates": 0,
        "seeds": 1,
        "final_loss_mean": 3.0,
        "final_loss_min": 3.0,
        "final_loss_max": 3.0,
        "critical_learning_rate": 1.0,
        "kappa": pytest.approx(10.0),
    }


def test_the_best_rate_by_epochs_to_a_loss_may_end_higher():
    row = best({(1, 0.1): [1, 0.5, 0.01], (1, 0.2): [1, 0.01, 0.09], (1, 0.4): [1, 2, 3]}, TO_LOSS)
    assert (row["learning_rate"], row["score"]) == (0.2, pytest.approx(0.5))
    assert (row["criterion"], row["loss_level"]) == ("epochs_to_loss", 0.1)
    assert row["final_loss_mean"] == 0.09
    assert row["diverged_rates"] == 0


@pytest.mark.parametrize(
    ("finals", "rate", "edge"),
    [
        ({0.1: 1.0, 0.2: 2.0, 0.4: 3.0}, 0.1, "lowest"),
        ({0.1: 3.0, 0.2: 2.0, 0.4: 1.0}, 0.4, "highest"),
        ({0.1: 3.0, 0.2: 1.0, 0.4: 2.0}, 0.2, "none"),
        ({0.1: 2.0, 0.2: 1.0}, 0.2, "highest"),
        ({0.2: 1.0}, 0.2, "only"),
        # The grid is what was tried: 0.2 is not its end though 0.4 is of no use.
        ({0.1: 2.0, 0.2: 1.0, 0.4: NAN}, 0.2, "none"),
        ({0.1: 1.0, 0.2: 1.0}, 0.1, "lowest"),  # of equal ones the lower
    ],
)
@pytest.mark.parametrize("rules", [FINAL, {"fig3": ("epochs_to_loss", 3.5)}])
def test_the_end_of_a_grid_is_told(finals, rate, edge, rules):
    row = best({(1, each): [40.0, final] for each, final in finals.items()}, rules)
    assert (row["learning_rate"], row["edge"]) == (rate, edge)
    assert (row["lowest_rate"], row["highest_rate"]) == (min(finals), max(finals))


def test_a_rate_at_which_one_seed_diverges_is_never_the_best():
    curves = {
        (1, 0.1): [9.0, 8.0],
        (2, 0.1): [9.0, 7.0],
        (1, 0.2): [9.0, 0.001],
        (2, 0.2): [9.0, NAN],
        (1, 0.4): [NAN, NAN],
        (2, 0.4): [NAN, NAN],
    }
    row = best(curves, kappas=(1.0, 1.0))
    assert (row["learning_rate"], row["diverged_rates"], row["rates"]) == (0.1, 2, 3)


@pytest.mark.parametrize("rules", [FINAL, TO_LOSS])
def test_if_every_rate_diverges_there_is_no_best(rules):
    row = best({(1, 0.1): [9.0, NAN], (1, 0.2): [9.0, NAN]}, rules)
    assert (row["learning_rate"], row["score"], row["final_loss_mean"]) == (None, None, None)
    assert (row["edge"], row["diverged_rates"]) == ("none", 2)


def test_the_mean_over_seeds_decides():
    curves = {(1, 0.1): [9, 1], (2, 0.1): [9, 9], (1, 0.2): [9, 4], (2, 0.2): [9, 5]}
    row = best(curves, kappas=(4.0, 25.0))
    assert (row["learning_rate"], row["score"], row["seeds"]) == (0.2, 4.5, 2)
    spread = [row[f"final_loss_{name}"] for name in ("mean", "min", "max")]
    assert spread == [4.5, 4, 5]
    assert row["kappa"] == pytest.approx(10)  # the geometric mean
    assert row["critical_learning_rate"] == 1.5


def test_every_network_has_a_row_by_its_own_experiments_rule():
    curves = {(1, 0.1): [1, 0.05, 0.04], (1, 0.2): [1, 0.09, 0.01]}
    points = [{"experiment": e, "depth": k} for e in ("fig4", "fig3") for k in (10, 2)]
    found = select_rates(
        pa.concat_tables([training(curves, **point) for point in points]),
        pa.concat_tables([kernels(float(point["depth"]), **point) for point in points]),
        {"fig3": ("final_loss", 0.1), "fig4": ("epochs_to_loss", 0.1)},
    ).to_pylist()
    assert [(row["experiment"], row["depth"]) for row in found] == [
        ("fig3", 2),
        ("fig3", 10),
        ("fig4", 2),
        ("fig4", 10),
    ]
    assert [row["learning_rate"] for row in found] == [0.2, 0.2, 0.1, 0.1]
    assert [row["kappa"] for row in found] == [pytest.approx(k) for k in (2, 10, 2, 10)]


def test_the_order_of_rows_does_not_matter():
    curves = {(seed, rate): [9.0, seed * rate] for seed in (1, 2) for rate in (0.1, 0.2, 0.4)}
    table = training(curves)
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    rules = {"fig3": ("final_loss", 0.1)}
    assert select_rates(shuffled, kernels(1.0, 2.0), rules) == select_rates(
        table, kernels(1.0, 2.0), rules
    )


# --- networks of torch's modules ------------------------------------------------------------------


def judged(accuracies: Mapping[tuple[int, float], float | None], **point: Any) -> pa.Table:
    """Return curves with these test accuracies at the end; without a loss where one diverged."""
    rows = []
    for (seed, rate), accuracy in accuracies.items():
        lost = accuracy is not None and np.isnan(accuracy)
        metrics = {"train_loss": [2.0, NAN if lost else 1.0]}
        if accuracy is not None:
            metrics["test_accuracy"] = [0.1, accuracy]
        rows += curve_rows(
            LABELS | {"model": "fc"} | point,
            seed=seed,
            rate=rate,
            steps_per_epoch=2,
            metrics=metrics,
            diverged=1 if lost else -1,
            epochs=range(2),
        )
    return tables.from_rows(TRAINING, rows)


def test_the_highest_test_accuracy_may_decide_and_no_kernel_is_needed():
    found = judged({(1, 0.1): 0.5, (1, 0.2): 0.8, (5, 0.1): 0.9, (5, 0.2): 0.7, (1, 0.4): NAN})
    no_kernels = tables.from_rows(TRAINING_KERNELS, [])
    (row,) = select_rates(found, no_kernels, {"fig3": ("test_accuracy", 0.1)}).to_pylist()
    assert (row["learning_rate"], row["criterion"]) == (0.2, "test_accuracy")
    assert row["score"] == pytest.approx(0.75, rel=1e-15)
    assert (row["critical_learning_rate"], row["kappa"]) == (None, None)
    assert (row["rates"], row["diverged_rates"], row["edge"]) == (3, 1, "none")
    by_loss = select_rates(found, no_kernels, FINAL).to_pylist()[0]
    assert (by_loss["learning_rate"], by_loss["score"]) == (0.1, 1.0)


def test_without_test_samples_no_test_accuracy_decides():
    with pytest.raises(SelectionError, match=r"fig3/digits/fc/relu/2: no test samples"):
        select_rates(
            judged({(1, 0.1): None}),
            tables.from_rows(TRAINING_KERNELS, []),
            {"fig3": ("test_accuracy", 0.1)},
        )


def test_an_mlp_without_its_kernel_is_still_an_error():
    with pytest.raises(SelectionError, match="training kernels lacks it"):
        select_rates(
            judged({(1, 0.1): 0.5}, model="mlp"), tables.from_rows(TRAINING_KERNELS, []), FINAL
        )
