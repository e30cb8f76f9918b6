"""What a job was given by whoever started it: cores and memory."""

import math
import os

#: What Snakemake takes around the program in a cluster's job, in bytes: two or three processes.
SNAKEMAKE = 10**9


def cores() -> int:
    """Return the cores that this process may use: those it is bound to, or fewer of Slurm's."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(bound or 1, int(os.environ.get("SLURM_CPUS_PER_TASK", bound or 1)))


def granted_bytes() -> float:
    """Return the limit that Slurm sets, if it does, less what Snakemake takes in the same job."""
    grant = 2**20 * int(os.environ.get("SLURM_MEM_PER_NODE", 0))  # 0: all that there is
    return max(grant - SNAKEMAKE, grant // 2) if grant else math.inf
