"""Progress of long work: a bar in a terminal, elsewhere a log line a minute."""

import logging
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from tqdm import tqdm


def progress(
    items: Iterable[Any] | None = None,
    *,
    unit: str,
    log: logging.Logger,
    total: int | None = None,
    done: int = 0,
) -> tqdm:
    """Return a tqdm over items, or one to be updated by hand; ``done`` were so before it began."""
    known: dict[str, Any] = {"total": total, "initial": done, "unit": unit}
    if sys.stderr.isatty():
        return tqdm(items, **known)
    line = "{n_fmt} of {total_fmt} {unit}s{postfix}, {remaining} left"
    if total is None and not hasattr(items, "__len__"):
        line = "{n_fmt} {unit}s{postfix}, {rate_fmt}"

    def write(text: str) -> None:
        if text.strip():
            log.info("%s", text.strip())

    lines = SimpleNamespace(write=write, flush=lambda: None)
    # The delay: no line for work of seconds.
    pace = {"mininterval": 60, "miniters": 1, "delay": 60, "smoothing": 0}
    return tqdm(items, **known, **pace, file=lines, bar_format=line, leave=False)
