"""Rows of training curves: one per network and evaluated epoch."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ntk_conditioning import tables

#: What names a trained network, but for its seed.
POINT_KEYS = ("experiment", "dataset", "model", "activation", "depth")
#: Columns that a training may lack altogether.
MEASURED = tuple(column.name for column in tables.get("training").columns if column.nullable)


def curve_rows(
    labels: Mapping[str, Any],
    *,
    steps_per_epoch: int,
    metrics: Mapping[str, Sequence[float]],
    diverged: int,
    epochs: Iterable[int],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a network's curve; ``diverged`` is an epoch, or -1 for never.

    ``labels`` are their other columns. What is not among the ``metrics`` is missing.
    """
    for epoch in epochs:
        values = {name: float(curve[epoch]) for name, curve in metrics.items()}
        yield {
            **labels,
            "epoch": epoch,
            "steps": epoch * steps_per_epoch,
            **dict.fromkeys(MEASURED),
            **{name: value if math.isfinite(value) else None for name, value in values.items()},
            "diverged": 0 <= diverged <= epoch,
        }
