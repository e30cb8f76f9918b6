"""What jobs ask a scheduler for: enough, more with their size; and what a run would take."""

import math
import re
from collections import Counter
from pathlib import Path

import estimate_costs
import pandas as pd
import pytest

from ntk_workflow.config import read_yaml
from ntk_workflow.estimate import measured, report
from tests.support.clone import ROOT, Clone
from tests.workflow.conftest import CI

TRAININGS = ("train_network", "train_and_measure_network")


def plan(clone: Clone, *arguments: str) -> list[tuple[str, dict[str, str], str]]:
    """Return rule, resources and outputs of each job."""
    text, jobs = clone.run("all", *arguments, "--executor", "local", "-n"), []
    for job in re.split(r"\n(?=(?:local)?rule )", text)[1:]:
        fields = dict(re.findall(r"^ +(\w+): (.*)$", job, re.M))
        resources = dict(pair.split("=", 1) for pair in fields["resources"].split(", "))
        rule = re.match(r"(?:local)?rule (\w+):", job)[1]
        jobs.append((rule, resources, fields.get("output", "")))
    return jobs


def test_jobs_on_a_cluster_ask_for_what_their_size_needs(clone):
    """Other engines know the names of these resources too; the profile adds gpu."""
    jobs, minutes = plan(clone, "--profile", "slurm"), {}
    for rule, resources, output in jobs:
        assert ("gpu" in resources) == (rule in TRAININGS), rule
        assert resources["disk_mb"] == "1000", rule
        assert int(resources["mem_mb"]) >= 1000, rule
        assert rule == "all" or int(resources["runtime"]) >= 10, rule
        if match := re.search(r"training/fig3/mnist/.*/depth-(\d+)\.", output):
            minutes[int(match[1])] = int(resources["runtime"])
    assert len(minutes) == 10
    count = Counter(rule for rule, _, _ in jobs)
    assert count["render_figure"] == len(read_yaml(ROOT / "config.yaml")["figures"])
    assert count["compute_spectrum"] > 0
    assert minutes[10] > 2 * minutes[2]
    # a workstation's GPU is for trainings, one at a time
    for rule, resources, _ in plan(clone, "--profile", "profiles/gpu", *CI):
        assert (resources.get("gpu") == "1") == (rule in TRAININGS), rule
        assert (resources.get("device") == "cuda") == (rule in TRAININGS), rule


def test_jobs_run_through_another_engine_with_the_same_resources(clone):
    script = '#!/bin/sh\necho "$@" >> asked.txt\nbash "$4" >/dev/null 2>&1 &\necho $!\n'
    (clone.folder / "submit.sh").write_text(script)
    options = ("--executor", "cluster-generic", "--jobs", "2", "--seconds-between-status-checks=1")
    submit = "sh submit.sh {threads} {resources.mem_mb} {resources.runtime}"
    options += ("--cluster-generic-submit-cmd", submit)
    target = "results/ci/datasets/digits_sphere/all.npz"
    clone.run(target, *CI, *options, "--default-resources", "mem_mb=1500", "runtime=20")
    assert (clone.folder / target).exists()
    threads, mb, minutes, _ = (clone.folder / "asked.txt").read_text().split()
    assert (threads, int(mb) >= 1000, int(minutes) >= 10) == ("1", True, True)


@pytest.fixture
def estimated(clone, monkeypatch, capsys):
    monkeypatch.chdir(clone.folder)
    return lambda *words: (estimate_costs.main(list(words)), capsys.readouterr().out)


def test_an_estimate_is_of_what_the_target_needs(clone, estimated):
    code, text = estimated("liu2023relu_fig2", *CI, "--config", "seeds=[1]")
    assert code == 0
    assert re.search(r"^ *compute_spectrum +\d+ +[\d.]+ +0.00 +0.00 +0.17 +2\.\d+$", text, re.M)
    assert re.search(r"^ *all +\d\d +0\.\d\d +0\.00 +0.00 +0.17 +2\.\d+$", text, re.M)
    assert re.search(r"^On this machine about 1 min, with \d+ cores\.$", text, re.M)
    assert "train_network" not in text
    assert "liu2023relu_fig2" not in text  # which only collects files
    assert clone.files("results/ci/**/*") == []


def test_the_estimate_of_a_cluster_is_what_would_be_submitted(clone, estimated):
    clone.edit("profiles/slurm/config.yaml", "# slurm_partition: gpu ", "slurm_partition: h100 ")
    more = ["--profile", "slurm", "--configfile", "config/paper.yaml"]
    code, text = estimated("agarwal2021deep_fig4", *more)
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


def test_the_estimate_of_a_finished_run_says_how_far_off_it_was(finished, monkeypatch, capsys):
    monkeypatch.chdir(finished.folder)
    assert estimate_costs.main([*CI]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Nothing remains to be run.")
    ratio = re.search(r"expects ([\d.]+) times what finished jobs took", text)[1]
    assert 0.2 < float(ratio) < 3  # of starting processes, on a machine with other load


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
    (tmp_path / "a.tsv").write_text("")
    assert math.isnan(measured(job(90, benchmark=tmp_path / "a.tsv", log=tmp_path / "a.log")))


@pytest.mark.parametrize(("took", "hours"), [(180, 1.6), (90, 1), (9, 0.46)])
def test_an_estimate_follows_the_jobs_that_have_finished_here(took, hours, tmp_path):
    left = pd.DataFrame([job(3600), job(36, rule="other")])
    finished = pd.DataFrame([finished_job(tmp_path, took)])
    text = "\n".join(report(left, finished, cluster=False))
    assert re.search(rf"^compute_spectrum +1 +{hours:.2f} +0.00 ", text, re.M)
    assert re.search(r"^ *other +1 +0.01 ", text, re.M)
    assert f"expects {90 / took:.2f} times what finished jobs took" in text
