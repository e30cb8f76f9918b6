"""Settings that travel from the config to a program: a dataclass, as command-line options."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

Settings = TypeVar("Settings")


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
    """Return a dataclass as command-line options; fields that have their default are left out.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Descent:
    ...     steps: int
    ...     decay_at: tuple[int, ...] = ()
    >>> to_options(Descent(5, decay_at=(1, 2)))
    ['--steps', '5', '--decay-at', '1', '2']
    """
    changed = [f.name for f in fields(settings) if getattr(settings, f.name) != f.default]
    return [word for name in changed for word in words(name, getattr(settings, name))]


def from_mapping(cls: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Return the dataclass from the keys of a mapping that are its fields; lists become tuples."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    known = {name: values[name] for name in names if name in values}
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()})
