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


class Meter:
    """Progress that is told from outside: a bar where someone is looking, else a line a minute.

    ``done`` of ``total`` units count as finished before; the time left follows from the others.
    """

    def __init__(
        self,
        total: int,
        *,
        done: int,
        unit: str,
        log: logging.Logger,
        every: float = 60.0,
    ) -> None:
        self._total, self._first, self._unit = total, done, unit
        self._log, self._every = log, every
        self._start = self._told = time.monotonic()
        looking = sys.stderr.isatty()
        self._bar = tqdm(total=total, initial=done, unit=unit) if looking else None

    def tell(self, done: int, note: str) -> None:
        """Say how many units are done, with a word on the last of them."""
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(done - self._bar.n)
            return
        now = time.monotonic()
        if now - self._told < self._every or done == self._first:
            return
        self._told = now
        left = (now - self._start) / (done - self._first) * (self._total - done)
        self._log.info(
            "%d of %d %ss, %s, %s left", done, self._total, self._unit, note, duration(left)
        )

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()


def duration(seconds: float) -> str:
    """Return a time as hours, minutes and seconds, the larger two of them.

    >>> duration(42), duration(125), duration(7300)
    ('42 s', '2 min 5 s', '2 h 2 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
