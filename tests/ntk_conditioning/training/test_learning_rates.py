"""Curves become rows, and the best rate is found by its criterion."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning import tables
from ntk_conditioning.training.curves import curve_rows
from ntk_conditioning.training.descent import rounded_down
from ntk_conditioning.training.learning_rates import at_best_rates, select_rates
from ntk_conditioning.training.prediction import epochs_to, parted
from tests.support.rows import plain

POINT = {"experiment": "fig3", "dataset": "digits", "model": "mlp", "activation": "relu"}
POINT |= {"depth": 2}
LABELS = plain("training", **POINT)
FINAL, BY_ACCURACY = {"fig3": ("final_loss", 0.1)}, {"fig3": ("test_accuracy", 0.1)}
NO_KERNELS = tables.from_rows("training_kernels", [])
NAN = math.nan


def training(curves, accuracy=None, factors=None, **point):
    """Return the table of losses, NaN where diverged; learning rates are times a seed's factor."""
    rows = []
    for (seed, rate), losses in curves.items():
        metrics = {"train_loss": losses}
        metrics |= {"test_accuracy": accuracy[seed, rate]} if accuracy else {}
        diverged = next((epoch for epoch, loss in enumerate(losses) if math.isnan(loss)), -1)
        learning_rate = rate * (factors or {}).get(seed, 1)
        names = {"seed": seed, "relative_rate": rate, "learning_rate": learning_rate}
        network = {"steps_per_epoch": 2, "diverged": diverged, "epochs": range(len(losses))}
        rows += curve_rows(LABELS | point | names, **network, metrics=metrics)
    return tables.from_rows("training", rows)


def kernels(*kappas, **point):
    rows = [
        plain("training_kernels", **POINT | point, seed=s, kappa=k, critical_learning_rate=float(s))
        for s, k in enumerate(kappas, start=1)
    ]
    return tables.from_rows("training_kernels", rows)


def test_a_prediction_parts_by_a_share_of_the_real_loss_or_where_there_is_none():
    for predicted, expected in ((1.099, None), (1.105, 2), (0.895, 2), (None, 2)):
        assert parted([0, 2], [1.0, 1.0], [1.0, predicted]) == expected


def test_what_is_not_finite_is_missing_in_a_curve():
    assert training({(1, 0.1): [math.inf, 1.0]})["train_loss"].to_pylist() == [None, 1.0]


def test_epochs_to_a_loss_are_interpolated_in_its_logarithm():
    for losses, expected in (
        ([0.05, 0.01], 0),  # before any training
        ([1.0, 0.1], 2),
        ([1.0, 10.0, 0.01], 2 + 2 * 2 / 3),
        ([1.0, 0.5, 0.0], 4),  # exactly zero has no logarithm
        ([1.0, 0.5, 0.2], math.inf),
        ([1.0, None, None], math.inf),
        ([1.0, 0.01, 5.0], 1),  # the first time counts; log10 falls by 2 in two epochs
    ):
        epochs = epochs_to(0.1, range(0, 2 * len(losses), 2), losses)
        assert epochs == pytest.approx(expected, abs=1e-14), losses


def test_the_common_rate_is_the_best_of_all_depths_together():
    shallow = {(1, 0.1): [9, 4], (1, 0.2): [9, 2], (1, 0.4): [9, 1], (1, 0.8): [9, 0]}
    fails = {(1, 0.8): [9, NAN]}
    deep = {(1, 0.1): [9, 1], (1, 0.2): [9, 2], (1, 0.4): [9, 4]} | fails
    known = pa.concat_tables([kernels(1.0, depth=depth) for depth in (1, 2)])
    for second, best, common in ((deep, 0.1, (0.2, 2)), (fails, None, (None, None))):
        table = pa.concat_tables([training(shallow, depth=1), training(second, depth=2)])
        rows = select_rates(table, known, FINAL).to_pylist()
        assert [row["learning_rate"] for row in rows] == [0.8, best]
        assert [(row["common_rate"], row["common_loss_mean"]) for row in rows] == [common] * 2


