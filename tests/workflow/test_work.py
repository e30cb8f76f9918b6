"""What jobs ask a scheduler for: enough, more with their size and with every attempt."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import estimate_costs
import pytest
import yaml

from tests.clone import Clone

ROOT = Path(__file__).parents[2]


def plan(clone: Clone, *arguments: str) -> dict[str, list[SimpleNamespace]]:
    """Return resources and outputs of the jobs that would run, by rule."""
    done = clone.run(*arguments, "--executor", "local", "-n")
    found: dict[str, list[SimpleNamespace]] = {}
    for job in re.split(r"\n(?=(?:local)?rule )", done.stdout + done.stderr)[1:]:
        name = re.match(r"(?:local)?rule (\w+):", job).group(1)
        resources = re.search(r"^ +resources: (.*)$", job, re.MULTILINE).group(1)
        pairs = dict(pair.split("=", 1) for pair in resources.split(", "))
        output = re.search(r"^ +output: (.*)$", job, re.MULTILINE)
        outputs = output.group(1) if output else ""
        found.setdefault(name, []).append(SimpleNamespace(resources=pairs, outputs=outputs))
    return found


@pytest.fixture(scope="module")
def planned(tmp_path_factory) -> dict[str, list[SimpleNamespace]]:
    """The jobs of the papers' own sizes with the Slurm profile."""
    return plan(Clone(tmp_path_factory.mktemp("planned") / "clone"), "all", "--profile", "slurm")


def test_only_portable_resources_are_asked_for(planned):
    """Other engines know these: Kubernetes, AWS Batch, generic ones. The profile adds gpu."""
    names = {name for jobs in planned.values() for job in jobs for name in job.resources}
    sizes_in_other_units = {"mem", "mem_mib", "disk", "disk_mib"}
    assert names - sizes_in_other_units == {
        *("mem_mb", "runtime", "disk_mb", "tmpdir", "core_seconds"),
        *("gpu", "device"),
    }
    for rule, jobs in planned.items():
        for job in jobs:
            assert ("gpu" in job.resources) == (rule == "train_network"), rule


def test_a_workstations_gpu_is_for_trainings_one_at_a_time(clone):
    found = plan(clone, "all", "--profile", "gpu", "--configfile", "config/ci.yaml")
    for rule, jobs in found.items():
        for job in jobs:
            asked = (job.resources.get("gpu"), job.resources.get("device"))
            networks = "compute_(spectrum|min_angle)|measure_(orthogonality|linearity)"
            on_cpu = "cpu" if re.match(networks, rule) else None
            expected = ("1", "cuda") if rule == "train_network" else (None, on_cpu)
            assert asked == expected, rule
    profile = yaml.safe_load((ROOT / "profiles/gpu/config.yaml").read_text())
    assert profile["resources"] == ["gpu=1"]


def test_every_job_asks_for_memory_and_time(planned):
    for rule, jobs in planned.items():
        for job in jobs:
            assert int(job.resources["mem_mb"]) >= 1000, rule
            if rule != "all":
                assert int(job.resources["runtime"]) >= 10, rule


def test_deeper_networks_ask_for_more_time(planned):
    asked = {}
    for job in planned["train_network"]:
        if match := re.search(r"training/fig3/mnist/.*/depth-(\d+)\.", job.outputs):
            asked[int(match.group(1))] = int(job.resources["runtime"])
    assert len(asked) == 10
    assert asked[10] > 2 * asked[2]


def test_jobs_run_through_another_engine_with_the_same_resources(clone):
    """An executor that knows nothing of Slurm is given what the rules ask for."""
    (clone.folder / "submit.sh").write_text(
        '#!/bin/sh\necho "$@" >> asked.txt\nbash "$4" >/dev/null 2>&1 &\necho $!\n'
    )
    target = "results/ci/tables/training/gradient_descent.parquet"
    clone.run(
        *(target, "--configfile", "config/ci.yaml", "--executor", "cluster-generic", "--jobs", "2"),
        "--cluster-generic-submit-cmd",
        "sh submit.sh {threads} {resources.mem_mb} {resources.runtime}",
        *("--default-resources", "mem_mb=1500", "runtime=20"),
    )
    assert (clone.folder / target).exists()
    asked = [line.split()[:3] for line in (clone.folder / "asked.txt").read_text().splitlines()]
    assert len(asked) == 4  # dataset, kernel, training, and a table, which asks for nothing itself
    assert ["1", "1500", "20"] in asked
    assert all(int(mb) >= 1500 and int(minutes) >= 10 for _, mb, minutes in asked)


def test_the_estimate_of_a_finished_run_says_how_far_off_it_was(finished, monkeypatch, capsys):
    monkeypatch.chdir(finished.folder)
    assert estimate_costs.main(["--configfile", "config/ci.yaml"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Nothing remains to be run.")
    assert int(re.search(r"^Fitted to (\d+) finished jobs", text, re.MULTILINE).group(1)) > 50
    ratio = re.search(r"^all +\d+ +[\d.]+ +[\d.]+ +([\d.]+)$", text, re.MULTILINE).group(1)
    assert 0.2 < float(ratio) < 3  # of starting processes, on a machine with other load
