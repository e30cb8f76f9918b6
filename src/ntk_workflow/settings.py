"""Values of the config as options of a command line."""

from typing import Any


def words(name: str, value: Any) -> list[str]:
    """Return an option as words of a command line.

    >>> words("kernel_size", 512), words("decay_at", (1, 2)), words("tf32", True)
    (['--kernel-size', '512'], ['--decay-at', '1', '2'], ['--tf32'])
    """
    if value is False:
        return []
    values = value if isinstance(value, list | tuple) else [] if value is True else [value]
    return [f"--{name.replace('_', '-')}", *map(str, values)]
