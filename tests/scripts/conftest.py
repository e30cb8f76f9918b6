"""What tests of programs share: a mistake is one line, and nothing is written."""

import re
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> None:
    """The empty folder in which a program runs."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def refusal(capsys):
    """Return a function that calls a program with a mistake and returns the one line of error."""

    def refuse(program, arguments) -> str:
        before = {*Path().rglob("*")}
        capsys.readouterr()
        assert program.main([*map(str, arguments)]) == 2
        out, err = capsys.readouterr()
        *log, line = err.splitlines()  # of the log, with the time
        assert all(re.match(r"\d\d:\d\d:\d\d ", each) for each in log), err
        assert not out
        assert {*Path().rglob("*")} == before
        start = f"{program.__name__}: error: "
        assert line.startswith(start)
        return line.removeprefix(start)

    return refuse
