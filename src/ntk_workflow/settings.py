"""Settings that travel together from the config to a program: one dataclass, one way to write it.

`to_options` writes a dataclass as command-line options, `add_arguments` and `from_arguments` read
it back, so that a rule, its program and the program's help cannot drift apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

Settings = TypeVar("Settings")


@dataclass(frozen=True)
class Option:
    """How a field is read from the command line; see `option`."""

    help: str
    type: Callable[[str], Any] | None = None
    choices: Sequence[str] | None = None
    many: bool | int = False


def option(help: str, *, default: Any = MISSING, **how: Any) -> Any:
    """Return a dataclass field with its command-line option; ``how`` as in `Option`."""
    return field(default=default, metadata={"option": Option(help, **how)})


def to_options(settings: Any) -> list[str]:
    """Return settings as command-line options; what has its default is left out.

    Args:
        settings: an instance of a dataclass whose fields are made with `option`.

    >>> @dataclass(frozen=True)
    ... class Descent:
    ...     steps: int = option("steps of gradient descent")
    ...     decay_at: tuple[int, ...] = option("epochs", default=(), many=True)
    ...     tf32: bool = option("round to TF32", default=False)
    >>> to_options(Descent(5, decay_at=(1, 2)))
    ['--steps', '5', '--decay-at', '1', '2']
    """
    words: list[str] = []
    for each in fields(settings):
        value = getattr(settings, each.name)
        if value == each.default:
            continue
        name = f"--{each.name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(name)
        elif isinstance(value, list | tuple):
            words += [name, *map(str, value)]
        else:
            words += [name, str(value)]
    return words


def add_arguments(parser: argparse.ArgumentParser, cls: type[Any]) -> None:
    """Add an option for each field of a dataclass to a parser; a Literal's values are choices."""
    hints = get_type_hints(cls)
    for each in fields(cls):
        how: Option = each.metadata["option"]
        given: dict[str, Any] = {"help": how.help}
        if each.default is MISSING:
            given["required"] = True
        else:
            given["default"] = each.default
            given["help"] += _default(each.default)
        if each.default is False:
            given["action"] = "store_true"
        else:
            literal = get_origin(hints[each.name]) is Literal
            choices = get_args(hints[each.name]) if literal else how.choices
            given |= {"type": how.type} if how.type else {}
            given |= {"choices": choices} if choices else {}
            given |= {"nargs": "+" if how.many is True else how.many} if how.many else {}
        parser.add_argument(f"--{each.name.replace('_', '-')}", **given)


def _default(value: Any) -> str:
    """Return what a help text says about a default."""
    if value is None or value is False or value == ():
        return ""
    words = value if isinstance(value, tuple) else [value]
    return f" (default: {' '.join(map(str, words))})"


def from_arguments(cls: type[Settings], args: argparse.Namespace) -> Settings:
    """Return the dataclass from parsed arguments; several values are a tuple."""
    values = {each.name: getattr(args, each.name) for each in fields(cls)}  # type: ignore[arg-type]
    return from_mapping(cls, values)


def from_mapping(cls: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Return the dataclass from the keys of a mapping that are its fields; lists become tuples."""
    names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
    known = {name: values[name] for name in names if name in values}
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()})
