"""Settings that travel together from the config to a program: one dataclass, one way to write it.

`to_options` writes a dataclass as command-line options, `add_arguments` and `from_mapping` read it
back, so that a rule, its program and the program's help cannot drift apart.
"""

import argparse
from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

Settings = TypeVar("Settings")


def option(help: str, *, default: Any = MISSING, **how: Any) -> Any:
    """Return a dataclass field with its command-line option.

    ``how`` may have the option's type, its choices, and many: True or how many values it takes.
    """
    return field(default=default, metadata={"help": help, **how})


def words(name: str, value: Any) -> list[str]:
    """Return an option as words of a command line.

    >>> words("kernel_size", 512), words("decay_at", (1, 2)), words("tf32", True)
    (['--kernel-size', '512'], ['--decay-at', '1', '2'], ['--tf32'])
    """
    if value is False:
        return []
    values = value if isinstance(value, list | tuple) else [] if value is True else [value]
    return [f"--{name.replace('_', '-')}", *map(str, values)]


def to_options(settings: Any) -> list[str]:
    """Return settings as command-line options; what has its default is left out.

    ``settings`` is of a dataclass whose fields are made with `option`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Descent:
    ...     steps: int = option("steps of gradient descent")
    ...     decay_at: tuple[int, ...] = option("epochs", default=(), many=True)
    >>> to_options(Descent(5, decay_at=(1, 2)))
    ['--steps', '5', '--decay-at', '1', '2']
    """
    given = [(each.name, getattr(settings, each.name), each.default) for each in fields(settings)]
    return [
        word for name, value, default in given if value != default for word in words(name, value)
    ]


def add_arguments(parser: argparse.ArgumentParser, cls: type[Any]) -> None:
    """Add an option for each field of a dataclass to a parser; a Literal's values are choices."""
    hints = get_type_hints(cls)
    for each in fields(cls):
        given = dict(each.metadata)
        many = given.pop("many", False)
        if each.default is MISSING:
            given["required"] = True
        else:
            given["default"] = each.default
            default = " ".join(words("default", each.default)[1:])
            given["help"] += f" (default: {default})" if default not in ("", "None") else ""
        if each.default is False:
            given["action"] = "store_true"
        elif many:
            given["nargs"] = "+" if many is True else many
        if get_origin(hints[each.name]) is Literal:
            given["choices"] = get_args(hints[each.name])
        parser.add_argument(f"--{each.name.replace('_', '-')}", **given)


def from_mapping(cls: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Return the dataclass from the keys of a mapping that are its fields; lists become tuples."""
    names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
    known = {name: values[name] for name in names if name in values}
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()})
