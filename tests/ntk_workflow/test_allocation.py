"""A job uses no more cores and memory than it was given, and logs it if it wanted more threads."""

import os

import pytest

from ntk_workflow import allocation, cli


@pytest.fixture
def bound(monkeypatch):
    for name in allocation.SLURM_CORES:
        monkeypatch.delenv(name, raising=False)

    def bind(cores: int) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(cores)}, raising=False)

    return bind


# A Slurm job's cores per task and on the node; a task of a job array has none.
CORES = [((), 8), (("4", "3"), 3), (("2", "3"), 2), (("64",), 8), (("", "0"), 8)]
CORES += [(("4(x2)", "-1"), 8)]


@pytest.mark.parametrize(("granted", "expected"), CORES)
def test_the_smallest_limit_on_cores_counts(bound, monkeypatch, granted, expected):
    bound(8)
    environ = dict(zip(allocation.SLURM_CORES, granted, strict=False))
    assert allocation.cores(environ) == expected
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS binds no process
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert allocation.cores({}) == 6


def test_threads_are_at_most_the_cores_which_is_logged(bound, caplog, monkeypatch):
    def threads(*given: str) -> int:
        parser = cli.Parser("threads")
        return parser.parse_args(given).threads

    caplog.set_level("INFO")
    bound(2)
    assert [threads("--threads=8"), threads("--threads=2"), threads()] == [2, 2, 1]
    bound(8)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert threads("--threads=8") == 3
    assert caplog.messages == [f"8 threads asked for, {n} given: using {n}" for n in (2, 3)]
    for given in ("0", "-1", "two"):
        with pytest.raises(cli.UsageError, match="argument --threads"):
            threads(f"--threads={given}")


GRANTED = [
    ({"SLURM_MEM_PER_NODE": "3000"}, [3000 * 2**20 - 10**9]),  # less what Snakemake takes
    ({"SLURM_MEM_PER_NODE": "1000"}, [500 * 2**20]),
    ({"SLURM_MEM_PER_NODE": "0"}, []),  # no limit
    ({"SLURM_MEM_PER_NODE": "much"}, []),
    ({"SLURM_MEM_PER_CPU": "300", "SLURM_CPUS_ON_NODE": "4"}, [600 * 2**20]),
    ({"SLURM_MEM_PER_CPU": "300"}, []),
    ({"SLURM_CPUS_ON_NODE": "4"}, []),
]


@pytest.mark.parametrize(("environ", "expected"), GRANTED)
def test_what_slurm_has_granted_counts(environ, expected):
    assert allocation.granted_bytes(environ) == expected
