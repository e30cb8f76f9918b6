"""The workflow on a real Slurm: as on one machine, to the byte, and killed jobs go on."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.slurm import cluster
from tests.slurm.cluster import command, wait_until
from tests.support.clone import ROOT, Clone
from tests.workflow.conftest import CI, finished  # noqa: F401  the fixture

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

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


def submit(site: Clone, *arguments: str) -> subprocess.Popen[bytes]:
    """Start Snakemake that submits jobs, beside the test."""
    command = [sys.executable, "-c", SNAKEMAKE, "--profile", "slurm", *arguments]
    return site.start(site.folder / "submission.log", *command)


def said(site: Clone) -> str:
    return (site.folder / "submission.log").read_text(errors="replace")[-9000:]


@pytest.fixture(scope="module")
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


#: A training that takes some seconds.
LONG = "training={fig3: {datasets: [digits], depths: [1], width: 256, seeds: [1], samples: all,"
LONG += " epochs: 200, learning_rates: [0.01]}}"
TRAINING = "results/ci/training/fig3/digits/mlp/relu/depth-1.parquet"


def jobs(*, word: str = "", fields: str = "JobID,State") -> list[list[str]]:
    """Return fields of the jobs whose line has a word, oldest first."""
    words = f"sacct -X -a -n -P --duplicates --starttime now-1days --format {fields}"
    lines = (command(words) or "").splitlines()
    return [line.split("|") for line in lines if word in line]


def test_a_figure_comes_through_slurm_though_it_is_interrupted(site, request):
    target = ("liu2023relu_fig3", *CI)
    before = len(jobs(word="billing", fields="Comment,AllocTRES"))
    first = submit(site, *target)
    wait_until(lambda: "Finished jobid" in said(site), "a finished job", seconds=600)
    done = {path: path.stat().st_mtime_ns for path in site.files("results/ci/datasets/**/*")}
    first.send_signal(signal.SIGINT)  # Ctrl-C
    assert first.wait(timeout=600) != 0
    wait_until(lambda: not command("squeue -h"), "an empty queue")
    assert submit(site, *target).wait(timeout=600) == 0, said(site)

    other = request.getfixturevalue("finished").folder
    made = [*site.files("results/ci/figures/**/*.png"), *site.files("results/ci/tables/**/*")]
    assert len(made) >= 2
    for path in made:
        name = path.relative_to(site.folder)
        assert path.read_bytes() == (other / name).read_bytes(), name
    assert done == {path: path.stat().st_mtime_ns for path in done}
    assert site.plan(*target) == {}
    for comment, resources in jobs(word="billing", fields="Comment,AllocTRES")[before:]:
        assert ("gres/gpu=1" in resources) == ("train_network" in comment), comment


def stopped_training() -> str | None:
    """Stop the training if it handles SIGTERM, with which Slurm sends SIGCONT; return its job."""
    for job, _, memory in jobs(word="RUNNING", fields="JobID,State,ReqMem"):
        if memory == "400M":  # it may run for a moment until Slurm sees what it takes
            continue
        lines = (command(f"scontrol listpids {job}", check=False) or "").splitlines()
        pids = [int(line.split()[0]) for line in lines[1:]]
        for pid in pids:
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                status = Path(f"/proc/{pid}/status").read_text()
                handled = int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[1], 16)
                if b"scripts/train_network.py" in words and handled & 1 << signal.SIGTERM - 1:
                    for each in pids:
                        os.kill(each, signal.SIGSTOP)
                    return job
    return None


def test_a_job_that_runs_out_of_memory_and_of_time_gets_more_and_goes_on(site):
    # too little for torch, and enough when it is tried again
    little = ("--set-resources", "train_network:mem_mb=400 * attempt ** 2")
    submission = submit(site, TRAINING, *CI, *little, "--config", LONG)
    while (job := stopped_training()) is None:
        assert submission.poll() is None, said(site)
        time.sleep(0.1)
    command(f"scontrol update JobId={job} EndTime=now+1second")
    assert submission.wait(timeout=600) == 0, said(site)
    tried = jobs(word="train_network", fields="Comment,State,ReqMem,TimelimitRaw")[-3:]
    _, states, memory, minutes = zip(*tried, strict=True)
    assert states[0] in ("OUT_OF_MEMORY", "FAILED")
    assert states[1:] == ("TIMEOUT", "COMPLETED")
    assert memory == ("400M", "1600M", "3600M")
    assert int(minutes[0]) < int(minutes[2])  # that of the second is what it was made
    log = site.folder / "logs/ci/train_network/fig3/digits/mlp/relu/depth-1.log"
    assert "going on from a checkpoint" in log.read_text()
