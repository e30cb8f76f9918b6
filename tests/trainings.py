"""What tests of trainings share: training to the end, pausing, and comparing states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from ntk_conditioning.training.trainer import Training

T = TypeVar("T", bound=Training[Any])


def finish(ensemble: T, spread: Callable[..., Iterable[bool]] = map) -> T:
    while not ensemble.finished:
        assert ensemble.advance(spread=spread)
    return ensemble


def after(asked: int) -> Callable[[], bool]:
    """Return a question that is answered with no so many times, and then with yes."""
    answers = iter([False] * asked)
    return lambda: next(answers, True)


def assert_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Every array has the same bits, missing numbers included."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
