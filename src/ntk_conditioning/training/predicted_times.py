"""How a predicted training is compared with what happened."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ntk_conditioning.training.learning_rates import epochs_to

#: Shares of the initial loss, the time to which is compared, by their names in columns.
SHARES = {"half": 0.5, "tenth": 0.1, "hundredth": 0.01}
#: A prediction has parted from a loss when it is off by this share of it.
PARTED = 0.1


#: Losses of a curve, missing once it has diverged.
Losses = Sequence[float | None]


def known(losses: Sequence[float]) -> Losses:
    """Return losses without those that are not finite."""
    return [loss if math.isfinite(loss) else None for loss in losses]


def times(epochs: Sequence[int], losses: Losses, *, prefix: str = "") -> dict[str, Any]:
    """Return the columns of the times to `SHARES` of a curve's first loss.

    >>> times([0, 1, 2], [1.0, 0.25, 0.0625])["epochs_to_half"]
    0.5
    """
    start = losses[0] or 0.0
    found = {name: epochs_to(share * start, epochs, losses) for name, share in SHARES.items()}
    return time_columns(found, prefix=prefix)


def time_columns(found: dict[str, float], *, prefix: str = "") -> dict[str, Any]:
    """Return times by the names of `SHARES` as columns, missing where they are infinite."""
    return {f"{prefix}epochs_to_{n}": t if math.isfinite(t) else None for n, t in found.items()}


def parted(epochs: Sequence[int], real: Losses, predicted: Losses) -> float | None:
    """Return the first epoch at which a prediction is off by `PARTED` of the real loss.

    >>> parted([0, 1, 2], [1.0, 0.5, 0.2], [1.0, 0.46, 0.1])
    2.0
    """
    here, there = (np.array(losses, dtype=float) for losses in (real, predicted))
    off = ~(np.abs(there - here) <= PARTED * here)
    return float(epochs[int(np.argmax(off))]) if off.any() else None
