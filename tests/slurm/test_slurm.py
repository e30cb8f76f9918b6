"""The workflow on a real Slurm: as on one machine, to the byte, whatever happens to its jobs."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.clone import Clone
from tests.slurm import injections
from tests.slurm.cluster import Cluster
from tests.slurm.site import Site, Submission, bytes_of

pytestmark = pytest.mark.slow

CI = ("--configfile", "config/ci.yaml")

#: A training of more than a minute, for Slurm looks at its clock every thirty seconds.
EXPERIMENT = {"datasets": ["digits"], "depths": [1], "width": 256, "seeds": [1], "samples": "all"}
EXPERIMENT |= {"batch_size": 50, "epochs": 3000, "learning_rates": [0.01, 0.02]}
LONG = {"run": "long", "training": {"fig3": EXPERIMENT}}
TRAINING = "results/long/training/fig3/digits/mlp/relu/depth-1.parquet"
TRAINING_LOG = "logs/long/train_network/fig3/digits/mlp/relu/depth-1.log"


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone in which both runs have been done on this machine, without Slurm."""
    clone = Clone(tmp_path_factory.mktemp("local") / "clone")
    clone.run(*CI, "--cores", "2")
    (clone.folder / "long.json").write_text(json.dumps(LONG))
    clone.run(TRAINING, "--configfile", "long.json", "--cores", "2")
    return clone


def jobs(site: Site, state: str) -> list[str]:
    return [job["JobID"] for job in site.cluster.queue(f"--states={state}")]


