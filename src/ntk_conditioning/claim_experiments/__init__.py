"""Numerical experiments that decide what a paper states: theorems, lemmas and misprints.

Public functions of a `Setting` alone, in the modules of a paper that `papers` lists, yield
`Measurement`s. What is measured is computed without the formula that it is compared with: by
networks of finite width, eigenvalue solvers, a root finder, or a recursion where the paper expands.
Verdicts are left to `ntk_workflow.claims`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import SupportsFloat

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measurement:
    """A measured ``value`` beside what the paper prints and, where that is wrong, what is right.

    ``at`` is the angle, distance or ratio that varies. All four may be given as anything that has a
    float. What does not apply is None; a width of None is the limit of infinite width. `measure`
    fills in the ``procedure``, the experiment in a sentence.
    """

    statement: str
    value: SupportsFloat
    printed: SupportsFloat | None = None
    corrected: SupportsFloat | None = None
    activation: str | None = None
    depth: int | None = None
    width: int | None = None
    n: int | None = None
    d: int | None = None
    seed: int | None = None
    at: SupportsFloat | None = None
    procedure: str | None = None

    def __post_init__(self) -> None:
        for name in ("value", "printed", "corrected", "at"):
            if (number := getattr(self, name)) is not None:
                object.__setattr__(self, name, float(number))


Measurements = Iterator[Measurement]


@dataclass(frozen=True)
class Setting:
    """How large the experiments are: ascending widths, depths (at least 1) and seeds."""

    widths: Sequence[int]
    depths: Sequence[int]
    seeds: Sequence[int]
