"""Progress of long work: a bar in a terminal, elsewhere a log line a minute."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm


class _Lines:
    """A file for tqdm that writes what it prints to a log."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def write(self, text: str) -> None:
        if line := text.strip():
            self._log.info("%s", line)

    def flush(self) -> None: ...


def progress(
    items: Iterable[Any] | None = None,
    *,
    unit: str,
    log: logging.Logger,
    total: int | None = None,
    done: int = 0,
) -> tqdm:
    """Return a tqdm over items, or one to be updated by hand, which shows how many are done.

    The time left follows from the units done since the start, without the ``done`` before it.
    """
    known = {"total": total, "initial": done, "unit": unit}
    if sys.stderr.isatty():
        return tqdm(items, **known)
    line = "{n_fmt} of {total_fmt} {unit}s{postfix}, {remaining} left"
    if total is None and not hasattr(items, "__len__"):
        line = "{n_fmt} {unit}s{postfix}, {rate_fmt}"
    # The delay: no line for work of seconds.
    pace = {"mininterval": 60, "miniters": 1, "delay": 60, "smoothing": 0}
    return tqdm(items, **known, **pace, file=_Lines(log), bar_format=line, leave=False)
