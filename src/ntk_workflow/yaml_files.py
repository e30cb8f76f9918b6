"""YAML as people mean it, in files and in words of a command, with a mistake as one line."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ntk_conditioning.errors import UserError, one_line

_Loader: Any = yaml.CSafeLoader  # papers' claims are thousands of lines
_NUMBERS = {
    "int": r"[-+]?(0|[1-9]\d*)",
    "float": r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+|[-+]?\.inf|\.nan",
}


class LOADER(_Loader):  # type: ignore[misc]
    """Reads 1e-3 as a number; 010, 1:30 and 2001-01-02, other numbers to YAML 1.1, are texts."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        """Return a mapping without keys that are repeated, of which YAML takes the last."""
        lines: dict[str, int] = {}
        for key, _ in node.value:
            problem = ""
            if not key.tag.endswith((":str", ":merge")):
                problem = "this key is no text; put it in quotes"
            elif key.value in lines:
                problem = f"the key {key.value!r} is in line {lines[key.value]} already"
            if problem:
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            lines[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


LOADER.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0].endswith((":bool", ":null", ":merge"))]
    for first, pairs in _Loader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in _NUMBERS.items():
    LOADER.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"({_pattern})$"), list("-+.0123456789")
    )


def read_yaml(path: str | Path, *, trusted: bool = True) -> Any:
    """Return the content of a YAML file; `UserError`, with file and line, if it is none.

    One that is not trusted has no aliases, which may stand for gigabytes.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        if not trusted and any(isinstance(e, yaml.AliasEvent) for e in yaml.parse(text, _Loader)):
            raise UserError(f"{path}: it has aliases; a record has none")
        return yaml.load(text, LOADER)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8; is it a text file?") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} " if mark else ""
        problem = getattr(error, "problem", None) or one_line(error)
        raise UserError(f"{path}: {where}not valid YAML: {problem}") from error


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
