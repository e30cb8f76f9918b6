"""Progress of long work: a bar where someone is looking, else a log line a minute."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

_T = TypeVar("_T")


def progress(
    items: Iterable[_T],
    *,
    unit: str,
    log: logging.Logger,
    total: int | None = None,
    every: float = 60.0,
) -> Iterator[_T]:
    """Yield the items and tell how many there were, every ``every`` seconds in a log."""
    if sys.stderr.isatty():
        yield from tqdm(items, total=total, unit=unit)
        return
    start = told = time.monotonic()
    for count, item in enumerate(items):
        now = time.monotonic()
        if now - told >= every:
            told = now
            share = f" of {total}" if total else ""
            log.info("%d%s %ss, %.1f a second", count, share, unit, count / (now - start))
        yield item
