"""The estimate of a run: of real dry runs, and at the pace of jobs that have finished."""

import math
import re
from pathlib import Path

import estimate_costs
import pandas as pd
import pytest

from ntk_workflow.estimate import measured, report
from tests.support.clone import Clone

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
    assert re.search(r"^ *compute_spectrum +\d+ +[\d.]+ +0.00 +0.00 +0.17 +2\.\d+$", text, re.M)
    assert re.search(r"^ *all +\d\d +0\.\d\d +0\.00 +0.00 +0.17 +2\.\d+$", text, re.M)
    assert re.search(r"^On this machine about 1 min, with \d+ cores\.$", text, re.M)
    assert "train_network" not in text
    assert "liu2023relu_fig2" not in text  # which only collects files
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


def job(seconds: float, **values) -> dict:
    size = {"rule": "compute_spectrum", "seconds": seconds, "cores": 1, "GPUs": 0, "GB": 2}
    size |= {"asks for": 1, "account": "not set", "partition": "not set"}
    return size | {"benchmark": "none.tsv", "log": "none.log"} | values


def finished_job(root: Path, took: float, *, log: str = "", **values) -> dict:
    """Return a job with the files that it left."""
    (root / "a.tsv").write_text(f"s\tcpu_time\n{2 * took}\t{took}\n")
    (root / "a.log").write_text(log)
    return job(90, benchmark=root / "a.tsv", log=root / "a.log", **values)


def test_a_job_that_no_attempt_finishes_is_listed_with_the_retries_that_it_needs():
    days = pd.DataFrame([job(86400 * days, GPUs=1) for days in (0.5, 2.1)])
    (line,) = [line for line in report(days, days.head(0), cluster=True) if "attempts" in line]
    assert line == "The longest job takes 3 attempts of a day: retries 2 or more."


def test_a_part_of_a_job_another_device_and_a_damaged_file_do_not_count(tmp_path):
    assert measured(finished_job(tmp_path, 4.0)) == 4
    assert measured(finished_job(tmp_path, 4.0, log="device cuda, float32\n", GPUs=1)) == 8
    resumed = ["depth 0, seed 1: kept\n", "going on from a checkpoint in epoch 3\n"]
    for log in (*resumed, "device cuda\n"):
        assert math.isnan(measured(finished_job(tmp_path, 4.0, log=log)))
    assert math.isnan(measured(job(90)))
    damaged = finished_job(tmp_path, 4.0)
    damaged["benchmark"].write_text("")
    assert math.isnan(measured(damaged))


@pytest.mark.parametrize(("took", "hours"), [(180, 1.6), (90, 1), (9, 0.46)])
def test_an_estimate_follows_the_jobs_that_have_finished_here(took, hours, tmp_path):
    left = pd.DataFrame([job(3600), job(36, rule="other")])
    finished = pd.DataFrame([finished_job(tmp_path, took)])
    text = "\n".join(report(left, finished, cluster=False))
    assert re.search(rf"^compute_spectrum +1 +{hours:.2f} +0.00 ", text, re.M)
    assert re.search(r"^ *other +1 +0.01 ", text, re.M)
    assert f"expects {90 / took:.2f} times what finished jobs took" in text
