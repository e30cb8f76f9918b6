"""What jobs ask a scheduler for: enough, more with their size and with every attempt."""

import re
from collections import Counter

import estimate_costs

from ntk_workflow.config import read_yaml
from tests.support.clone import ROOT, Clone
from tests.workflow.conftest import CI

TRAININGS = ("train_network", "train_and_measure_network")


def plan(clone: Clone, *arguments: str) -> list[tuple[str, dict[str, str], str]]:
    done = clone.run("all", *arguments, "--executor", "local", "-n")
    jobs = []
    for job in re.split(r"\n(?=(?:local)?rule )", done.stdout + done.stderr)[1:]:
        rule = re.match(r"(?:local)?rule (\w+):", job)[1]
        resources = re.search(r"^ +resources: (.*)$", job, re.MULTILINE)[1]
        output = re.search(r"^ +output: (.*)$", job, re.MULTILINE)
        pairs = dict(pair.split("=", 1) for pair in resources.split(", "))
        jobs.append((rule, pairs, output[1] if output else ""))
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


def test_the_estimate_of_a_finished_run_says_how_far_off_it_was(finished, monkeypatch, capsys):
    monkeypatch.chdir(finished.folder)
    assert estimate_costs.main([*CI]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Nothing remains to be run.")
    ratio = re.search(r"expects ([\d.]+) times what finished jobs took", text)[1]
    assert 0.2 < float(ratio) < 3  # of starting processes, on a machine with other load