@pytest.mark.parametrize(
    ("finals", "rate", "edge", "diverged"),
    [
        ({0.1: [1.0], 0.2: [2.0], 0.4: [3.0]}, 0.1, "lowest", 0),
        ({0.1: [3.0], 0.2: [2.0], 0.4: [1.0]}, 0.4, "highest", 0),
        ({0.1: [3.0], 0.2: [1.0], 0.4: [2.0]}, 0.2, "none", 0),
        ({0.2: [1.0]}, 0.2, "only", 0),
        # The grid is what was tried: 0.2 is not its end though 0.4 is of no use.
        ({0.1: [2.0], 0.2: [1.0], 0.4: [NAN]}, 0.2, "none", 1),
        ({0.1: [1.0], 0.2: [1.0]}, 0.1, "lowest", 0),  # of equal ones the lower
        ({0.1: [NAN], 0.2: [NAN]}, None, "none", 2),
        # A rate at which one seed diverges is never the best.
        ({0.1: [3.0, 2.0], 0.2: [0.001, NAN], 0.4: [NAN, NAN]}, 0.1, "lowest", 2),
    ],
)
def test_the_best_of_a_grid_and_whether_it_is_at_the_end(finals, rate, edge, diverged):
    """By each criterion, and without a kernel."""
    curves = {(k, each): [40.0, x] for each in finals for k, x in enumerate(finals[each], start=1)}
    table = training(curves, {key: [0.0, 1 / x] for key, (_, x) in curves.items()}, model="fc")
    for criterion in ("final_loss", "epochs_to_loss", "test_accuracy"):
        (row,) = select_rates(table, NO_KERNELS, {"fig3": (criterion, 3.5)}).to_pylist()
        assert (row["learning_rate"], row["edge"], row["diverged_rates"]) == (rate, edge, diverged)
        assert (row["lowest_rate"], row["highest_rate"]) == (min(finals), max(finals))
        assert (row["score"] is None) == (row["final_loss_mean"] is None) == (rate is None)
        assert (row["criterion"], row["rates"]) == (criterion, len(finals))
        assert (row["critical_learning_rate"], row["kappa"]) == (None, None)
    if rate:
        assert row["score"] == pytest.approx(np.mean(1 / np.array(finals[rate])), rel=1e-15)


@pytest.mark.parametrize(("kappas", "mean"), [((4.0, 25.0), 10), ((4.0, None), None)])
def test_the_mean_over_seeds_decides_at_the_same_multiples_of_their_own_rates(kappas, mean):
    curves = {(1, 0.1): [9, 1, 1], (2, 0.1): [9, 1, 9], (1, 0.2): [9, 5, 4], (2, 0.2): [9, 5, 5]}
    table = training(curves, factors={1: 2, 2: 4})
    (row,) = select_rates(table, kernels(*kappas), FINAL).to_pylist()
    expected = POINT | {name: LABELS[name] for name in ("rate_unit", "width", "n")}
    expected |= {"criterion": "final_loss", "loss_level": 0.1, "epochs": 2, "seeds": 2, "rates": 2}
    expected |= {"lowest_rate": 0.1, "highest_rate": 0.2, "edge": "highest", "diverged_rates": 0}
    expected |= {"relative_rate": 0.2, "learning_rate": pytest.approx(0.6, rel=1e-15)}  # the mean
    expected |= {"score": 4.5, "final_loss_mean": 4.5, "final_loss_min": 4, "final_loss_max": 5}
    expected |= {"common_rate": 0.2, "common_loss_mean": 4.5, "epochs_to_loss": None}
    expected |= {"critical_learning_rate": 1.5, "kappa": mean and pytest.approx(mean)}
    assert row == expected
    curve = at_best_rates(table.to_pandas(), pd.DataFrame([row]))
    assert [*curve["train_loss"]] == [9, 5, 4, 9, 5, 5]


def test_every_network_has_a_row_by_its_experiments_rule_in_any_order_of_rows():
    curves = {(1, 0.1): [1, 0.05, 0.04], (1, 0.2): [1, 0.09, 0.01]}
    points = [{"experiment": e, "depth": k} for e in ("fig4", "fig3") for k in (10, 2)]
    table = pa.concat_tables([training(curves, **point) for point in points])
    known = pa.concat_tables([kernels(float(point["depth"]), **point) for point in points])
    rules = {"fig3": ("final_loss", 0.1), "fig4": ("epochs_to_loss", 0.1)}
    rates = select_rates(table, known, rules)
    rows = [(r["experiment"], r["depth"], r["learning_rate"]) for r in rates.to_pylist()]
    assert rows == [("fig3", 2, 0.2), ("fig3", 10, 0.2), ("fig4", 2, 0.1), ("fig4", 10, 0.1)]
    assert rates["criterion"].to_pylist() == ["final_loss"] * 2 + ["epochs_to_loss"] * 2
    assert rates["final_loss_mean"].to_pylist() == [0.01] * 2 + [0.04] * 2
    for name in ("score", "epochs_to_loss"):
        np.testing.assert_allclose(rates[name][2:], 1 / math.log10(20))
    np.testing.assert_allclose(rates["kappa"], [2, 10, 2, 10])
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    assert select_rates(shuffled, known, rules) == rates


@given(st.floats(1e-12, 1e12))
def test_rates_are_rounded_down_to_three_digits(exact):
    rate = rounded_down(exact)
    # 1e-12 is what an exact decimal may lose as a product
    assert exact * (1 - 1e-2) < rate <= exact * (1 + 2e-12)
    assert rate == float(f"{rate:.3g}")
    # a decimal rate stays as it is, though a product may lie just below it
    for product in (rate, 3.0 * (rate / 3), np.nextafter(rate, 0)):
        assert rounded_down(product) == rate
