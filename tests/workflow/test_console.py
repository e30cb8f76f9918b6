"""What `make demo` shows: a line for each job, errors in full, and where the full log is."""

import os
import re
import subprocess
import sys
from logging import makeLogRecord
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_console import LogHandler
from tests.support.clone import ROOT

LONG = 1000 * "x"
WORKFLOW = f"""
rule all:
    input: expand("{{run}}/{{x}}.txt", run="one", x=[1, 2])
rule make_one:
    output: "{{run}}/{{x}}.txt"
    log: "{{run}}/{{x}}.log"
    shell:
        "echo for the user; echo the reason > {{log}};"
        " : {LONG}; [ {{wildcards.x}} != 2 ]; touch {{output}}"
"""


def test_failures_mistakes_and_a_finished_run(tmp_path):
    snakefile = tmp_path / "Snakefile"
    snakefile.write_text(WORKFLOW)

    def shown(*arguments: str) -> str:
        command = [sys.executable, "-m", "snakemake", "--cores=1", "--logger=console", *arguments]
        where = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": f"{ROOT}/src"}}
        return subprocess.run(command, capture_output=True, text=True, **where).stderr

    failed = shown("--keep-going", "--show-failed-logs")
    assert re.search(r"^\[1/3\] +[\d.]+ s  make_one 1 +about [\d.]+ s left$", failed, re.M)
    assert "Error in rule make_one 2:\n" in failed
    assert "2.log:\n==================\nthe reason\n" in failed
    (log,) = re.findall(r"^Full log: (\.snakemake/log/.*)$", failed, re.M)
    assert LONG in (tmp_path / log).read_text()
    assert LONG not in failed

    snakefile.write_text(WORKFLOW.replace("!= 2", "!= 3"))
    assert "[3/3]" in shown()
    assert re.fullmatch(r"Nothing to be done .*\n", shown())
    snakefile.write_text('raise WorkflowError("no such dataset")')
    assert "no such dataset" in shown()


@pytest.fixture
def console() -> LogHandler:
    return LogHandler(SimpleNamespace(nocolor=True, dryrun=False), None)


def test_a_full_disk_and_ctrl_c_are_one_line(console, capsys):
    for level, message in (
        (40, "Traceback ...\nOSError: [Errno 28] No space left on device: 'x'"),
        (20, "Terminating processes on user request, ..."),
        (40, "RuleException: died with SIGINT"),
    ):
        console.emit(makeLogRecord({"levelno": level, "msg": message}))
    full, stopped = capsys.readouterr().err.splitlines()
    assert full == f"{Path.cwd()}: No space left on device; make room and run again"
    assert stopped == "Stopped; the same command goes on where it was."


def test_what_is_left_follows_from_the_times_of_each_rule(console, capsys):
    def event(event: LogEvent, seconds: float, **fields: object) -> None:
        console.emit(makeLogRecord({"event": event, "created": seconds, "levelno": 20} | fields))

    event(LogEvent.RUN_INFO, 0, stats={"train": 3, "draw": 2, "total": 5})
    wildcards = {"run": "demo", "dataset": "digits", "model": "fc", "activation": "relu"}
    wildcards |= {"depth": "2", "per_seed": "/seed-1"}
    for begin, rule in [(0, "train"), (100, "draw"), (110, "train")]:
        job = {"jobid": begin, "rule_name": rule, "wildcards": wildcards}
        event(LogEvent.JOB_INFO, begin, **job)
    event(LogEvent.JOB_FINISHED, 110, job_id=100)
    event(LogEvent.JOB_FINISHED, 500, job_id=0)
    lines = [re.sub(" +", " ", line) for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "5 jobs",
        # Three of 110 s, as old as one is, and one of 10 s, less 110 s; 120 s of jobs in 110 s.
        "[1/5] 10 s draw digits/fc/relu/depth-2/seed-1 about 4 min left",
        # Two of 500 s and one of 10 s, less the 390 s of one that runs; 900 s of jobs in 500 s.
        "[2/5] 8 min train digits/fc/relu/depth-2/seed-1 about 6 min left",
    ]
