"""A job uses no more cores than it was given, and logs when it was asked for more threads."""

import os

import pytest

from ntk_workflow import allocation, cli


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
        ({"SLURM_CPUS_PER_TASK": "4", "SLURM_CPUS_ON_NODE": "3"}, 3),
        ({"SLURM_CPUS_PER_TASK": "2", "SLURM_CPUS_ON_NODE": "3"}, 2),
        ({"SLURM_CPUS_PER_TASK": "64"}, 8),
        ({"SLURM_CPUS_PER_TASK": "", "SLURM_CPUS_ON_NODE": "0"}, 8),
        ({"SLURM_CPUS_PER_TASK": "4(x2)", "SLURM_CPUS_ON_NODE": "-1"}, 8),
        ({"SLURM_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "2"}, 8),  # a task of a job array
    ],
)
def test_the_smallest_limit_on_cores_counts(bound, environ, expected):
    bound(8)
    assert allocation.cores(environ) == expected


def test_a_system_that_binds_no_process_gives_all_of_its_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert allocation.cores({}) == 6


def threads(*given: str) -> int:
    parser = cli.Parser()
    cli.threads_argument(parser)
    return int(parser.parse_args(given).threads)


def test_threads_are_at_most_the_cores_which_is_logged(bound, caplog, monkeypatch):
    caplog.set_level("INFO")
    bound(2)
    assert [threads("--threads=8"), threads("--threads=2"), threads()] == [2, 2, 1]
    bound(8)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert threads("--threads=8") == 3
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [f"8 threads asked for, {n} given: using {n}" for n in (2, 3)]
    for given in ("0", "-1", "two"):
        with pytest.raises(cli.UsageError, match="argument --threads"):
            threads(f"--threads={given}")
