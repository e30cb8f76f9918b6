"""Values as words, NAME=VALUE: how rules give programs parts of the config."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import yaml

from ntk_conditioning.errors import UserError
from ntk_workflow.yaml_files import LOADER


def to_words(values: Mapping[str, Any]) -> list[str]:
    """Return values as NAME=VALUE, the form in which a person types them; `from_words` reads it.

    >>> to_words({"run": "demo", "depths": [1, 2], "mirror": None})
    ['run=demo', 'depths=[1, 2]', 'mirror=null']
    """
    return [f"{key}={_text(value)}" for key, value in values.items()]


def from_words(words: Iterable[str]) -> dict[str, Any]:
    """Return the values of NAME=VALUE, each read as YAML; `ValueError` if they are something else.

    >>> from_words(["run=demo", "depths=[1, 2]", "mirror=null", "rate=1e-3"])
    {'run': 'demo', 'depths': [1, 2], 'mirror': None, 'rate': 0.001}
    """
    values = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise ValueError(f"{word!r} is not of the form NAME=VALUE")
        try:
            values[name] = yaml.load(text, LOADER)
        except yaml.YAMLError:
            raise ValueError(f"{name}: {text!r} is not YAML") from None
    return values


def named_values(words: Iterable[str], *, option: str) -> dict[str, Any]:
    """Return the values of an ``option``'s NAME=VALUE words; `UserError` if they are no such."""
    try:
        return from_words(words)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None


def _text(value: Any) -> str:
    """Return a value as YAML: a text as it is where YAML reads it as the same text."""
    if isinstance(value, str) and "=" not in value:
        with suppress(yaml.YAMLError):
            if yaml.load(value, LOADER) == value:
                return value
    return json.dumps(value, sort_keys=True)
