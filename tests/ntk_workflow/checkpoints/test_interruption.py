"""Pauses of long work: when they are due, and what signals to stop do until then."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from ntk_workflow.checkpoints.interruption import Interruption


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets the clock which pauses look at."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def set_to(seconds: float) -> None:
        now[0] = 1000.0 + seconds

    return set_to


def test_a_pause_is_wanted_when_it_is_due(clock):
    interruption = Interruption(every=10)
    seen = []
    for seconds in (0, 9.9, 10, 11):
        clock(seconds)
        seen.append(interruption.wanted())
    assert seen == [False, False, True, True]
    interruption.saved(0.01)
    for seconds, due in ((11, False), (20.9, False), (21, True)):
        clock(seconds)
        assert interruption.wanted() == due


def test_saving_takes_a_hundredth_of_the_time_at_most(clock):
    interruption, seconds, saving = Interruption(every=10), 0.0, 0.0
    for cost in (0.01, 0.1, 1, 3, 3, 0.01):
        while not interruption.wanted():
            seconds += 0.5
            clock(seconds)
        seconds, saving = seconds + cost, saving + cost
        clock(seconds)
        interruption.saved(cost)
        clock(seconds + max(10, 100 * cost) - 0.01)
        assert not interruption.wanted()
        clock(seconds + max(10, 100 * cost) + 0.01)
        assert interruption.wanted()
        clock(seconds)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_noted_inside_and_handled_as_before_outside(number):
    heard: list[int] = []
    before = signal.signal(number, lambda number, _: heard.append(number))
    try:
        handler = signal.getsignal(number)
        with Interruption(every=60) as interruption:
            assert not interruption.wanted()
            signal.raise_signal(number)
            assert interruption.wanted()
            assert (interruption.signal, heard) == (number, [])
        assert signal.getsignal(number) is handler
        signal.raise_signal(number)
        assert heard == [number]
        with pytest.raises(LookupError), Interruption(every=60):
            raise LookupError
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
