"""Tables of training: curves, the kernels where they begin, and the best learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.architectures import MODELS
from ntk_conditioning.tables import Column, Table, from_rows

if TYPE_CHECKING:
    import pandas as pd

POINT = (
    Column("experiment", pa.string(), "name of the experiment"),
    Column("dataset", pa.string(), "name of the dataset"),
    Column(
        "model",
        pa.string(),
        "`mlp`, a fully connected network in the NTK parameterisation; `fc…` and `resnet…`, "
        "networks of torch's modules, see docs/agarwal2021deep.md",
    ),
    Column("activation", pa.string(), "name of the activation"),
    Column(
        "depth",
        pa.int64(),
        "number L of hidden layers, 0 is the linear model; of a `resnet…` all layers with weights, "
        "6 n + 2",
    ),
)
POINT_KEYS = tuple(column.name for column in POINT)
_SEED = Column("seed", pa.int64(), "seed of the initialisation, the order and the draw of samples")
_WIDTH = Column("width", pa.int64(), "hidden units per layer; channels of a resnet's first stage")


def _metric(name: str, meaning: str) -> Column:
    return Column(name, pa.float64(), meaning, nullable=True)


TRAINING = Table(
    name="training",
    description=(
        "Training curves: one row per network and evaluated epoch. Epoch 0 is the initialisation. "
        "After a network has diverged its metrics are missing."
    ),
    keys=(*POINT_KEYS, "seed", "learning_rate", "epoch"),
    columns=(
        *POINT,
        _SEED,
        Column("learning_rate", pa.float64(), "step of gradient descent on the mean loss"),
        Column("epoch", pa.int64(), "epochs that are done"),
        Column("steps", pa.int64(), "steps that are done"),
        _WIDTH,
        Column(
            "input_scale", pa.string(), "`none`, or `fan_in`: samples are multiplied by sqrt(2/d)"
        ),
        Column("loss", pa.string(), "`cross_entropy`, or `square`: half the squared distance"),
        Column("outputs", pa.string(), "`classes`: one output for each; `scalar`: a single one"),
        Column("batch_size", pa.int64(), "samples per step; n for gradient descent"),
        Column("momentum", pa.float64(), "share of the last step that the next one repeats"),
        Column("weight_decay", pa.float64(), "share of the weights that is added to the gradient"),
        Column(
            "decay_at",
            pa.string(),
            "epochs after which the learning rate is multiplied by `decay_factor`, with blanks "
            "between; `none` without any",
        ),
        Column("decay_factor", pa.float64(), "factor of the learning rate at those epochs"),
        Column(
            "augmentation",
            pa.string(),
            "`none`, or `crop_flip`: training images are shifted by up to 4 pixels and mirrored",
        ),
        Column(
            "mixed_precision", pa.bool_(), "whether products are of bfloat16 where torch allows"
        ),
        Column("n", pa.int64(), "training samples"),
        Column("n_test", pa.int64(), "test samples; 0 without any"),
        Column("d", pa.int64(), "input dimension"),
        Column(
            "image",
            pa.string(),
            "height, width and colours of a sample that is taken for an image; else `none`",
        ),
        Column("classes", pa.int64(), "classes of the dataset"),
        Column("dtype", pa.string(), "precision of weights and products"),
        Column("tf32", pa.bool_(), "whether a GPU was allowed to round products to TF32"),
        _metric("train_loss", "mean loss over all training samples"),
        _metric("train_accuracy", "share of the training samples that are classified rightly"),
        _metric("test_loss", "mean loss over all test samples"),
        _metric("test_accuracy", "share of the test samples that are classified rightly"),
        _metric(
            "gradient_norm",
            "norm over all weights of the mean loss' gradient on the epoch's last batch, before "
            "its step",
        ),
        _metric(
            "test_dot_product",
            "mean over all pairs of different test samples of the cosine between their last hidden "
            "representations; missing for `mlp`",
        ),
        Column(
            "diverged",
            pa.bool_(),
            "whether by this epoch the loss of all samples or of a step was not finite or exceeded "
            "1000 times the initial loss, or the outputs had become the same for all samples",
        ),
    ),
)

#: Columns that a training may lack altogether.
MEASURED = tuple(column.name for column in TRAINING.columns if column.nullable)

TRAINING_KERNELS = Table(
    name="training_kernels",
    description=(
        "The NTK at initialisation of one output of the networks that are trained, on training "
        "samples of their own: how fast they may be trained, and how well conditioned that is."
    ),
    keys=(*POINT_KEYS, "seed"),
    columns=(
        *POINT,
        _SEED,
        _WIDTH,
        Column("n", pa.int64(), "samples of the kernel: all training samples, or a random part"),
        Column("n_train", pa.int64(), "training samples"),
        Column("lambda_max", pa.float64(), "largest eigenvalue"),
        _metric("lambda_min", "smallest eigenvalue; missing below the resolution floor"),
        _metric("kappa", "lambda_max / lambda_min; missing where lambda_min is"),
        Column(
            "critical_learning_rate",
            pa.float64(),
            "2 n / lambda_max: beyond it gradient descent on the mean square loss diverges",
        ),
    ),
)


class SelectionError(UserError):
    """What a learning rate is selected by is not there."""


Criterion = Literal["final_loss", "epochs_to_loss", "test_accuracy"]
Edge = Literal["none", "lowest", "highest", "only"]

LEARNING_RATES = Table(
    name="learning_rates",
    description=(
        "The best learning rate of every trained network, by the criterion of its experiment. A "
        "rate at the edge of its grid may not be the best that there is."
    ),
    keys=POINT_KEYS,
    columns=(
        *POINT,
        _metric("learning_rate", "best rate; missing if every rate diverged or none got there"),
        Column(
            "criterion",
            pa.string(),
            "`final_loss`: lowest training loss at the end; `epochs_to_loss`: fewest epochs to a "
            "training loss; `test_accuracy`: highest at the end; means over seeds",
        ),
        _metric("score", "the criterion's value at the best rate"),
        Column("loss_level", pa.float64(), "training loss by which the experiment measures speed"),
        Column(
            "edge",
            pa.string(),
            "`lowest` or `highest` if the best rate is the end of its grid, `only` if it is the "
            "only one, else `none`",
        ),
        Column("rates", pa.int64(), "rates tried"),
        Column("lowest_rate", pa.float64(), "lowest rate tried"),
        Column("highest_rate", pa.float64(), "highest rate tried"),
        Column("diverged_rates", pa.int64(), "rates at which a seed diverged"),
        Column("seeds", pa.int64(), "number of seeds"),
        _metric("final_loss_mean", "mean over seeds of the final training loss at the best rate"),
        _metric("final_loss_min", "lowest of the seeds' final training losses at the best rate"),
        _metric("final_loss_max", "highest of the seeds' final training losses at the best rate"),
        _metric(
            "critical_learning_rate",
            "mean over seeds of 2 n / lambda_max, see `training_kernels`; only of `mlp`",
        ),
        _metric("kappa", "geometric mean over seeds of the initial NTK's kappa, where all have it"),
    ),
)


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
    training: pa.Table,
    kernels: pa.Table,
    rules: Mapping[str, tuple[Criterion, float]],
) -> pa.Table:
    """Return the table of the best learning rates of training curves.

    ``rules`` gives each experiment's criterion and the training loss by which it measures speed. A
    rate at which a seed diverges, or for ``epochs_to_loss`` does not come to that loss, is never
    the best. Kernels are only those of ``mlp``.

    Raises:
        SelectionError: if an experiment has no rule, a network no kernel, or a curve that is to be
            judged by its test accuracy no test samples.
    """
    measured = ["train_loss", "test_accuracy", "diverged"]
    needed = [*POINT_KEYS, "seed", "learning_rate", "epoch", *measured]
    order = [(key, "ascending") for key in TRAINING.keys]
    curves = training.select(needed).sort_by(order).to_pylist()
    initial: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in kernels.to_pylist():
        initial.setdefault(tuple(row[key] for key in POINT_KEYS), []).append(row)
    rows = []
    for point, group in groupby(curves, key=itemgetter(*POINT_KEYS)):
        name = "/".join(map(str, point))
        if point[0] not in rules:
            raise SelectionError(f"{name}: its experiment has no criterion")
        if point not in initial and not MODELS[point[2]].by_modules:
            raise SelectionError(f"{name}: the table of training kernels lacks it; make it again")
        rows.append(_selected(point, list(group), rules[point[0]], initial.get(point, [])))
    return from_rows(LEARNING_RATES, rows)


def _selected(
    point: tuple[Any, ...],
    curves: list[dict[str, Any]],
    rule: tuple[Criterion, float],
    kernels: list[dict[str, Any]],
) -> dict[str, Any]:
    criterion, level = rule
    final: dict[float, list[float]] = {}
    scores: dict[float, list[float]] = {}
    for (_, rate), rows in groupby(curves, key=itemgetter("seed", "learning_rate")):
        curve = list(rows)
        diverged = curve[-1]["diverged"]
        final.setdefault(rate, []).append(math.inf if diverged else curve[-1]["train_loss"])
        score = math.inf if diverged else _score(criterion, level, curve)
        scores.setdefault(rate, []).append(score)
    means = {rate: float(np.mean(values)) for rate, values in scores.items()}
    grid = sorted(means)
    best = min(grid, key=lambda rate: means[rate])
    converged = math.isfinite(means[best])
    return {
        **dict(zip(POINT_KEYS, point, strict=True)),
        "learning_rate": best if converged else None,
        "criterion": criterion,
        "score": abs(means[best]) if converged else None,
        "loss_level": level,
        "edge": _edge(best, grid) if converged else "none",
        "rates": len(grid),
        "lowest_rate": grid[0],
        "highest_rate": grid[-1],
        "diverged_rates": sum(not np.isfinite(values).all() for values in final.values()),
        "seeds": len(final[best]),
        **_spread(final[best] if converged else []),
        "critical_learning_rate": _mean([k["critical_learning_rate"] for k in kernels]),
        "kappa": _geometric_mean([k["kappa"] for k in kernels]),
    }


def _score(criterion: Criterion, level: float, curve: Sequence[Mapping[str, Any]]) -> float:
    """Return what a curve is judged by, the lower the better; an accuracy is negative."""
    match criterion:
        case "epochs_to_loss":
            losses = [row["train_loss"] for row in curve]
            return epochs_to(level, [row["epoch"] for row in curve], losses)
        case "test_accuracy":
            if curve[-1]["test_accuracy"] is None:
                name = "/".join(str(curve[-1][key]) for key in POINT_KEYS)
                raise SelectionError(f"{name}: no test samples, which its criterion needs")
            return -float(curve[-1]["test_accuracy"])
        case "final_loss":
            return float(curve[-1]["train_loss"])


def _edge(best: float, grid: Sequence[float]) -> Edge:
    if len(grid) == 1:
        return "only"
    return "lowest" if best == grid[0] else "highest" if best == grid[-1] else "none"


def _spread(losses: Sequence[float]) -> dict[str, float | None]:
    known = [loss for loss in losses if math.isfinite(loss)]
    if not known:
        return dict.fromkeys(f"final_loss_{name}" for name in ("mean", "min", "max"))
    return {
        "final_loss_mean": float(np.mean(known)),
        "final_loss_min": min(known),
        "final_loss_max": max(known),
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _geometric_mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.exp(np.mean(np.log(known)))) if values and len(known) == len(values) else None


def at_best_rates(curves: pd.DataFrame, rates: pd.DataFrame) -> pd.DataFrame:
    """Return those of the training ``curves`` that are at the learning ``rates`` selected.

    Both are the tables as frames. Networks that diverged at every rate have none.
    """
    keys = [*POINT_KEYS, "learning_rate"]
    return curves.merge(rates[keys], on=keys)


def curve_rows(
    labels: Mapping[str, Any],
    *,
    seed: int,
    rate: float,
    steps_per_epoch: int,
    metrics: Mapping[str, Sequence[float]],
    diverged: int,
    epochs: Iterable[int],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one network's curve; ``diverged`` is an epoch, or -1 for never.

    What is not among the ``metrics`` is missing.
    """
    lacking = [name for name in MEASURED if name not in metrics]
    for epoch in epochs:
        values = {name: float(curve[epoch]) for name, curve in metrics.items()}
        yield {
            **labels,
            "seed": seed,
            "learning_rate": rate,
            "epoch": epoch,
            "steps": epoch * steps_per_epoch,
            **dict.fromkeys(lacking),
            **{name: value if math.isfinite(value) else None for name, value in values.items()},
            "diverged": 0 <= diverged <= epoch,
        }
