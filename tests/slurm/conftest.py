"""A Slurm of the tests' own, and a clone of the workflow that submits to it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm import cluster
from tests.support.clone import ROOT, Clone
from tests.workflow.conftest import finished  # noqa: F401  the fixture

#: What changes in profiles/slurm/config.yaml: the lines that docs/clusters.md tells a newcomer to
#: edit; then, the GPUs have no hardware behind them, and nobody waits for network files here.
CHANGES = {
    "# slurm_account: my_account": f"slurm_account: {cluster.ACCOUNT}",
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


class Submission:
    """Snakemake that submits jobs, as a process beside the test."""

    def __init__(self, site: Clone, *arguments: str) -> None:
        self.log = site.folder / "submission.log"
        snakemake = [sys.executable, "-c", SNAKEMAKE, "--profile", "slurm"]
        self.process = site.start(self.log, *snakemake, *arguments)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self) -> int:
        return self.process.wait(timeout=600)


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[None]:
    """The running cluster; where there can be none, tests are skipped, or fail if NTK_SLURM=1."""
    if reason := cluster.reason_not_to_run():
        refuse = pytest.fail if os.environ.get("NTK_SLURM") == "1" else pytest.skip
        refuse(f"no Slurm: {reason}")
    subprocess.run([sys.executable, "-m", "tests.slurm.cluster", "up"], cwd=ROOT, check=True)
    yield
    cluster.stop()


@pytest.fixture
def site(running_cluster: None, tmp_path: Path) -> Clone:
    """A fresh clone whose Slurm profile is edited as a newcomer would."""
    clone = Clone(tmp_path / "clone")
    for old, new in CHANGES.items():
        clone.edit("profiles/slurm/config.yaml", old, new)
    return clone
