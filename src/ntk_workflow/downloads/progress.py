"""How far a download is: a bar on a terminal, elsewhere a line in the log now and then."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from tqdm import tqdm

log = logging.getLogger(__name__)


class Progress:
    """A bar on a terminal; elsewhere a line in the log now and then."""

    def __init__(self, name: str, done: int, total: int | None, *, report: float) -> None:
        self.name, self.done, self.total, self.report = name, done, total, report
        self.start, self.came = time.monotonic(), 0
        self.bar = None
        if sys.stderr.isatty():  # a bar that is disabled would start a thread all the same
            self.bar = tqdm(
                desc=name, initial=done, total=total, unit="B", unit_scale=True, leave=False
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.close()

    def watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        told = self.start
        for chunk in chunks:
            yield chunk
            self.came += len(chunk)
            if self.bar is not None:
                self.bar.update(len(chunk))
            elif (now := time.monotonic()) - told >= self.report:
                told = now
                self._tell(now)

    def _tell(self, now: float) -> None:
        log.info(
            "%s: %s of %s bytes, %s/s",
            self.name,
            self.done + self.came,
            "unknown" if self.total is None else self.total,
            tqdm.format_sizeof(self.came / (now - self.start), "B"),
        )
