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

from ntk_conditioning.networks.calculus import Array as Array

Measurements = Iterator[dict[str, Any]]
#: What tells measurements of a statement apart; a width of None is infinite.
KEYS = ("activation", "depth", "width", "n", "d", "seed", "at")


def measurement(
    statement: str,
    value: SupportsFloat,
    printed: SupportsFloat | None = None,
    corrected: SupportsFloat | None = None,
    **keys: Any,
) -> dict[str, Any]:
    """Return a measured value beside what the paper prints and, where that is wrong, what is right.

    As a row of the table `claim_experiments`. Of the `KEYS`, ``at`` is the angle, distance or ratio
    that varies.
    """
    numbers = {"value": value, "printed": printed, "corrected": corrected}
    floats = {name: None if number is None else float(number) for name, number in numbers.items()}
    return dict.fromkeys(KEYS) | {"statement": statement} | keys | floats


@dataclass(frozen=True)
class Setting:
    """How large the experiments are: ascending widths, depths (at least 1) and seeds."""

    widths: Sequence[int]
    depths: Sequence[int]
    seeds: Sequence[int]


def grid(**keys: Any) -> Iterator[Any]:
    """Yield, at each point of a grid, a partial `measurement` with its keys, and the coordinates.

    Keys that are sequences are the axes, of which the last varies first; others are constant. An
    axis that is none of the `KEYS` varies too, but stays out of the measurements.

    >>> for row, depth, kind in grid(depth=[1, 2], kind=["a", "b"], n=3):
    ...     print(kind, row("kappa", 1.5)["depth"], row("kappa", 1.5)["n"])
    a 1 3
    b 1 3
    a 2 3
    b 2 3
    """
    axes = {name: values for name, values in keys.items() if np.ndim(values)}
    for point in itertools.product(*axes.values()):
        here = keys | dict(zip(axes, point, strict=True))
        yield partial(measurement, **{name: here[name] for name in here if name in KEYS}), *point
