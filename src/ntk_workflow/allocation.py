"""What a job was given by whoever started it: cores and memory."""

import os
from collections.abc import Mapping

#: What Snakemake takes around the program in a cluster's job, in bytes: two or three processes.
SNAKEMAKE = 10**9


def cores(environ: Mapping[str, str]) -> int:
    """Return the cores that this process may use: those it is bound to, or fewer of Slurm's."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(bound or 1, _number(environ, "SLURM_CPUS_PER_TASK") or bound or 1)


def granted_bytes(environ: Mapping[str, str]) -> list[int]:
    """Return the limit that Slurm sets, if it does, less what Snakemake takes in the same job."""
    grant = 2**20 * _number(environ, "SLURM_MEM_PER_NODE")
    return [max(grant - SNAKEMAKE, grant // 2)] if grant else []


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() else 0
