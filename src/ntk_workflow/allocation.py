"""What a job was given by whoever started it: its cores."""

from __future__ import annotations

import os
from collections.abc import Mapping

# Slurm's own word, for a cluster that does not bind jobs to their cores.
SLURM_CORES = ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE")


def cores(environ: Mapping[str, str]) -> int:
    """Return the cores that this process may use: the least of all limits.

    Those are the cores that it is bound to (macOS binds no process), and Slurm's numbers in
    ``environ`` where they are set (the tasks of a job array have none).
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    granted = [environ.get(name, "") for name in SLURM_CORES]
    return min([bound or 1, *(int(n) for n in granted if n.isdecimal() and int(n))])
