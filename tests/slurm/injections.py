"""What happens to jobs on a cluster, made to happen: each function does it to one running job."""

import contextlib
import os
import re
import signal
from datetime import datetime, timedelta
from pathlib import Path

import psutil

from tests.slurm.cluster import Cluster


def hold(cluster: Cluster, job: str, *, catches: int = 0) -> bool:
    """Stop a job where it is if its program runs, and return whether it does.

    Slurm lets its processes go on when it ends the job: it sends SIGCONT with SIGTERM. What is in
    ``catches`` are signals that the program must have a handler for, as bits.
    """
    lines = cluster.command("scontrol", "listpids", job, check=False).splitlines()
    pids = [int(line.split()[0]) for line in lines[1:]]
    if not any(_program_runs(Path(f"/proc/{pid}"), catches) for pid in pids):
        return False
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    return True


def _program_runs(process: Path, catches: int) -> bool:
    with contextlib.suppress(OSError):
        if b"\0scripts/" in (process / "cmdline").read_bytes():
            mask = re.search(r"^SigCgt:\s*(\w+)", (process / "status").read_text(), re.MULTILINE)
            return int(mask[1], 16) & catches == catches
    return False


def cancel(cluster: Cluster, job: str) -> None:
    """Let a user cancel a job: SIGTERM, then SIGKILL after KillWait."""
    cluster.command("scancel", job)


def end_time(cluster: Cluster, job: str) -> None:
    """Let a job reach its time limit: the same signals, when Slurm next looks, every 30 seconds."""
    cluster.command("scontrol", "update", f"JobId={job}", "EndTime=now+1second", check=False)


def preempt(cluster: Cluster, job: str) -> None:
    """Let a job make room for another one, as in a partition with PreemptMode=REQUEUE."""
    cluster.command("scontrol", "requeue", job, check=False)


def restart_node(cluster: Cluster, _job: str = "") -> None:
    """Let the node lose power and come back: all that runs on it dies at once, without a signal."""
    for step in psutil.process_iter(["name"]):
        # processes may end while one looks at them
        with contextlib.suppress(psutil.NoSuchProcess):
            if (step.info["name"] or "").startswith("slurmstepd"):
                below = step.children(recursive=True)
                step.kill()
                for process in below:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
    cluster.stop_daemon("slurmd", signal.SIGKILL)
    cluster.start_daemon("slurmd")
    for state in ("DOWN", "RESUME"):  # Slurm would notice after up to a minute
        node = f"NodeName={cluster.node}"
        # its daemon may have brought it back before it is resumed
        words = ("scontrol", "update", node, f"State={state}", "Reason=power")
        cluster.command(*words, check=state == "DOWN")


def hurry(cluster: Cluster) -> None:
    """Start requeued jobs now: Slurm would wait two minutes."""
    for job in cluster.queue("--states=PENDING"):
        # In the second in which Slurm stops a job it refuses to start it.
        if datetime.now() - datetime.fromisoformat(job["Submitted"]) > timedelta(seconds=2):
            number = f"JobId={job['JobID']}"
            cluster.command("scontrol", "update", number, "StartTime=now", check=False)
