"""How a predicted training is compared with what happened."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: Shares of the initial loss, the time to which is compared, by their names in columns.
SHARES = {"half": 0.5, "tenth": 0.1, "hundredth": 0.01}
#: A prediction has parted from a loss when it is off by this share of it.
PARTED = 0.1

#: Losses of a curve, missing once it has diverged.
Losses = Sequence[float | None]


def epochs_to(level: float, epochs: Sequence[int], losses: Losses) -> float:
    """Return after how many epochs a loss is first at or below ``level``; infinity if never.

    Between two evaluated epochs log(loss) is interpolated linearly.

    >>> epochs_to(0.1, [0, 1, 2], [10.0, 1.0, 0.01])
    1.5
    """
    start, high = 0, None
    for epoch, loss in zip(epochs, losses, strict=True):
        if loss is None:
            return math.inf
        if loss <= level:
            if high is None or loss <= 0:
                return float(epoch)
            share = (math.log(high) - math.log(level)) / (math.log(high) - math.log(loss))
            return start + (epoch - start) * share
        start, high = epoch, loss
    return math.inf


def known(losses: Sequence[float]) -> Losses:
    """Return losses without those that are not finite."""
    return [loss if math.isfinite(loss) else None for loss in losses]


def times(epochs: Sequence[int], losses: Losses, *, prefix: str = "") -> dict[str, Any]:
    """Return the columns of the times to `SHARES` of a curve's first loss.

    >>> times([0, 1, 2], [1.0, 0.25, 0.0625])["epochs_to_half"]
    0.5
    """
    start = losses[0] or 0.0
    by_share = {name: epochs_to(share * start, epochs, losses) for name, share in SHARES.items()}
    return time_columns(by_share, prefix=prefix)


def time_columns(by_share: Mapping[str, float], *, prefix: str = "") -> dict[str, Any]:
    """Return times by the names of `SHARES` as columns, missing where they are infinite."""
    return {f"{prefix}epochs_to_{n}": t if math.isfinite(t) else None for n, t in by_share.items()}


def parted(epochs: Sequence[int], real: Losses, predicted: Losses) -> float | None:
    """Return the first epoch at which a prediction is off by `PARTED` of the real loss.

    >>> parted([0, 1, 2], [1.0, 0.5, 0.2], [1.0, 0.46, 0.1])
    2.0
    """
    here, there = (np.array(losses, dtype=float) for losses in (real, predicted))
    off = ~(np.abs(there - here) <= PARTED * here)
    return float(epochs[int(np.argmax(off))]) if off.any() else None
