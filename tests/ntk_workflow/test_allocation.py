"""A job uses no more cores than it was given, and tells when it was asked for more threads."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ntk_workflow import allocation, cli

SRC = Path(cli.__file__).parents[1]
SCRIPTS = SRC.parent / "scripts"


@pytest.fixture
def bound(monkeypatch):
    """Bind this process to so many cores, as the system tells it."""
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    monkeypatch.delenv("SLURM_CPUS_ON_NODE", raising=False)

    def bind(cores: int) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(cores)}, raising=False)

    return bind


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, 8),
        ({"SLURM_CPUS_PER_TASK": "2"}, 2),
        ({"SLURM_CPUS_ON_NODE": "3"}, 3),
        ({"SLURM_CPUS_PER_TASK": "4", "SLURM_CPUS_ON_NODE": "3"}, 3),
        ({"SLURM_CPUS_PER_TASK": "2", "SLURM_CPUS_ON_NODE": "3"}, 2),
        ({"SLURM_CPUS_PER_TASK": "64"}, 8),
        ({"SLURM_CPUS_PER_TASK": "", "SLURM_CPUS_ON_NODE": "0"}, 8),
        ({"SLURM_CPUS_PER_TASK": "4(x2)", "SLURM_CPUS_ON_NODE": "-1"}, 8),
        ({"SLURM_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "2"}, 8),  # a task of a job array
    ],
)
def test_the_fewest_cores_that_anyone_tells_count(bound, environ, expected):
    bound(8)
    assert allocation.cores(environ) == expected


def test_a_system_that_binds_no_process_gives_all_of_its_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert allocation.cores({}) == 6
    assert allocation.cores({"SLURM_CPUS_PER_TASK": "2"}) == 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no process can be bound here")
def test_a_process_that_is_bound_to_a_core_has_one():
    core = min(os.sched_getaffinity(0))
    program = (
        f"import os, sys; sys.path.insert(0, {str(SRC)!r}); os.sched_setaffinity(0, {{{core}}})"
        "; from ntk_workflow import allocation; print(allocation.cores({}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"


def threads(*given: str) -> int:
    parser = cli.Parser()
    cli.threads_argument(parser)
    return int(parser.parse_args(given).threads)


@pytest.mark.parametrize(("asked", "used", "told"), [(8, 2, True), (3, 2, True), (2, 2, False)])
def test_more_threads_than_cores_are_not_used_and_told_once(bound, caplog, asked, used, told):
    bound(2)
    caplog.set_level("INFO")
    assert threads(f"--threads={asked}") == used
    line = f"{asked} threads asked for, 2 given: using 2"
    assert [record.getMessage() for record in caplog.records] == [line] * told


def test_fewer_threads_than_cores_are_as_asked_for(bound):
    bound(8)
    assert threads("--threads=3") == 3
    assert threads() == 1


def test_slurm_limits_the_threads_of_a_program(bound, monkeypatch):
    bound(8)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")
    assert threads("--threads=8") == 2


@pytest.mark.parametrize("given", ["0", "-1", "two"])
def test_threads_that_are_none_are_refused(given):
    with pytest.raises(cli.UsageError, match="argument --threads"):
        threads(f"--threads={given}")


@pytest.mark.parametrize(
    "path", sorted([*SCRIPTS.glob("*.py"), *SRC.rglob("*.py")]), ids=lambda path: path.name
)
def test_threads_are_taken_in_one_way(path):
    """What programs are given is limited in one place, and pools have no other size than that."""
    source = path.read_text(encoding="utf-8")
    assert source.count('"--threads"') == (path == Path(cli.__file__))
    pools = [
        ast.unparse(node.args[0])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and re.search("PoolExecutor$", ast.unparse(node.func))
    ]
    assert set(pools) <= {"threads"}
