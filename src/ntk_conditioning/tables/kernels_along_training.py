"""The table of kernels along training: one row per network and epoch at which it was measured."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ntk_conditioning.tables import declared
from ntk_conditioning.tables.training import TRAINING, curve_rows

KERNELS_ALONG_TRAINING = declared(__file__, like=TRAINING)
_COLUMNS = frozenset(KERNELS_ALONG_TRAINING.schema.names)


def along_rows(
    labels: Mapping[str, Any],
    *,
    epochs: Iterable[int],
    metrics: Mapping[str, Sequence[float]],
    **of: Any,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one network that was measured at some epochs, see `training.curve_rows`.

    >>> of = {"seed": 1, "relative_rate": 0.5, "rate": 0.1, "steps_per_epoch": 3, "diverged": 2}
    >>> found = along_rows({}, epochs=[0, 4], metrics={"kappa": [2.0] * 5}, **of)
    >>> [(row["epoch"], row["kappa"]) for row in found]
    [(0, 2.0)]
    """
    for row in curve_rows(labels, epochs=epochs, metrics=metrics, **of):
        if not row["diverged"]:
            yield {name: value for name, value in row.items() if name in _COLUMNS}
