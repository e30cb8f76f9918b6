"""What tests of trainings share: training to the end, pausing, and comparing states."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ntk_workflow import yaml_files
from ntk_workflow.trainings.settings import TrainingSettings

SETTINGS = {field.name for field in fields(TrainingSettings)}


def to_words(options: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a program for options; one of None is left out."""
    words = []
    for name, value in options.items():
        if value is not None:
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{name.replace('_', '-')}", *filter(None, map(str, values))]
    return words


def training_words(options: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a program that trains, whose settings are words of one option."""
    given = {key: value for key, value in options.items() if value is not None}
    settings = {key: given.pop(key) for key in [*given] if key in SETTINGS}
    return [*to_words(given), "--settings", *yaml_files.to_words(settings)]


def finish(ensemble):
    while not ensemble.finished:
        assert ensemble.advance()
    return ensemble


def after(steps: int) -> Callable[[], bool]:
    """Return a question that is answered with no so many times, and then with yes."""
    answers = iter([False] * steps)
    return lambda: next(answers, True)


def assert_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Every array has the same bits, missing numbers included."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
