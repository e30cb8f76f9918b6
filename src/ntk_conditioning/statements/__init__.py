"""Numerical experiments that decide what a paper states: theorems, lemmas and misprints.

A subpackage per paper yields `Measurement`s. What is measured is computed without the formula that
it is compared with: by networks of finite width, by eigenvalue solvers, by a root finder, or by a
recursion where the paper expands. A measurement has no verdict; `claims` compares it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ntk_conditioning.errors import UserError


class UnknownPaperError(UserError):
    """There are no numerical experiments for a paper of this name."""


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


def measure(paper: str, setting: Setting) -> Iterator[Measurement]:
    """Yield what the experiments of a paper measure.

    Raises:
        UnknownPaperError: if there are none.
    """
    try:
        module = importlib.import_module(f"{__name__}.{paper}")
    except ModuleNotFoundError as error:
        raise UnknownPaperError(
            f"no experiments for the paper {paper!r} ({__name__}.{paper} is missing)"
        ) from error
    for experiment in module.EXPERIMENTS:
        yield from experiment(setting)
