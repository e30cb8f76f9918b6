"""What a job was given by whoever started it: its cores."""

from __future__ import annotations

import os
from collections.abc import Mapping

# Slurm's own word, for a cluster that does not bind jobs to their cores.
SLURM_CORES = ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE")


def cores(environ: Mapping[str, str]) -> int:
    """Return the cores that this process may use: the fewest that anyone tells.

    Those are the cores that it is bound to, and Slurm's numbers in ``environ`` where they are set
    (the tasks of a job array, as Snakemake starts them, have none).
    """
    told = [environ.get(name, "") for name in SLURM_CORES]
    numbers = [int(text) for text in told if text.isdecimal()]
    return min([_bound_to(), *filter(None, numbers)])


def _bound_to() -> int:
    if not hasattr(os, "sched_getaffinity"):  # macOS binds no process
        return os.cpu_count() or 1
    return len(os.sched_getaffinity(0))
