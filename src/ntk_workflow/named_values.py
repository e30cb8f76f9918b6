"""Values as words, NAME=VALUE: how rules give programs parts of the config."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from ntk_conditioning.errors import UserError
from ntk_workflow.yaml_files import LOADER


def to_words(values: Mapping[str, Any]) -> list[str]:
    """Return values as NAME=VALUE, the form in which a person types them.

    >>> to_words({"run": "demo", "depths": [1, 2], "mirror": None, "name": "true"})
    ['run=demo', 'depths=[1, 2]', 'mirror=null', 'name="true"']
    """
    words = []
    for name, value in values.items():
        # a text as it is where YAML reads it as the same text
        plain = isinstance(value, str) and re.fullmatch(r"\w[\w./-]*", value)
        if not (plain and yaml.load(value, LOADER) == value):
            value = json.dumps(value, sort_keys=True)
        words.append(f"{name}={value}")
    return words


def named_values(words: Iterable[str], *, option: str) -> dict[str, Any]:
    """Return the values of an ``option``'s NAME=VALUE words, each read as YAML.

    >>> named_values(["run=demo", "depths=[1, 2]", "mirror=null", "rate=1e-3"], option="--config")
    {'run': 'demo', 'depths': [1, 2], 'mirror': None, 'rate': 0.001}
    """
    values = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise UserError(f"{option}: {word!r} is not of the form NAME=VALUE")
        try:
            values[name] = yaml.load(text, LOADER)
        except yaml.YAMLError:
            raise UserError(f"{option}: {name}: {text!r} is not YAML") from None
    return values
