"""The estimate of a run: of real dry runs, and at the pace of jobs that have finished."""

import re
from pathlib import Path

import estimate_costs
import pytest

from ntk_workflow import estimate
from ntk_workflow.estimate import Job, report
from tests.support.clone import Clone

KIND = "compute_spectrum"
CI = ["--configfile", "config/ci.yaml"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return Clone(tmp_path_factory.mktemp("estimate") / "clone").folder


@pytest.fixture
def estimated(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    return lambda *words: (estimate_costs.main(list(words)), *capsys.readouterr())


def test_an_estimate_is_of_what_the_target_needs(folder, estimated):
    code, text, _ = estimated("liu2023relu_fig2", *CI, "--config", "seeds=[1]")
    assert code == 0
    assert re.search(r"^ *compute_spectrum +\d+ +[\d.]+ +0.00 +1 min +10 min +2\.\d+$", text, re.M)
    assert re.search(r"^ *all +\d\d +0\.\d\d +0\.00 +1 min +20 min +2\.\d+$", text, re.M)
    assert re.search(r"^On this machine about 1 min, with \d+ cores\.$", text, re.M)
    assert "train_network" not in text
    assert "liu2023relu_fig2" not in text  # which only collects files
    assert "no job of this run has been measured" in text
    assert not (folder / "results/ci").exists()


def test_the_estimate_of_a_cluster_is_what_would_be_submitted(folder, estimated):
    profile = folder / "profiles/slurm/config.yaml"
    text = profile.read_text()
    profile.write_text(text.replace("# slurm_partition: gpu ", "slurm_partition: h100 "))
    more = ["--profile", "slurm", "--configfile", "config/paper.yaml"]
    code, text, _ = estimated("agarwal2021deep_fig4", *more)
    assert code == 0
    row = re.search(r"^ *train_network +(\d+) +([\d.]+) +([\d.]+)", text, re.M)
    assert int(row[1]) > 1
    assert float(row[2]) == float(row[3]) > 1  # core-hours, GPU-hours
    sizes = re.findall(r"^ *1 +1 +\d+ +(\d+) ", text, re.M)  # of cores, GPUs, GB: jobs
    assert sum(map(int, sizes)) == int(row[1])
    default = "(Slurm's default where none is set)"
    assert f"Jobs with no GPU: account not set, partition not set {default}." in text
    assert f"Jobs with 1 GPU: account not set, partition h100 {default}." in text
    assert "attempts of a day" not in text  # ten seeds of a ResNet-110 are ten jobs


def test_a_job_that_no_attempt_finishes_is_told_with_the_retries_that_it_needs():
    days = [Job("train_network", 86400 * days, gpus=1) for days in (0.5, 2.1)]
    (line,) = [line for line in report(days, [], cluster=True) if "attempts" in line]
    assert line == "The longest job takes 3 attempts of a day: retries 2 or more."


def test_snakemakes_own_message_is_shown(estimated):
    code, _, message = estimated("fig2", *CI)
    assert code == 2
    assert "no target 'fig2'; did you mean liu2023relu_fig2 or agarwal2021deep_fig2?" in message
    assert message.splitlines()[-1].startswith("estimate_costs: error: Snakemake cannot plan")


BLOCK = """
rule compute_spectrum:
    output: a.parquet
    log: a.log
    benchmark: a.tsv
    threads: 4
    resources: tmpdir=/tmp, mem_mb=2000, mem=2 GB, gpu=0, core_seconds=90, runtime=10
    shell: echo "
    output: nothing"

localrule all:
    input: a.parquet
"""
TOTAL = "total    {}\n"


def test_a_dry_run_is_read_whole_or_not_at_all():
    files = {"benchmark": "a.tsv", "log": "a.log", "outputs": ("a.parquet",)}
    whole = Job(KIND, 90, threads=4, mem_mb=2000, minutes=10, **files)
    assert estimate.jobs(TOTAL.format(2) + BLOCK + TOTAL.format(2)) == [whole]
    assert estimate.jobs("Nothing to be done (all requested files are present).") == []
    with pytest.raises(estimate.DryRunError, match="counts 3 jobs and 2 can be read"):
        estimate.jobs(TOTAL.format(3) + BLOCK)


def finished_job(root: Path, seconds: float, *, log: str = "", load: str = "0.00", **values) -> Job:
    """Return a job with the files that it left."""
    (root / "a.tsv").write_text(f"s\tmax_rss\tmean_load\n{seconds}\t321.5\t{load}\n")
    (root / "a.log").write_text(log)
    return Job(KIND, 90, benchmark=str(root / "a.tsv"), log=str(root / "a.log"), **values)


def test_a_part_of_a_job_another_device_and_a_damaged_file_do_not_count(tmp_path):
    assert estimate.measured(finished_job(tmp_path, 4.0, load="NA")) == 4  # too short for a look
    assert estimate.measured(finished_job(tmp_path, 4.0, load="25.00")) == 1  # a shared core
    on_gpu = finished_job(tmp_path, 4.0, load="9.00", log="device cuda, float32\n", gpus=1)
    assert estimate.measured(on_gpu) == 4
    resumed = ["depth 0, seed 1: kept\n", "going on from a checkpoint in epoch 3\n"]
    for log in (*resumed, "device cuda\n"):
        assert estimate.measured(finished_job(tmp_path, 4.0, log=log)) is None
    assert estimate.measured(Job(KIND, 90)) is None
    damaged = finished_job(tmp_path, 4.0)
    Path(damaged.benchmark).write_text("")
    assert estimate.measured(damaged) is None


@pytest.mark.parametrize(("took", "hours"), [(180, 1.6), (90, 1), (9, 0.46)])
def test_an_estimate_follows_the_jobs_that_have_finished_here(took, hours, tmp_path):
    finished = [finished_job(tmp_path, took)]
    text = "\n".join(report([Job(KIND, 3600), Job("other", 36)], finished, cluster=False))
    assert re.search(rf"^{KIND} +1 +{hours:.2f} +0.00 ", text, re.M)
    assert re.search(r"^ *other +1 +0.01 ", text, re.M)
    assert re.search(rf"^{KIND} +90.00 +{took:.2f} +{90 / took:.2f}$", text, re.M)
