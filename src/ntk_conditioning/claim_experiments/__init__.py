"""Numerical experiments that decide what a paper states: theorems, lemmas and misprints.

What is measured is computed without the formula that it is compared with. Verdicts are left to
`ntk_workflow.claims`; `papers` lists the experiments.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning.errors import UserError
from ntk_conditioning.networks.calculus import Array as Array

Measurements = Iterator[list[dict[str, Any]]]
#: What tells measurements of a statement apart; a width of None is infinite.
KEYS = ("activation", "depth", "width", "n", "d", "seed", "at")


def measurement(
    statement: str | Sequence[str],
    value: ArrayLike,
    printed: ArrayLike | None = None,
    corrected: ArrayLike | None = None,
    **keys: Any,
) -> list[dict[str, Any]]:
    """Return measured values beside what the paper prints and, where that is wrong, what is right.

    As rows of the table `claim_experiments`, one for each entry of the arguments, which broadcast.
    Of the `KEYS`, ``at`` is the angle, distance or ratio that varies.
    """
    numbers = {"value": value, "printed": printed, "corrected": corrected}
    floats = {name: x if x is None else np.asarray(x, float) for name, x in numbers.items()}
    row = dict.fromkeys(KEYS) | {"statement": statement} | keys | floats
    columns = [column.ravel().tolist() for column in np.broadcast_arrays(*row.values())]
    return [dict(zip(row, values, strict=True)) for values in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Setting:
    """How large experiments are: ascending widths, depths from 1 on, and seeds.

    Raises `UserError` for fewer than two widths, of which there are no exponents.
    """

    widths: Sequence[int]
    depths: Sequence[int]
    seeds: Sequence[int]

    def __post_init__(self) -> None:
        if len(self.widths) < 2:
            raise UserError("experiments need two widths or more")


def grid(**keys: Any) -> Iterator[Any]:
    """Yield, at each point of a grid, a partial `measurement` with its keys, and the coordinates.

    Keys that are sequences are the axes, of which the last varies first; others are constant. An
    axis that is none of the `KEYS` varies too, but stays out of the measurements.

    >>> for row, depth, kind in grid(depth=[1, 2], kind=["a", "b"], n=3):
    ...     print(kind, row("kappa", 1.5)[0]["depth"], row("kappa", 1.5)[0]["n"])
    a 1 3
    b 1 3
    a 2 3
    b 2 3
    """
    axes = {name: values for name, values in keys.items() if np.ndim(values)}
    for point in itertools.product(*axes.values()):
        here = keys | dict(zip(axes, point, strict=True))
        yield partial(measurement, **{name: here[name] for name in here if name in KEYS}), *point
