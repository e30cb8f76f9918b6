"""How the best learning rates are selected from training curves."""

import math
from collections.abc import Mapping
from statistics import mean
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from ntk_conditioning import tables
from ntk_conditioning.spectra.unresolved import as_infinite, or_missing
from ntk_conditioning.training.curves import POINT_KEYS
from ntk_conditioning.training.prediction import epochs_to

Criterion = Literal["final_loss", "epochs_to_loss", "test_accuracy"]

_READ = ("rate_unit", "learning_rate", "width", "n", "train_loss", "test_accuracy", "diverged")
#: Columns of a rate, from those of its seeds' runs.
_STATISTICS: dict[str, Any] = {
    "score": ("score", "mean"),
    "learning_rate": ("learning_rate", mean),  # exact: equal rates stay the same
    "final_loss_mean": ("train_loss", "mean"),
    "final_loss_min": ("train_loss", "min"),
    "final_loss_max": ("train_loss", "max"),
    "epochs_to_loss": ("epochs_to_loss", "mean"),
    "seeds": ("seed", "size"),
    "epochs": ("epoch", "last"),
    **{name: (name, "last") for name in ("rate_unit", "width", "n")},
}


def select_rates(
    training: pa.Table, kernels: pa.Table, rules: Mapping[str, tuple[Criterion, float]]
) -> pa.Table:
    """Return the table `learning_rates` of training curves.

    ``rules`` gives each experiment's criterion and the training loss by which it measures speed. A
    rate at which a seed diverges, or for ``epochs_to_loss`` does not come to that loss, is never
    the best. What no kernel tells is missing.
    """
    keys = [*tables.get("training").keys]
    curves = training.select([*keys, *_READ]).to_pandas().sort_values(keys)
    by_run = curves.groupby([*POINT_KEYS, "seed", "relative_rate"])
    runs = pd.DataFrame([_outcome(curve, rules) for _, curve in by_run])
    rates = runs.groupby([*POINT_KEYS, "relative_rate"]).agg(**_STATISTICS)
    initial, rows = kernels.to_pandas().set_index([*POINT_KEYS]), []
    for names, depths in rates.reset_index().groupby([*POINT_KEYS[:-1]]):
        # the rate with the lowest mean score of all depths, unless each fails at some
        scores = depths.pivot(index="relative_rate", columns="depth", values="score")
        means = scores.dropna().mean(axis=1)
        common = means.idxmin() if np.isfinite(means).any() else None
        for depth, grid in depths.groupby("depth"):
            point = (*names, depth)
            row = dict(zip((*POINT_KEYS, "criterion"), (*point, rules[point[0]][0]), strict=True))
            row |= _best(grid) | {"loss_level": rules[point[0]][1], "common_rate": common}
            at_common = grid.final_loss_mean[grid.relative_rate == common]
            row["common_loss_mean"] = None if common is None else at_common.item()
            row |= {"critical_learning_rate": None, "kappa": None}
            if point in initial.index:
                known = initial.loc[[point]]
                row["critical_learning_rate"] = known.critical_learning_rate.mean()
                row["kappa"] = or_missing(np.exp(np.log(as_infinite(known.kappa)).mean()))
            rows.append(row)
    return tables.from_rows("learning_rates", rows)


def _outcome(curve: pd.DataFrame, rules: Mapping[str, tuple[Criterion, float]]) -> dict[str, Any]:
    """Return the last row of a curve with its ``score``, the lower the better, and its speed."""
    last: dict[str, Any] = curve.iloc[-1].to_dict()
    criterion, level = rules[last["experiment"]]
    if last["diverged"]:
        return last | dict.fromkeys(("train_loss", "epochs_to_loss", "score"), math.inf)
    epochs = epochs_to(level, curve["epoch"], curve["train_loss"])
    scores = {"final_loss": last["train_loss"], "epochs_to_loss": epochs}
    score = scores[criterion] if criterion in scores else -last["test_accuracy"]
    return last | {"epochs_to_loss": epochs, "score": score}


def _best(grid: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of the rate with the lowest score, and of the grid, in ascending order."""
    lowest, highest = grid.relative_rate.iloc[0], grid.relative_rate.iloc[-1]
    row: dict[str, Any] = grid.loc[grid.score.idxmin()].to_dict()
    row |= {"score": abs(row["score"]), "epochs_to_loss": or_missing(row["epochs_to_loss"])}
    edge = {lowest: "lowest", highest: "highest"}.get(row["relative_rate"], "none")
    if not math.isfinite(row["score"]):
        edge = "none"
        row |= dict.fromkeys(("relative_rate", "learning_rate", "score"))
        row |= dict.fromkeys(("final_loss_mean", "final_loss_min", "final_loss_max"))
    elif len(grid) == 1:
        edge = "only"
    return row | {
        "edge": edge,
        "rates": len(grid),
        "lowest_rate": lowest,
        "highest_rate": highest,
        "diverged_rates": int((grid.final_loss_max == math.inf).sum()),
    }


def at_best_rates(curves: pd.DataFrame, rates: pd.DataFrame) -> pd.DataFrame:
    """Return the training ``curves`` at the learning ``rates`` selected, both tables as frames.

    Networks that diverged at every rate have none.
    """
    keys = [*POINT_KEYS, "relative_rate"]
    return curves.merge(rates[keys], on=keys)
