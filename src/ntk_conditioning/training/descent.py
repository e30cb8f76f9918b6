"""How networks descend: for how long, in which steps, and what goes beyond plain gradient descent.

Nothing here imports torch: a workflow reads it before it starts anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

Augmentation = Literal["none", "crop_flip"]


@dataclass(frozen=True, kw_only=True)
class Course:
    """Epochs over the samples, in steps of ``batch_size`` or of all (``"all"``).

    Networks are evaluated at the start, at the end of every ``evaluate_every`` epochs and of the
    last one.

    >>> Course(epochs=5, evaluate_every=2).evaluated
    [0, 2, 4, 5]
    """

    epochs: int
    batch_size: int | Literal["all"] = "all"
    evaluate_every: int = 1

    def evaluates(self, epoch: int) -> bool:
        """Return whether networks are evaluated at the end of an epoch."""
        return epoch % self.evaluate_every == 0 or epoch == self.epochs

    @property
    def evaluated(self) -> list[int]:
        """The epochs at whose end networks are evaluated."""
        return [*filter(self.evaluates, range(self.epochs + 1))]


@dataclass(frozen=True, kw_only=True)
class Descent(Course):
    """A course with what goes beyond plain gradient descent.

    The rate is multiplied by ``decay_factor`` after each of the epochs ``decay_at``. With
    ``mixed_precision`` products are of bfloat16 where torch's autocast has it so.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    decay_at: Sequence[int] = ()
    decay_factor: float = 0.1
    augmentation: Augmentation = "none"
    mixed_precision: bool = False

    @property
    def plain(self) -> bool:
        """Whether this is plain gradient descent."""
        return all(getattr(self, each.name) == each.default for each in fields(Descent)[_PLAIN:])


_PLAIN = len(fields(Course))

#: What means nothing to networks that are trained by plain gradient descent.
BEYOND_PLAIN = tuple(each.name for each in fields(Descent)[_PLAIN:])
