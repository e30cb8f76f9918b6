"""When long work is to pause: at a signal to stop, or because its state is due to be saved."""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType
from typing import Any

#: A scheduler that ends a job sends the first and waits half a minute; a user's Ctrl-C the second.
SIGNALS = (signal.SIGTERM, signal.SIGINT)

# Saving takes at most one part in so many of the time.
SHARE = 100


class Interruption:
    """A question that work asks after every step: is it to pause?

    A context in which signals to stop are only noted. A pause is due ``every`` seconds after the
    last, or later where saving takes more than a hundredth of that time.
    """

    def __init__(self, *, every: float) -> None:
        self._every = every
        self._due = time.monotonic() + every
        self._before: dict[int, Any] = {}
        self.signal: int | None = None

    def __enter__(self) -> Interruption:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wanted(self) -> bool:
        """Return whether to pause."""
        return self.signal is not None or time.monotonic() >= self._due

    def saved(self, seconds: float) -> None:
        """Say that the state has been saved, and how long that took."""
        self._due = time.monotonic() + max(self._every, SHARE * seconds)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
