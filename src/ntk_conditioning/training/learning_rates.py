"""Learning rates to try, around the critical one of gradient descent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

#: Multiples of the critical rate for the mean square loss, by loss. With a cross-entropy far higher
#: rates are stable: the curvature of softmax falls to zero as samples are decided.
AUTO = {
    "square": (0.125, 0.25, 0.5, 1.0),
    "cross_entropy": (8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0),
}

DIGITS = 3


@dataclass(frozen=True)
class LearningRates:
    """Rates to try, as they are or (``relative``) in units of the critical rate, 2 / λ_max."""

    values: tuple[float, ...]
    relative: bool = False

    @classmethod
    def parse(
        cls,
        given: Iterable[float] | Mapping[str, Any] | Literal["auto"],
        *,
        loss: str,
    ) -> Self:
        """Return rates from a list, from ``{"critical": [...]}``, or those that suit the loss.

        >>> LearningRates.parse({"critical": [0.5]}, loss="square")
        LearningRates(values=(0.5,), relative=True)
        """
        if given == "auto":
            return cls(AUTO[loss], relative=True)
        if isinstance(given, Mapping):
            return cls(tuple(given["critical"]), relative=True)
        return cls(tuple(given))

    def absolute(self, critical: float) -> list[float]:
        """Return the rates as they are, given the critical one.

        >>> LearningRates((0.5, 1.0), relative=True).absolute(0.0123456)
        [0.00617, 0.0123]
        """
        return around(critical, self.values) if self.relative else [*self.values]


def around(critical: float, factors: Iterable[float]) -> list[float]:
    """Return rates at multiples of the critical rate, rounded down to three digits.

    Rounding makes them the same on every machine, whatever the last digits of an eigenvalue; and
    down, so that a rate of half the critical one is never above 1 / lambda_max.

    >>> around(0.0123456, [0.5, 1.0])
    [0.00617, 0.0123]
    """
    return [_rounded_down(factor * critical) for factor in factors]


def _rounded_down(value: float) -> float:
    places = DIGITS - 1 - math.floor(math.log10(value))
    # an exact decimal number stays what it is, though the product may lie just below it
    return round(math.floor(value * 10.0**places * (1 + 1e-12)) / 10.0**places, places)
