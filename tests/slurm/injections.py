"""What happens to jobs on a cluster, made to happen: each function does it to one running job."""

import contextlib
import os
import signal
import time
from pathlib import Path

from tests.slurm.cluster import Cluster


def cancel(cluster: Cluster, job: str) -> None:
    """Let a user cancel a job: SIGTERM, then SIGKILL after KillWait."""
    cluster.command("scancel", job)


def end_time(cluster: Cluster, job: str) -> None:
    """Let a job reach its time limit: the same signals, when Slurm next looks at its clock."""
    cluster.command("scontrol", "update", f"JobId={job}", "EndTime=now+1second", check=False)


def preempt(cluster: Cluster, job: str) -> None:
    """Let a job make room for another one, as in a partition with PreemptMode=REQUEUE."""
    cluster.command("scontrol", "requeue", job, check=False)


def restart_node(cluster: Cluster) -> None:
    """Let the node lose power and come back: all that runs on it dies at once, without a signal."""
    for pid in node_processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    cluster.stop_daemon("slurmd", signal.SIGKILL)
    time.sleep(2)
    cluster.start_daemon("slurmd")


def hurry(cluster: Cluster) -> None:
    """Start requeued jobs now: Slurm would wait two minutes."""
    for job in cluster.queue("--states=PENDING"):
        cluster.command("scontrol", "update", f"JobId={job['JobID']}", "StartTime=now", check=False)


def node_processes() -> list[int]:
    """Return the processes of all jobs: Slurm's around them and everything below those."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            parents[int(folder.name)] = int(rest.split()[1])
            names[int(folder.name)] = name
    pids = {pid for pid, name in names.items() if name.startswith("slurmstepd")}
    while below := {pid for pid, parent in parents.items() if parent in pids} - pids:
        pids |= below
    return sorted(pids)
