"""Numerical experiments that decide what a paper states: theorems, lemmas and misprints.

What is measured is computed without the formula that it is compared with. Verdicts are left to
`ntk_workflow.claims`; `papers` lists the experiments.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measurement:
    """A measured ``value`` beside what the paper prints and, where that is wrong, what is right.

    ``at`` is the angle, distance or ratio that varies. What does not apply is None; a width of None
    is infinite. `papers.measure` fills in the ``procedure``, the experiment in a sentence.
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


def grid(**keys: Any) -> Iterator[Any]:
    """Yield, at each point of a grid, a partial `Measurement` with its keys, and the coordinates.

    Keys that are sequences are the axes, of which the last varies first; others are constant. An
    axis that is no field of a `Measurement` varies too, but stays out of the measurements.

    >>> for row, depth, kind in grid(depth=[1, 2], kind=["a", "b"], n=3):
    ...     print(kind, row("kappa", 1.5).depth, row("kappa", 1.5).n)
    a 1 3
    b 1 3
    a 2 3
    b 2 3
    """
    axes = {name: values for name, values in keys.items() if np.ndim(values)}
    for point in itertools.product(*axes.values()):
        here = keys | dict(zip(axes, point, strict=True))
        fields = {name: here[name] for name in here if name in Measurement.__annotations__}
        yield partial(Measurement, **fields), *point
