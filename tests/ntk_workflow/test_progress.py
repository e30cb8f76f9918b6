"""Progress is a bar on a terminal, else a line a minute with the time that is left."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from ntk_workflow import progress
from ntk_workflow.progress import Meter


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records]


LOG = logging.getLogger("meter")


def test_progress_is_a_line_a_minute_with_the_time_that_is_left(clock, logged):
    meter = Meter(10, done=2, unit="epoch", log=LOG)
    for done, seconds in ((2, 70), (3, 71), (4, 90), (5, 130), (6, 131), (8, 240)):
        clock(seconds)
        meter.tell(done, f"loss {done / 10}")
    meter.close()
    assert logged() == [
        "3 of 10 epochs, loss 0.3, 8 min 17 s left",  # one took 71 s, seven are left
        "6 of 10 epochs, loss 0.6, 2 min 11 s left",
        "8 of 10 epochs, loss 0.8, 1 min 20 s left",
    ]


def test_in_the_first_minute_no_line_is_told(clock, logged):
    meter = Meter(10, done=0, unit="epoch", log=LOG)
    clock(59.9)
    meter.tell(9, "fast")
    assert logged() == []
    clock(60)
    meter.tell(9, "fast")
    assert logged() == ["9 of 10 epochs, fast, 7 s left"]


def test_every_call_tells_if_asked_to(logged):
    meter = Meter(3, done=0, unit="epoch", log=LOG, every=0)
    for done in (0, 1, 2, 3):
        meter.tell(done, "note")
    assert [line.split(", ")[0] for line in logged()] == [f"{k} of 3 epochs" for k in (1, 2, 3)]
    assert logged()[-1] == "3 of 3 epochs, note, 0 s left"


def test_where_someone_is_looking_there_is_a_bar_instead(monkeypatch, capsys, logged):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    meter = Meter(10, done=4, unit="epoch", log=LOG, every=0)
    meter.tell(10, "loss 0.5")
    meter.close()
    assert logged() == []
    assert "10/10" in capsys.readouterr().err
