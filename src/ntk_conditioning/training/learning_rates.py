"""How the best learning rates are selected from training curves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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

if TYPE_CHECKING:
    import pandas as pd


class SelectionError(UserError):
    """What a learning rate is selected by is not there."""


Criterion = Literal["final_loss", "epochs_to_loss", "test_accuracy"]


def epochs_to(level: float, epochs: Sequence[int], losses: Sequence[float | None]) -> float:
    """Return after how many epochs a loss is first at or below ``level``; infinity if never.

    Between two evaluated epochs log(loss) is interpolated linearly.

    >>> epochs_to(0.1, [0, 1, 2], [10.0, 1.0, 0.01])
    1.5
    """
    before: tuple[int, float] | None = None
    for epoch, loss in zip(epochs, losses, strict=True):
        if loss is None:
            return math.inf
        if loss <= level:
            if before is None or loss <= 0:
                return float(epoch)
            start, high = before
            share = (math.log(high) - math.log(level)) / (math.log(high) - math.log(loss))
            return start + (epoch - start) * share
        before = (epoch, loss)
    return math.inf


def select_rates(
    training: pa.Table, kernels: pa.Table, rules: Mapping[str, tuple[Criterion, float]]
) -> pa.Table:
    """Return the table of the best learning rates of training curves.

    ``rules`` gives each experiment's criterion and the training loss by which it measures speed. A
    rate at which a seed diverges, or for ``epochs_to_loss`` does not come to that loss, is never
    the best. Kernels are only those of ``mlp``. `SelectionError` says if an experiment has no rule,
    an ``mlp`` no kernel, or a curve to be judged by its test accuracy no test samples.
    """
    order = [(key, "ascending") for key in tables.get("training").keys]
    needed = [
        *tables.get("training").keys,
        "rate_unit",
        "learning_rate",
        "width",
        "n",
        "train_loss",
    ]
    needed += ["test_accuracy", "diverged"]
    curves = training.select(needed).sort_by(order).to_pylist()
    of_point = itemgetter(*POINT_KEYS)
    initial: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in kernels.to_pylist():
        initial[of_point(row)].append(row)
    judged: dict[tuple[Any, ...], Judged] = {}
    for point, group in groupby(curves, key=of_point):
        name = "/".join(map(str, point))
        if point[0] not in rules:
            raise SelectionError(f"{name}: its experiment has no criterion")
        if point not in initial and not kind_of(point[2]).by_modules:
            raise SelectionError(f"{name}: the table of training kernels lacks it; make it again")
        judged[point] = _judged(group, *rules[point[0]])
    rows = []
    for point, network in judged.items():
        depths = [other.scores for key, other in judged.items() if key[:-1] == point[:-1]]
        selected = _selected(network, *rules[point[0]], initial[point])
        common = {"common_rate": (rate := _common_rate(depths))}
        common["common_loss_mean"] = None if rate is None else float(np.mean(network.losses[rate]))
        rows.append(dict(zip(POINT_KEYS, point, strict=True)) | selected | common | network.size)
    return tables.from_rows("learning_rates", rows)


@dataclass(frozen=True)
class Judged:
    """A network's training at every relative rate: of all seeds the final loss and the like.

    ``scores`` are means over seeds of what its rates are judged by, the lower the better; ``steps``
    are the learning rates themselves, and ``epochs`` those to a loss; ``size`` is that of network,
    samples and training, with the unit of the rates.
    """

    scores: Mapping[float, float]
    losses: Mapping[float, Sequence[float]]
    epochs: Mapping[float, Sequence[float]]
    steps: Mapping[float, Sequence[float]]
    size: dict[str, Any]


def _judged(curves: Iterable[dict[str, Any]], criterion: Criterion, level: float) -> Judged:
    losses: dict[float, list[float]] = defaultdict(list)
    scores: dict[float, list[float]] = defaultdict(list)
    epochs: dict[float, list[float]] = defaultdict(list)
    steps: dict[float, list[float]] = defaultdict(list)
    for (_, rate), rows in groupby(curves, key=itemgetter("seed", "relative_rate")):
        curve = list(rows)
        diverged = curve[-1]["diverged"]
        losses[rate].append(math.inf if diverged else curve[-1]["train_loss"])
        scores[rate].append(math.inf if diverged else _score(criterion, level, curve))
        epochs[rate].append(math.inf if diverged else _score("epochs_to_loss", level, curve))
        steps[rate].append(curve[-1]["learning_rate"])
    means = {rate: float(np.mean(values)) for rate, values in scores.items()}
    size = {name: curve[-1][name] for name in ("rate_unit", "width", "n")}
    return Judged(means, losses, epochs, steps, size | {"epochs": curve[-1]["epoch"]})


def _common_rate(depths: Sequence[Mapping[float, float]]) -> float | None:
    """Return the rate with the lowest mean score of all depths; None if each fails at some."""
    rates = set.intersection(*map(set, depths))
    means = {rate: float(np.mean([scores[rate] for scores in depths])) for rate in sorted(rates)}
    best = min(means, key=means.__getitem__, default=None)
    return best if best is not None and math.isfinite(means[best]) else None


def _selected(
    network: Judged, criterion: Criterion, level: float, kernels: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    means, losses = network.scores, network.losses
    grid = sorted(means)
    best = min(grid, key=lambda rate: means[rate])
    epochs = float(np.mean(network.epochs[best]))
    edge = "lowest" if best == grid[0] else "highest" if best == grid[-1] else "none"
    chosen = {
        "relative_rate": best,
        "learning_rate": mean(network.steps[best]),  # exact, so that equal rates stay what they are
        "score": abs(means[best]),
        "final_loss_mean": float(np.mean(losses[best])),
        "final_loss_min": min(losses[best]),
        "final_loss_max": max(losses[best]),
    }
    converged = math.isfinite(means[best])
    critical = [kernel["critical_learning_rate"] for kernel in kernels]
    kappas = as_infinite([kernel["kappa"] for kernel in kernels])
    return {
        **(chosen if converged else dict.fromkeys(chosen)),
        "criterion": criterion,
        "loss_level": level,
        "edge": "none" if not converged else "only" if len(grid) == 1 else edge,
        "rates": len(grid),
        "lowest_rate": grid[0],
        "highest_rate": grid[-1],
        "diverged_rates": sum(not np.isfinite(values).all() for values in losses.values()),
        "seeds": len(losses[best]),
        "epochs_to_loss": epochs if math.isfinite(epochs) else None,
        "critical_learning_rate": float(np.mean(critical)) if critical else None,
        "kappa": or_missing(np.exp(np.mean(np.log(kappas)))) if kernels else None,
    }


def _score(criterion: Criterion, level: float, curve: Sequence[Mapping[str, Any]]) -> float:
    """Return what a curve is judged by, the lower the better; an accuracy is negative."""
    last = curve[-1]
    match criterion:
        case "epochs_to_loss":
            losses = [row["train_loss"] for row in curve]
            return epochs_to(level, [row["epoch"] for row in curve], losses)
        case "test_accuracy":
            if last["test_accuracy"] is None:
                name = "/".join(str(last[key]) for key in POINT_KEYS)
                raise SelectionError(f"{name}: no test samples, which its criterion needs")
            return -float(last["test_accuracy"])
        case "final_loss":
            return float(last["train_loss"])


def at_best_rates(curves: pd.DataFrame, rates: pd.DataFrame) -> pd.DataFrame:
    """Return the training ``curves`` at the learning ``rates`` selected, both tables as frames.

    Networks that diverged at every rate have none.
    """
    keys = [*POINT_KEYS, "relative_rate"]
    return curves.merge(rates[keys], on=keys)
