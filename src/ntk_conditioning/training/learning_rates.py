"""How the best learning rates are selected from training curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import mean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from ntk_conditioning import tables
from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.architectures import kind_of
from ntk_conditioning.spectra.unresolved import as_infinite, or_missing
from ntk_conditioning.training.curves import POINT_KEYS
from ntk_conditioning.training.predicted_times import epochs_to

if TYPE_CHECKING:
    import pandas as pd


class SelectionError(UserError):
    """What a learning rate is selected by is not there."""


Criterion = Literal["final_loss", "epochs_to_loss", "test_accuracy"]
Rows = list[dict[str, Any]]

_READ = ("rate_unit", "learning_rate", "width", "n", "train_loss", "test_accuracy", "diverged")
_point = itemgetter(*POINT_KEYS)


def select_rates(
    training: pa.Table, kernels: pa.Table, rules: Mapping[str, tuple[Criterion, float]]
) -> pa.Table:
    """Return the table `learning_rates` of training curves.

    ``rules`` gives each experiment's criterion and the training loss by which it measures speed. A
    rate at which a seed diverges, or for ``epochs_to_loss`` does not come to that loss, is never
    the best. Kernels are only those of ``mlp``.

    Raises `SelectionError` if an experiment has no rule, an ``mlp`` no kernel, or a curve to be
    judged by its test accuracy no test samples.
    """
    keys = tables.get("training").keys
    curves = training.select([*keys, *_READ]).sort_by([(key, "ascending") for key in keys])
    networks: dict[tuple[Any, ...], dict[float, dict[str, Any]]] = {}
    rows = []
    for point, group in groupby(curves.to_pylist(), key=_point):
        if point[0] not in rules:
            raise SelectionError(f"{_name(point)}: its experiment has no criterion")
        by_run = groupby(group, key=itemgetter("seed", "relative_rate"))
        networks[point] = _by_rate([_outcome([*run], *rules[point[0]]) for _, run in by_run])
    initial = kernels.to_pylist()
    for point, rates in networks.items():
        known = [row for row in initial if _point(row) == point]
        if not known and not kind_of(point[2]).by_modules:
            lacks = "the table of training kernels lacks it; make it again"
            raise SelectionError(f"{_name(point)}: {lacks}")
        common = _common_rate([r for other, r in networks.items() if other[:-1] == point[:-1]])
        row: dict[str, Any] = dict(zip(POINT_KEYS, point, strict=True))
        row |= dict(zip(("criterion", "loss_level"), rules[point[0]], strict=True))
        row |= _best(rates) | {"critical_learning_rate": None, "kappa": None}
        row |= {"common_rate": common}
        row["common_loss_mean"] = None if common is None else rates[common]["final_loss_mean"]
        if known:
            critical = [kernel["critical_learning_rate"] for kernel in known]
            kappas = as_infinite([kernel["kappa"] for kernel in known])
            row["critical_learning_rate"] = float(np.mean(critical))
            row["kappa"] = or_missing(np.exp(np.mean(np.log(kappas))))
        rows.append(row)
    return tables.from_rows("learning_rates", rows)


def _name(point: tuple[Any, ...]) -> str:
    return "/".join(map(str, point))


def _outcome(curve: Rows, criterion: Criterion, level: float) -> dict[str, Any]:
    """Return the last row of a curve with its ``score``, the lower the better, and its speed."""
    last, losses = curve[-1], [row["train_loss"] for row in curve]
    if last["diverged"]:
        return last | dict.fromkeys(("train_loss", "epochs_to_loss", "score"), math.inf)
    if criterion == "test_accuracy" and last["test_accuracy"] is None:
        raise SelectionError(f"{_name(_point(last))}: no test samples, which its criterion needs")
    epochs = epochs_to(level, [row["epoch"] for row in curve], losses)
    scores = {"final_loss": losses[-1], "epochs_to_loss": epochs}
    score = scores[criterion] if criterion in scores else -last["test_accuracy"]
    return last | {"epochs_to_loss": epochs, "score": score}


def _by_rate(outcomes: Rows) -> dict[float, dict[str, Any]]:
    """Return a network's statistics over seeds, by relative rate in ascending order."""
    rates: dict[float, dict[str, Any]] = {}
    for rate in sorted({row["relative_rate"] for row in outcomes}):
        seeds = [row for row in outcomes if row["relative_rate"] == rate]
        columns = {name: [row[name] for row in seeds] for name in seeds[0]}
        losses = columns["train_loss"]
        rates[rate] = {
            "score": float(np.mean(columns["score"])),
            "learning_rate": mean(columns["learning_rate"]),  # exact: equal rates stay the same
            "final_loss_mean": float(np.mean(losses)),
            "final_loss_min": min(losses),
            "final_loss_max": max(losses),
            "epochs_to_loss": or_missing(np.mean(columns["epochs_to_loss"])),
            "seeds": len(seeds),
            "epochs": seeds[-1]["epoch"],
            **{name: seeds[-1][name] for name in ("rate_unit", "width", "n")},
        }
    return rates


def _common_rate(depths: Sequence[Mapping[float, Mapping[str, Any]]]) -> float | None:
    """Return the rate with the lowest mean score of all depths; None if each fails at some."""
    rates = set.intersection(*map(set, depths))
    means = {r: float(np.mean([depth[r]["score"] for depth in depths])) for r in sorted(rates)}
    best = min(means, key=means.__getitem__, default=None)
    return best if best is not None and math.isfinite(means[best]) else None


def _best(rates: Mapping[float, dict[str, Any]]) -> dict[str, Any]:
    """Return the columns of the rate with the lowest score, and of the grid."""
    grid = [*rates]
    best = min(grid, key=lambda rate: rates[rate]["score"])
    row = rates[best] | {"relative_rate": best, "score": abs(rates[best]["score"])}
    edge = "lowest" if best == grid[0] else "highest" if best == grid[-1] else "none"
    if not math.isfinite(row["score"]):
        edge = "none"
        row |= dict.fromkeys(("relative_rate", "learning_rate", "score"))
        row |= dict.fromkeys(("final_loss_mean", "final_loss_min", "final_loss_max"))
    elif len(grid) == 1:
        edge = "only"
    return row | {
        "edge": edge,
        "rates": len(grid),
        "lowest_rate": grid[0],
        "highest_rate": grid[-1],
        "diverged_rates": sum(row["final_loss_max"] == math.inf for row in rates.values()),
    }


def at_best_rates(curves: pd.DataFrame, rates: pd.DataFrame) -> pd.DataFrame:
    """Return the training ``curves`` at the learning ``rates`` selected, both tables as frames.

    Networks that diverged at every rate have none.
    """
    keys = [*POINT_KEYS, "relative_rate"]
    return curves.merge(rates[keys], on=keys)
