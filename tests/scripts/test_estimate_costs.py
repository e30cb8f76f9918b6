"""The preview of a run's costs: fitted to finished runs and compared with the last of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import estimate_costs
import numpy as np
import pytest

from ntk_workflow.plan.planned_jobs import PlannedJob, groups
from ntk_workflow.resources import DEFAULTS, Model, Work
from tests.scripts.finished_runs import CELLS, add_job, benchmark


def estimate(root: Path, jobs: str | None = None) -> tuple[int, dict]:
    """Call the program and return its exit code and the numbers that it writes."""
    planned = [PlannedJob("compute_spectrum", flops=4e12, memory=2e9)] * 3
    output = root / "costs.json"
    code = estimate_costs.main(
        [
            f"--jobs={groups(planned) if jobs is None else jobs}",
            f"--results={root}/results",
            f"--logs={root}/logs",
            f"--output={output}",
        ]
    )
    return code, json.loads(output.read_text()) if code == 0 else {}


def test_without_any_run_the_numbers_are_the_packages(tmp_path, capsys):
    code, found = estimate(tmp_path)
    assert code == 0
    hours = Model().seconds("compute_spectrum", Work(4e12, 2e9)) / 3600
    assert found["estimate"]["all"] == pytest.approx(
        {
            "jobs": 3,
            "core_hours": 3 * hours,
            "gpu_hours": 0,
            "longest_hours": hours,
            "memory": 2e9,
        }
    )
    assert found["comparison"] is None
    text = capsys.readouterr().out
    assert "From the package's own numbers" in text
    assert "assumed" not in text


def test_the_last_run_is_predicted_from_the_others(tmp_path, capsys):
    for run, newness in (("first", 1), ("second", 2)):
        for rule in CELLS:
            job = add_job(tmp_path, rule, run)
            startup = DEFAULTS[rule.split("/")[0]].startup
            benchmark(tmp_path, job, seconds=9 * startup // 0.5 * 0.5, run=run, newness=newness)
    _, found = estimate(tmp_path)
    comparison = found["comparison"]
    assert (comparison["run"], comparison["jobs"]) == ("second", len(CELLS))
    last = comparison["rules"]["all"]
    from_others = last["predicted_hours"] / last["measured_hours"]
    assert f"{from_others:.2f}" in capsys.readouterr().out

    os.rename(tmp_path / "logs/first", tmp_path / "set_aside")
    last = estimate(tmp_path)[1]["comparison"]["rules"]["all"]
    from_defaults = last["predicted_hours"] / last["measured_hours"]
    assert from_defaults == pytest.approx(1 / 9, rel=0.1)
    assert from_defaults < 2 * from_defaults < from_others < 1.2


def test_benchmarks_that_say_nothing_are_named_in_one_line(tmp_path, capsys):
    job = add_job(tmp_path, "compute_spectrum/empirical_ntk")
    benchmark(tmp_path, job, seconds=4.0)
    benchmark(tmp_path, "compute_spectrum/lost/relu", seconds=4.0)
    benchmark(tmp_path, "compute_min_angle/tiny/relu", seconds=4.0)
    damaged = tmp_path / "results/demo/angles/empirical_ntk/tiny/relu/depth-1/seed-1.parquet"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"PAR1")
    benchmark(tmp_path, "render_figure/empty", seconds=4.0).write_text("")
    code, _ = estimate(tmp_path)
    assert code == 0
    text = capsys.readouterr().out
    assert "Fitted to the benchmarks of 1 jobs" in text
    (line,) = [line for line in text.splitlines() if "lost/relu.tsv" in line]
    assert line.startswith("3 benchmarks")
    assert "compute_min_angle/tiny/relu.tsv" in line
    assert "render_figure/empty.tsv" in line


def test_hours_on_a_gpu_are_assumed_until_one_was_measured(tmp_path, capsys):
    planned = groups([PlannedJob("train_network", 1e15, 2e9, gpu=1, threads=2)])
    hours = estimate(tmp_path, planned)[1]["estimate"]["train_network"]
    assert hours["core_hours"] == 2 * hours["gpu_hours"] > 0
    assert "GPU-hours of train_network are assumed" in capsys.readouterr().out

    path = benchmark(tmp_path, add_job(tmp_path, "train_network"), seconds=4.0)
    path.with_suffix(".log").write_text("12:00:00 device cuda, float32: 4 networks\n")
    estimate(tmp_path, planned)
    assert "assumed" not in capsys.readouterr().out


UNKNOWN_NUMBER = groups([PlannedJob("compute_spectrum", 1.0, 1.0)]).replace("1.0", "null")


@pytest.mark.parametrize(
    "jobs", ["", "{}", '[{"rule": "compute_spectrum"}]', "[1]", UNKNOWN_NUMBER]
)
def test_jobs_that_are_no_list_of_groups_are_one_line(jobs, tmp_path, capsys):
    assert estimate(tmp_path, jobs)[0] == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("estimate_costs: error: argument --jobs")


def test_jobs_of_a_large_run_fit_into_a_command():
    chance = np.random.default_rng(0)
    jobs = [
        PlannedJob("compute_infinite_spectrum", *chance.uniform(1e9, 1e13, 2)) for _ in range(3000)
    ]
    text = groups(jobs)
    assert len(text) < 100_000
    found = json.loads(text)
    assert sum(group["jobs"] for group in found) == len(jobs)
    work = sum(group["jobs"] * group["flops"] for group in found)
    assert work == pytest.approx(sum(job.flops for job in jobs), rel=0.05)


def test_equal_jobs_are_counted_and_others_are_not():
    job = PlannedJob("compute_spectrum", 1.23456e12, 1e9)
    other = PlannedJob("compute_spectrum", 1.23456e12, 1e9, gpu=1, threads=4)
    found = json.loads(groups([job, other, job]))
    assert [(g["jobs"], g["flops"], g["gpu"], g["threads"]) for g in found] == [
        (2, 1.23e12, 0, 1),
        (1, 1.23e12, 1, 4),
    ]
    assert groups([]) == "[]"
