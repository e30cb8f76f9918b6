"""A clone of the workflow on the cluster of the tests, and Snakemake submitting from it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm import injections
from tests.slurm.cluster import ACCOUNT, Cluster
from tests.support.clone import Clone

#: What changes in profiles/slurm/config.yaml: the lines that docs/clusters.md tells a newcomer to
#: edit; then, the GPUs have no hardware behind them, and nobody waits for network files here.
CHANGES = {
    "# slurm_account: my_account": f"slurm_account: {ACCOUNT}",
    "# slurm_partition: cpu ": "slurm_partition: cpu ",
    "# slurm_partition: gpu ": "slurm_partition: gpu ",
    "device: cuda": "device: auto",
    "latency-wait: 60": "latency-wait: 5",
    "max-jobs-per-timespan: 50/1m": "max-jobs-per-timespan: 10/1s",
}


#: Snakemake that looks for its jobs twice a second. The plugin has no setting for it, and waits ten
#: seconds longer each time that no job has ended, up to three minutes.
SNAKEMAKE = """
import asyncio
from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
RemoteExecutor.sleep = lambda executor: asyncio.sleep(0.5)
main()
"""


class Site(Clone):
    """A clone whose Slurm profile is edited as a newcomer would, for the tests' cluster."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        for old, new in CHANGES.items():
            self.edit("profiles/slurm/config.yaml", old, new)

    def submit(self, *arguments: str) -> Submission:
        return Submission(self, arguments)


def bytes_of(clone: Clone, pattern: str) -> dict[str, bytes]:
    return {str(path.relative_to(clone.folder)): path.read_bytes() for path in clone.files(pattern)}


class Submission:
    """Snakemake that submits jobs, as a process beside the test."""

    def __init__(self, site: Site, arguments: tuple[str, ...]) -> None:
        self.site = site
        number = len(list(site.folder.glob("submission-*.log")))
        self.log = site.folder / f"submission-{number}.log"
        command = [sys.executable, "-c", SNAKEMAKE, "--profile", "slurm", *arguments]
        with self.log.open("wb") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            self.process = subprocess.Popen(
                command,
                cwd=site.folder,
                env=site.environment(),
                **streams,
                start_new_session=True,
                # a shell lets what it starts in the background ignore Ctrl-C
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def run_id(self) -> str:
        self.wait_until(lambda: "SLURM run ID: " in self.text(), "it submits")
        return re.findall(r"SLURM run ID: (\S+)", self.text())[0]

    def finished_outputs(self) -> list[Path]:
        """Return the files of the jobs that it has seen finish."""
        finished = set(re.findall(r"^Finished jobid: (\d+) ", self.text(), re.MULTILINE))
        block = r"^    output: (.*)\n(?:    .*\n)*?    jobid: (\d+)$"
        blocks = re.findall(block, self.text(), re.MULTILINE)
        names = {name for names, job in blocks if job in finished for name in names.split(", ")}
        return sorted(self.site.folder / name for name in names)

    def ends(self) -> list[str]:
        """Return how its jobs have ended, as soon as the accounting knows of all of them."""
        submitted = self.text().count("submitted with SLURM jobid")
        end = time.monotonic() + 60
        while True:
            ends = self.site.cluster.ends(self.run_id())
            if len(ends) >= submitted or time.monotonic() > end:
                return ends
            time.sleep(0.2)

    def wait(self, *, seconds: float = 1500) -> int:
        """Wait until it ends, and let Slurm start again at once what it has requeued."""

        def ended() -> bool:
            injections.hurry(self.site.cluster)
            return self.process.poll() is not None

        self.wait_until(ended, "its end", seconds=seconds)
        return self.process.returncode

    def wait_until(self, condition: Callable[[], bool], what: str, *, seconds: float = 600) -> None:
        end = time.monotonic() + seconds
        while not condition():
            ended = self.process.poll() is not None
            if ended or time.monotonic() > end:
                self.kill()
                why = "Snakemake ended" if ended else f"{seconds} s passed"
                pytest.fail(f"{why} before {what}\n{self.text()[-9000:]}")
            time.sleep(0.2)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)  # Ctrl-C

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
