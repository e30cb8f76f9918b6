"""Values as words, NAME=VALUE: how rules give programs parts of the config."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import yaml

from ntk_conditioning.errors import UserError


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads 1e-05 as the number that Python and JSON mean by it; to YAML 1.1 it is a text."""


_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


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
            values[name] = yaml.load(text, _Loader)
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
            if yaml.load(value, _Loader) == value:
                return value
    return json.dumps(value, sort_keys=True)
