"""How networks descend. Without torch: a workflow reads this before it starts anything."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

#: Multiples of the critical learning rate, 2 / λ_max for the mean square loss, by loss. With a
#: cross-entropy far higher ones are stable: decided samples have no curvature.
AUTO_RATES = {
    "square": (0.125, 0.25, 0.5, 1.0),
    "cross_entropy": (8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0),
}


def rounded_down(rate: float) -> float:
    """Return a multiple of the critical rate, rounded down to three digits.

    So it is the same on every machine, and half the critical rate is not above 1 / lambda_max.

    >>> rounded_down(0.00617839)
    0.00617
    """
    places = 2 - math.floor(math.log10(rate))
    # an exact decimal number stays what it is, though the product may lie just below it
    return round(math.floor(rate * 10.0**places * (1 + 1e-12)) / 10.0**places, places)


#: Settings of a `Descent` that only networks of torch modules have.
BEYOND_PLAIN = ("weight_decay", "decay_at", "decay_factor", "augmentation", "mixed_precision")


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Epochs over the samples, in steps of ``batch_size`` or of all (``"all"``).

    Networks are evaluated at the start, every ``evaluate_every`` epochs and at the end. A step is
    minus the rate times the gradient, plus ``momentum`` times the step before (heavy ball; where
    the rate falls, that step is scaled like it). The rate is multiplied by ``decay_factor`` after
    each of the epochs ``decay_at``; ``mixed_precision`` is torch's autocast to bfloat16.

    >>> Descent(epochs=5, evaluate_every=2).evaluated
    [0, 2, 4, 5]
    """

    epochs: int
    batch_size: int | Literal["all"] = "all"
    evaluate_every: int = 1
    momentum: float = 0.0
    weight_decay: float = 0.0
    decay_at: Sequence[int] = ()
    decay_factor: float = 0.1
    augmentation: Literal["none", "crop_flip"] = "none"
    mixed_precision: bool = False

    @property
    def evaluated(self) -> list[int]:
        """The epochs at whose end networks are evaluated."""
        return [*range(0, self.epochs, self.evaluate_every), self.epochs]

    @property
    def plain(self) -> bool:
        """Whether nothing of `BEYOND_PLAIN` changes a step."""
        changed = self.weight_decay or self.decay_at or self.mixed_precision
        return not changed and self.augmentation == "none"


def measured_epochs(evaluated: Sequence[int], points: int) -> list[int]:
    """Return the first and the last of the epochs and others, evenly in their logarithm.

    >>> measured_epochs(range(101), 6)
    [0, 1, 3, 10, 32, 100]
    >>> measured_epochs(range(101), 2)
    [0, 100]
    """
    first, *others = evaluated
    if not others or points < 2:
        return [first]
    wanted = np.geomspace(others[-1], others[0], points - 1)  # the last before any other
    known = np.array(others)
    nearest = {int(np.abs(known - epoch).argmin()) for epoch in wanted}
    return [first, *(others[k] for k in sorted(nearest))]
