"""A job uses no more cores and memory than it was given, and logs it if it wanted more threads."""

import os

import pytest

from ntk_workflow import allocation, cli


def test_threads_are_at_most_the_cores_that_are_given_which_is_logged(monkeypatch, caplog):
    parser = cli.Parser("threads")
    caplog.set_level("INFO")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(8)}, raising=False)
    for granted, given in (("", 8), ("3", 3), ("64", 8), ("4(x2)", 8)):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", granted)
        assert parser.parse_args(["--threads=12"]).threads == given
        assert caplog.messages[-1] == f"12 threads asked for, {given} given: using {given}"
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS binds no process
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert allocation.cores({}) == 6
    assert parser.parse_args([]).threads == 1
    for bad in ("0", "-1", "two"):
        with pytest.raises(cli.UsageError, match="argument --threads"):
            parser.parse_args([f"--threads={bad}"])


# What Slurm says, in MB, and what is left beside Snakemake; 0 is no limit.
GRANTED = [("3000", [3000 * 2**20 - 10**9]), ("1000", [500 * 2**20]), ("0", []), ("much", [])]


@pytest.mark.parametrize(("megabytes", "expected"), GRANTED)
def test_what_slurm_has_granted_counts(megabytes, expected):
    assert allocation.granted_bytes({"SLURM_MEM_PER_NODE": megabytes}) == expected