def written(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def test_a_run_that_is_interrupted_and_disturbed_ends_with_the_bytes_of_a_local_one(
    site: Site, local: Clone
):
    first = site.submit("all", *CI)
    first.wait_until(lambda: first.finished_jobs() >= 15, "15 jobs were done")
    first.wait_until(lambda: jobs(site, "RUNNING") != [], "a job ran")
    first.interrupt()
    # the jobs are gone at once; Snakemake itself ends when it next looks for them
    end = time.monotonic() + 60
    while site.cluster.queue():
        assert time.monotonic() < end, "jobs are left"
        time.sleep(0.5)
    assert first.wait(seconds=300) != 0
    done = written(first.finished_outputs())

    # The same command again, and now everything happens to it.
    again = site.submit("all", *CI)
    disturb(site, again)
    assert again.wait() == 0, again.text()[-9000:]
    for pattern in ("results/ci/tables/*", "results/ci/figures/**/*.png"):
        assert bytes_of(site, pattern) == bytes_of(local, pattern)
    # what was done before the interruption was not done again, and nothing is left to do
    assert len(done) >= 15
    assert written(done) == done
    assert site.plan("all", *CI) == {}
    # short jobs may be done before Slurm looks at its clock, or hears that they are cancelled
    states = site.jobs_of(again).values()
    assert any(state.startswith("CANCELLED") for state in states)
    given = site.cluster.command("sacct", "-X", "-n", "-P", "--format", "Comment,AllocTRES")
    lines = [line.partition("|") for line in given.splitlines()]
    with_gpu = {"train_network" in comment for comment, _, got in lines if "gres/gpu=1" in got}
    without = {"train_network" in comment for comment, _, got in lines if got and "gpu" not in got}
    assert (with_gpu, without) == ({True}, {False})


def disturb(site: Site, submission: Submission) -> None:
    """Do to running jobs what happens on a cluster."""
    hit: set[str] = set()
    for kind in ("cancel", "end_time", "restart_node", "preempt", "end_time", "cancel"):
        enough = submission.finished_jobs() + 3
        submission.wait_until(lambda n=enough: submission.finished_jobs() >= n, "jobs finished")
        submission.wait_until(lambda: bool(set(jobs(site, "RUNNING")) - hit), "a job ran")
        job = next(job for job in jobs(site, "RUNNING") if job not in hit)
        hit.add(job)
        if kind == "restart_node":
            injections.restart_node(site.cluster)
            submission.wait_until(lambda: requeued(site), "Slurm saw it")
        else:
            getattr(injections, kind)(site.cluster, job)
        if kind == "preempt":
            submission.wait_until(lambda job=job: job in jobs(site, "PENDING"), "it was requeued")
        injections.hurry(site.cluster)


def requeued(site: Site) -> bool:
    """Return whether the node is back and Slurm has noticed that nothing runs on it any more."""
    back = site.cluster.is_ready()
    return back and (not jobs(site, "RUNNING") or bool(injections.node_processes()))


#: How the jobs of a training end to which something happens.
ENDS = {
    "cancel": [["CANCELLED", "COMPLETED"]],
    "end_time": [["TIMEOUT", "COMPLETED"]],
    "memory": [["FAILED", "COMPLETED"], ["OUT_OF_MEMORY", "COMPLETED"]],
    "preempt": [["COMPLETED"]],  # Slurm itself starts the same job again
}


def test_trainings_go_on_where_they_were(cluster: Cluster, local: Clone, tmp_path: Path):
    """All at once: most of the time is spent waiting for Snakemake to look for its jobs."""
    sites, submissions, injected = {}, {}, dict.fromkeys(ENDS, False)
    for kind in ENDS:
        sites[kind] = site = Site(tmp_path / kind, cluster)
        (site.folder / "long.json").write_text(json.dumps(LONG))
        options = ["--configfile", "long.json"]
        if kind == "memory":  # too little for torch, and enough when it is tried again
            options += ["--set-resources", "train_network:mem_mb=400 * attempt ** 2"]
            injected[kind] = True
        submissions[kind] = site.submit(TRAINING, *options)
    end = time.monotonic() + 600
    while not all(injected.values()):
        assert time.monotonic() < end, injected
        time.sleep(1)
        for kind, site in sites.items():
            path = site.folder / TRAINING_LOG
            if not injected[kind] and path.exists() and "one by one" in path.read_text():
                name = submissions[kind].run_id()
                (job,) = (j for j in cluster.queue("--states=RUNNING") if j["Name"] == name)
                time.sleep(2)
                getattr(injections, kind)(cluster, job["JobID"])
                injected[kind] = True
    for kind, submission in submissions.items():
        if kind == "preempt":
            time.sleep(10)
            injections.hurry(cluster)
        assert submission.wait() == 0, submission.text()[-9000:]
        assert bytes_of(sites[kind], TRAINING) == bytes_of(local, TRAINING)
        states = [state.split()[0] for state in sites[kind].jobs_of(submission).values()]
        assert states[1:] in ENDS[kind], kind  # the first job prepares the dataset
        # A signal leaves time for a checkpoint, the end of memory does not.
        text = (sites[kind].folder / TRAINING_LOG).read_text()
        assert ("going on from a checkpoint" in text) == (kind != "memory"), kind


def test_a_job_that_is_given_no_gpu_says_so_at_once(site: Site):
    (site.folder / "long.json").write_text(json.dumps(LONG))
    site.edit("profiles/slurm/config.yaml", "device: auto", "device: cuda")
    submission = site.submit(TRAINING, "--configfile", "long.json", "--retries", "0")
    assert submission.wait() != 0
    error = "train_network: error: --device cuda: torch sees no GPU here (torch is a CPU build)"
    assert error in submission.text()
    assert not (site.folder / TRAINING).exists()


def test_hundreds_of_cells_are_a_handful_of_jobs(site: Site):
    overlay = {"run": "many", "datasets": ["digits"], "kernels": ["empirical_ntk"], "width": 8}
    overlay |= {"depths": list(range(25)), "seeds": list(range(10)), "kernel_size": 20}
    (site.folder / "many.json").write_text(json.dumps(overlay))
    submission = site.submit("results/many/tables/spectra.parquet", "--configfile", "many.json")
    assert submission.wait() == 0, submission.text()[-9000:]
    assert len(site.files("results/many/spectra/**/*.parquet")) == 2
    assert pq.read_metadata(site.folder / "results/many/tables/spectra.parquet").num_rows == 500
    assert len(site.jobs_of(submission)) == 4  # dataset, two rows, table


def test_the_papers_dag_is_planned_in_seconds(site: Site):
    start = time.monotonic()
    planned = site.plan("--profile", "slurm", "all")
    assert time.monotonic() - start < 15
    assert planned["train_network"] > 50
    assert sum(planned.values()) > 300
