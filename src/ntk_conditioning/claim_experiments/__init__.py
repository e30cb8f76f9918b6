"""Numerical experiments that decide what a paper states: theorems, lemmas and misprints.

A subpackage per paper, named in `papers`, yields `Measurement`s. What is measured is computed
without the formula that it is compared with: by networks of finite width, by eigenvalue solvers, by
a root finder, or by a recursion where the paper expands. A measurement has no verdict; `claims`
compares it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """A measured ``value`` beside what the paper prints and, where that is wrong, what is right.

    ``at`` is the angle, distance or ratio that varies. What does not apply is None; a width of None
    is the limit of infinite width.
    """

    statement: str
    value: float
    printed: float | None = None
    corrected: float | None = None
    activation: str | None = None
    depth: int | None = None
    width: int | None = None
    n: int | None = None
    d: int | None = None
    seed: int | None = None
    at: float | None = None


@dataclass(frozen=True)
class Setting:
    """How large the experiments are: ascending widths, depths (at least 1) and seeds."""

    widths: Sequence[int]
    depths: Sequence[int]
    seeds: Sequence[int]
