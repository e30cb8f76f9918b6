"""What a job was given by whoever started it: cores and memory."""

import os
from collections.abc import Mapping

# Slurm's own word, for a cluster that does not bind jobs to their cores.
SLURM_CORES = ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE")

#: What Snakemake takes around the program in a cluster's job, in bytes: two or three processes.
SNAKEMAKE = 10**9


def cores(environ: Mapping[str, str]) -> int:
    """Return the cores that this process may use: the least of all limits.

    Those are the cores that it is bound to (macOS binds no process), and Slurm's numbers in
    ``environ`` where they are set (the tasks of a job array have none).
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    granted = [environ.get(name, "") for name in SLURM_CORES]
    return min([bound or 1, *(int(n) for n in granted if n.isdecimal() and int(n))])


def granted_bytes(environ: Mapping[str, str]) -> list[int]:
    """Return the memory that Slurm grants a program, by each of its settings that is a limit.

    Less what Snakemake takes in the same job, or half of the grant if that is more.

    >>> granted_bytes({"SLURM_MEM_PER_NODE": "3000"})
    [2145728000]
    """

    def number(name: str) -> int:  # 0 is no limit
        text = environ.get(name, "")
        return int(text) if text.isdecimal() else 0

    by_cpu = number("SLURM_MEM_PER_CPU") * number("SLURM_CPUS_ON_NODE")
    grants = (2**20 * megabytes for megabytes in (number("SLURM_MEM_PER_NODE"), by_cpu))
    return [max(grant - SNAKEMAKE, grant // 2) for grant in grants if grant]
