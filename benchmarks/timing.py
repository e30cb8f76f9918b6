"""Times of methods that take turns, and the ratios of these times."""

import logging
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

Timed: TypeAlias = Callable[[], float]
"""A call that returns the seconds that it took."""

# Threads of a library spin for some milliseconds after work, at the cost of the next method.
REST = 0.1

AGAIN_BELOW = 1.0

log = logging.getLogger("benchmarks")


def stopwatch(function: Callable[[], object]) -> Timed:
    """Return a call that returns the seconds of ``function``, of its second call if it is short.

    The first one pays for what other methods left in the caches.
    """

    def timed() -> float:
        for _ in range(2):
            start = time.perf_counter()
            result = function()
            seconds = time.perf_counter() - start
            del result
            if seconds >= AGAIN_BELOW:
                break
        return seconds

    return timed


def interleaved(
    methods: Mapping[str, Timed], *, rounds: int, most: Mapping[str, int] | None = None
) -> dict[str, list[float]]:
    """Return the times of methods called in turn, A B C A B C …, so that drift hits all alike.

    ``most`` limits the rounds of methods that take too long for all of them.
    """
    limits = {name: min(rounds, (most or {}).get(name, rounds)) for name in methods}
    taken: dict[str, list[float]] = {name: [] for name in methods}
    for number in range(rounds):
        for name, timed in methods.items():
            if number < limits[name]:
                time.sleep(REST)
                taken[name].append(timed())
        last = ", ".join(f"{name} {v[-1]:.3g}" for name, v in taken.items() if len(v) > number)
        log.info("round %d of %d, seconds: %s", number + 1, rounds, last)
    return taken


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return median, least and largest of some values.

    >>> spread([3.0, 1.0, 2.0])
    {'median': 2.0, 'min': 1.0, 'max': 3.0}
    """
    values = list(values)
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratio(over: Sequence[float], under: Sequence[float], *, factor: float = 1) -> dict[str, float]:
    """Return the spread of the ratios round by round, over the rounds that both have.

    >>> ratio([2.0, 6.0, 3.0], [1.0, 2.0])
    {'median': 2.5, 'min': 2.0, 'max': 3.0}
    """
    return spread(factor * a / b for a, b in zip(over, under, strict=False))


def ratios(seconds: Mapping[str, Sequence[float]], under: str) -> dict[str, dict[str, float]]:
    """Return the ratios of all methods to the one that is named."""
    return {name: ratio(taken, seconds[under]) for name, taken in seconds.items() if name != under}
