"""The workflow on a real Slurm: as on one machine, to the byte, whatever happens to its jobs."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from tests.slurm import injections
from tests.slurm.cluster import Cluster
from tests.slurm.injections import cancel, end_time, hold, preempt, restart_node
from tests.slurm.site import Site, Submission, bytes_of
from tests.support.clone import ROOT, Clone

pytestmark = pytest.mark.slow

#: A run with many kinds of jobs: dataset, rows, a training of some seconds, tables, figures.
EXPERIMENT = {"datasets": ["digits"], "depths": [1], "width": 256, "seeds": [1], "samples": "all"}
EXPERIMENT |= {"batch_size": 50, "epochs": 200, "learning_rates": [0.01, 0.02]}
OVERLAY = {"run": "small", "datasets": ["digits"], "activations": ["relu"], "depths": [0, 1]}
OVERLAY |= {"width": 16, "seeds": [1], "kernel_size": 40}
DEMO = yaml.safe_load((ROOT / "config.yaml").read_text())
OFF = [name for name in DEMO if name.endswith("_study")]
OVERLAY |= dict.fromkeys([*OFF, "activation_constants", "claim_experiments"])
OVERLAY |= {"training": dict.fromkeys(DEMO["training"]) | {"fig3": EXPERIMENT}}
CONFIG = ("--configfile", "small.json")
TARGETS = ("liu2023relu_fig2", "liu2023relu_fig3", *CONFIG)
DATASETS = "results/small/datasets"
TRAINING = "results/small/training/fig3/digits/mlp/relu/depth-1.parquet"
TRAINING_LOG = "logs/small/train_network/fig3/digits/mlp/relu/depth-1.log"


@pytest.fixture(scope="session")
def started(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Clone, subprocess.Popen[bytes]]]:
    """A clone in which the run is being made on this machine, without Slurm."""
    clone = Clone(tmp_path_factory.mktemp("local") / "clone")
    (clone.folder / "small.json").write_text(json.dumps(OVERLAY))
    command = [sys.executable, "-m", "snakemake", *TARGETS, "--cores", "2"]
    with subprocess.Popen(command, cwd=clone.folder, env=clone.environment()) as snakemake:
        yield clone, snakemake


@pytest.fixture
def local(started) -> Clone:
    """The clone when the run is made."""
    clone, snakemake = started
    assert snakemake.wait() == 0
    return clone


def prepared(site: Site, local: Clone) -> Site:
    """Give a site the config and the dataset of the local run."""
    (site.folder / "small.json").write_text(json.dumps(OVERLAY))
    shutil.copytree(local.folder / DATASETS, site.folder / DATASETS)
    return site


def written(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def test_a_run_that_is_interrupted_and_disturbed_ends_with_the_bytes_of_a_local_one(
    site: Site, started, request: pytest.FixtureRequest
):
    (site.folder / "small.json").write_text(json.dumps(OVERLAY))
    first = site.submit(*TARGETS)
    first.wait_until(lambda: len(first.finished_outputs()) >= 3, "3 files were made")
    first.wait_until(lambda: site.cluster.queue("--states=RUNNING") != [], "a job ran")
    submitted = {job["JobID"] for job in site.cluster.queue()}
    first.interrupt()
    assert first.wait() != 0
    # the plugin does not cancel one that it is just submitting
    left = [job["State"] for job in site.cluster.queue() if job["JobID"] in submitted]
    assert set(left) <= {"COMPLETING"}
    done = written(first.finished_outputs())

    # The same command again, and now everything happens to it.
    again = site.submit(*TARGETS)
    disturb(again)
    assert again.wait() == 0, again.text()[-9000:]
    local = request.getfixturevalue("local")  # made meanwhile
    for pattern in ("results/small/tables/**/*", "results/small/figures/**/*.png"):
        assert bytes_of(site, pattern) == bytes_of(local, pattern) != {}
    # what was done before the interruption was not done again, and nothing is left to do
    assert len(done) >= 3
    assert written(done) == done
    assert site.plan(*TARGETS) == {}
    ends = Counter(again.ends())
    assert ends["CANCELLED"] == ends["TIMEOUT"] == ends["REQUEUED"] == 1, ends
    assert ends["NODE_FAIL"] >= 1, ends
    named = ("--name", again.run_id(), "--format", "Comment,AllocTRES")
    given = site.cluster.command("sacct", "-X", "-n", "-P", *named)
    lines = [line.partition("|") for line in given.splitlines()]
    with_gpu = {"train_network" in comment for comment, _, got in lines if "gres/gpu=1" in got}
    without = {"train_network" in comment for comment, _, got in lines if got and "gpu" not in got}
    assert (with_gpu, without) == ({True}, {False})


def disturb(submission: Submission) -> None:
    """Do to running jobs what happens on a cluster, each to another one."""
    cluster, hit = submission.site.cluster, list[str]()

    def one_is_held() -> bool:
        injections.hurry(cluster)
        running = cluster.queue("--states=RUNNING", f"--name={submission.run_id()}")
        numbers = (job["JobID"] for job in running if job["JobID"] not in hit)
        held = next((number for number in numbers if hold(cluster, number)), None)
        hit.extend([held] if held else [])
        return held is not None

    for happen in (restart_node, end_time, preempt, cancel):
        submission.wait_until(one_is_held, "a job ran")
        happen(cluster, hit[-1])


#: How the jobs of a training end to which something happens.
ENDS = {
    cancel: [["CANCELLED", "COMPLETED"]],
    end_time: [["TIMEOUT", "COMPLETED"]],
    preempt: [["REQUEUED", "COMPLETED"]],  # Slurm itself starts the same job again
    None: [["FAILED", "COMPLETED"], ["OUT_OF_MEMORY", "COMPLETED"]],
}


def test_trainings_go_on_where_they_were(cluster: Cluster, local: Clone, tmp_path: Path):
    """All at once: Slurm looks at its clock only every thirty seconds."""
    submissions = {}
    for number, kind in enumerate(ENDS):
        site = prepared(Site(tmp_path / f"{number}", cluster), local)
        # too little for torch, and enough when it is tried again
        little = ("--set-resources", "train_network:mem_mb=400 * attempt ** 2")
        submissions[kind] = site.submit(TRAINING, *CONFIG, *(() if kind else little))
    coming = {submissions[kind].run_id(): kind for kind in ENDS if kind}
    end = time.monotonic() + 600
    while coming:
        assert time.monotonic() < end, coming
        time.sleep(0.1)
        for job in cluster.queue("--states=RUNNING"):
            name, number = job["Name"], job["JobID"]
            if name in coming and hold(cluster, number, catches=1 << signal.SIGTERM - 1):
                coming.pop(name)(cluster, number)
    for kind, submission in submissions.items():
        assert submission.wait() == 0, submission.text()[-9000:]
        assert bytes_of(submission.site, TRAINING) == bytes_of(local, TRAINING)
        assert submission.ends() in ENDS[kind]
        # A signal leaves time for a checkpoint, the end of memory does not.
        text = (submission.site.folder / TRAINING_LOG).read_text()
        assert ("going on from a checkpoint" in text) == (kind is not None), kind


def test_a_job_that_is_given_no_gpu_says_so_at_once(site: Site, local: Clone):
    prepared(site, local).edit("profiles/slurm/config.yaml", "device: auto", "device: cuda")
    submission = site.submit(TRAINING, *CONFIG, "--retries", "0")
    assert submission.wait() != 0
    error = "train_network: error: --device cuda: torch sees no GPU here (torch is a CPU build)"
    assert error in submission.text()
    assert not (site.folder / TRAINING).exists()


def test_hundreds_of_cells_are_a_handful_of_jobs(site: Site):
    overlay = {"run": "many", "datasets": ["digits"], "kernels": ["empirical_ntk"], "width": 8}
    overlay |= {"depths": list(range(15)), "seeds": list(range(10)), "kernel_size": 20}
    (site.folder / "many.json").write_text(json.dumps(overlay))
    submission = site.submit("results/many/tables/spectra.parquet", "--configfile", "many.json")
    assert submission.wait() == 0, submission.text()[-9000:]
    assert len(site.files("results/many/spectra/**/*.parquet")) == 2
    assert pq.read_metadata(site.folder / "results/many/tables/spectra.parquet").num_rows == 300
    assert submission.ends() == 4 * ["COMPLETED"]  # dataset, two rows, table
