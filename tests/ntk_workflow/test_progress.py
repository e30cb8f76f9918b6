"""Progress is a bar in a terminal and a log line a minute elsewhere."""

import logging

from ntk_workflow.progress import progress

LOG = logging.getLogger("progress")


def test_a_line_a_minute_with_the_time_that_is_left(monkeypatch, caplog):
    caplog.set_level("INFO")
    now = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    bar = progress(total=10, done=2, unit="epoch", log=LOG)
    for done, now[0] in ((2, 70), (3, 71), (4, 90), (5, 130), (6, 131), (8, 240)):
        bar.set_postfix_str(f"loss {done / 10}", refresh=False)
        bar.update(done - bar.n)
    bar.close()
    for items in (range(50), [1, 2, 3], iter([1, 2, 3])):
        now[0] = 0
        for item in progress(items, unit="cell", log=LOG):
            now[0] = item * (1 if items == range(50) else 50)
    assert caplog.messages == [
        "3 of 10 epochs, loss 0.3, 08:17 left",  # one took 71 s, seven are left
        "6 of 10 epochs, loss 0.6, 02:11 left",
        "8 of 10 epochs, loss 0.8, 01:20 left",
        "2 of 3 cells, 00:50 left",  # work of seconds needs no line
        "2 cells, 50.00s/cell",
    ]


def test_in_a_terminal_there_is_a_bar_instead(monkeypatch, capsys):
    monkeypatch.setattr("ntk_workflow.progress.sys.stderr.isatty", lambda: True, raising=False)
    with progress(total=10, done=4, unit="epoch", log=LOG) as bar:
        bar.update(6)
    assert "10/10" in capsys.readouterr().err
