"""What jobs ask a scheduler for: enough, more with their size and with every attempt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from ntk_conditioning import memory
from ntk_workflow.resources import sizes as work
from tests.clone import Clone

ROOT = Path(__file__).parents[2]
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
pytestmark = pytest.mark.xdist_group("finished")


def sizes(n: int | None = 60000, d: int | None = 784, **changes) -> work.Sizes:
    config = CONFIG | changes
    experiments = config["training"]
    return work.Sizes(
        config,
        lambda dataset: (n, d),
        lambda key, dataset: config[key],
        lambda key, experiment, dataset, model: experiments[experiment][key],
        lambda dataset: (28, 28, 1),
    )


def kernel_mb(n: int, **changes) -> int:
    whole = sizes(n, kernel_size="all", **changes)
    return work.memory_mb(whole.cells("compute_spectrum", "mnist", "relu", [1], 1), attempt=1)


def test_a_kernel_asks_for_the_square_of_its_samples():
    assert kernel_mb(60000) > 8 * 60000**2 / 1e6
    assert 3.3 < kernel_mb(60000) / kernel_mb(30000) < 4
    # in blocks of 512 the samples themselves are most of it
    blocks = sizes().cells("compute_spectrum", "mnist", "relu", [1], 1)
    assert work.memory_mb(blocks, attempt=1) < 5000


@pytest.mark.parametrize("study", ["orthogonality", "linearity"])
def test_a_study_of_assemblies_asks_for_its_widest_network(study):
    def asked(widest: int) -> work.costs.Work:
        values = CONFIG[f"{study}_study"] | {"widths": [16, widest]}
        return sizes(d=3072, **{f"{study}_study": values}).assembly(study, "cifar10", "deep")

    small, large = asked(1024), asked(4096)
    weights = 8 * 2 * 4096**2  # of the layers between hidden ones, without the input's
    assert large.memory - small.memory > 5 * weights
    # products of a layer's size, and of vectors with its weights, of which linearity has no others
    least, most = {"orthogonality": (16, 64), "linearity": (15, 17)}[study]
    assert least < large.flops / small.flops < most


def test_time_grows_with_depth_seeds_and_epochs():
    def asked(depth: int, seeds: int) -> int:
        large = sizes(600_000, blocks="all")
        row = large.cells("compute_spectrum", "mnist", "relu", [depth], seeds)
        return work.minutes("compute_spectrum", row, attempt=1)

    assert asked(10, 5) > asked(5, 5) > asked(5, 2)
    times = []
    for epochs in (100, 200):
        training = json.loads(json.dumps(CONFIG["training"]))
        training["fig3"]["epochs"] = epochs
        one = sizes(training=training).training("fig3", "mnist", "mlp", "relu", 4)
        times.append(work.minutes("train_network", one, attempt=1))
    assert times[1] == pytest.approx(2 * times[0], rel=0.05)


def test_every_attempt_asks_for_more_up_to_a_day():
    one = sizes().cells("compute_min_angle", "mnist", "relu", [5], 5)
    assert [work.memory_mb(one, attempt) for attempt in (1, 2)] == [
        work.memory_mb(one, 1),
        2 * work.memory_mb(one, 1) - memory.AROUND // 10**6,
    ]
    asked = [work.minutes("compute_min_angle", one, attempt) for attempt in range(1, 12)]
    assert asked[1] == pytest.approx(2 * asked[0], abs=1)
    assert asked[-1] == work.MOST_MINUTES


def test_data_of_unknown_size_is_taken_for_large():
    unknown, known = sizes(None, None), sizes(2000, 10)
    cell = ("compute_min_angle", "mine", "relu", [1], 1)
    assert unknown.cells(*cell).memory > known.cells(*cell).memory


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
        *("mem_mb", "runtime", "disk_mb", "tmpdir"),
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
    target = "results/ci/training/gradient_descent/digits_sphere/mlp/relu/depth-1.parquet"
    clone.run(
        *(target, "--configfile", "config/ci.yaml", "--executor", "cluster-generic", "--jobs", "2"),
        "--cluster-generic-submit-cmd",
        "sh submit.sh {threads} {resources.mem_mb} {resources.runtime}",
        *("--default-resources", "mem_mb=1500", "runtime=20"),
    )
    assert (clone.folder / target).exists()
    asked = [line.split()[:3] for line in (clone.folder / "asked.txt").read_text().splitlines()]
    assert len(asked) == 3  # dataset, kernel, training
    assert ["1", "1500", "20"] in asked
    assert all(int(mb) >= 1500 and int(minutes) >= 10 for _, mb, minutes in asked)


def test_the_estimate_is_of_what_is_left_and_says_how_far_off_it_was(clone, finished):
    done = clone.run("estimate", "--quiet", "all", "--configfile", "config/paper.yaml")
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}
    assert int(rows["train_network"][0]) == 63 + 18  # of mlp, and of torch's modules
    assert float(rows["train_network"][1]) > 1000  # core-hours, without a GPU
    assert "there are no benchmarks to fit" in done.stdout
    on_gpus = clone.run(
        *("estimate", "--quiet", "all", "--executor", "local", "--profile", "slurm")
    ).stdout
    rows = {line.split()[0]: line.split()[1:] for line in on_gpus.splitlines() if line}
    assert float(rows["train_network"][2]) > 10
    assert "GPU-hours of train_network are assumed" in on_gpus

    told = finished.run("estimate", "--quiet", "all", "--configfile", "config/ci.yaml").stdout
    assert not re.search(r"^train_network +[1-9]", told.split("\n\n")[0], re.MULTILINE)
    assert re.search(r"^Fitted to the benchmarks of \d\d+ jobs\.$", told, re.MULTILINE)
    ratio = re.search(r"The last run, ci,.*^all +[\d.]+ +[\d.]+ +([\d.]+)", told, re.M | re.S)
    assert 0.2 < float(ratio.group(1)) < 3  # of starting processes, on a machine with other load
