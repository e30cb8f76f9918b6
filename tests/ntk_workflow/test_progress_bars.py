"""Progress is a bar in a terminal and a line a minute elsewhere."""

import re

from ntk_workflow import progress_bars


def test_a_log_has_a_line_a_minute_with_the_time_that_is_left(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    bar = progress_bars.progress(total=10, initial=2, unit="epoch")
    for done, seconds in ((2, 50), (3, 71), (4, 90), (5, 130), (6, 131), (8, 240)):
        now[0] = seconds
        bar.set_postfix_str(f"loss {done / 10}", refresh=False)
        bar.update(done - bar.n)
    bar.close()
    lines = re.findall(r"(\d+)/10 .*?<(\d\d:\d\d),.*? loss (0.\d)", capsys.readouterr().err)
    # one took 71 s, seven are left
    assert lines[:3] == [("3", "08:17", "0.3"), ("6", "02:11", "0.6"), ("8", "01:20", "0.8")]


def test_a_terminal_has_a_bar_at_once_and_a_log_none_for_work_of_seconds(monkeypatch, capsys):
    for terminal in (False, True):
        monkeypatch.setattr(
            progress_bars.sys.stderr, "isatty", lambda it=terminal: it, raising=False
        )
        for _ in progress_bars.progress([1, 2, 3], unit="cell"):
            pass
        assert ("3/3" in capsys.readouterr().err) == terminal
