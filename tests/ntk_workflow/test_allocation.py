"""A job uses no more cores and memory than it was given."""

import math
import os

import pytest

from ntk_workflow import allocation, cli


def test_threads_are_at_most_the_cores_that_are_given(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(8)}, raising=False)
    for granted, given in (("3", 3), ("64", 8)):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", granted)
        assert cli.threads_given("12") == given
    monkeypatch.delenv("SLURM_CPUS_PER_TASK")
    assert cli.threads_given("12") == 8
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS binds no process
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert allocation.cores() == 6


# What Slurm says, in MB, and what is left beside Snakemake; 0 is no limit.
GRANTED = [("3000", 3000 * 2**20 - 10**9), ("1000", 500 * 2**20), ("0", math.inf)]


@pytest.mark.parametrize(("megabytes", "expected"), GRANTED)
def test_what_slurm_has_granted_counts(megabytes, expected, monkeypatch):
    monkeypatch.setenv("SLURM_MEM_PER_NODE", megabytes)
    assert allocation.granted_bytes() == expected
