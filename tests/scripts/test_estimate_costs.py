"""The preview of a run's costs: read from real cells and benchmark files, fitted, compared."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import compute_infinite_min_angle
import compute_infinite_spectrum
import compute_min_angle
import compute_spectrum
import compute_training_kernel
import estimate_costs
import numpy as np
import pytest
import train_network
from planning import PlannedJob, groups

from ntk_conditioning import costs, datasets
from ntk_conditioning.costs import DEFAULTS, Model
from ntk_conditioning.prepared import Dataset, save_prepared

N, D, WIDTH = 30, 4, 64
SIZES = {"n": N, "d": D}
ROWS = {"depths": [0, 2], "seeds": 2}
BLOCKS = {"kernel_size": 10, "blocks": 3, "full_below": 11}
RATES = ("0.01", "1e30")  # of which the second diverges in the first epoch

# By rule: its program, options of its own, the place of a job, and the work of it.
Job = tuple[Callable[[list[str]], int], str, str, costs.Work]
BLOCK_OPTIONS = "--kernel-size 10 --blocks all"
CELLS: dict[str, Job] = {
    "compute_spectrum": (
        compute_spectrum.main,
        f"--width {WIDTH} {BLOCK_OPTIONS}",
        "spectra/empirical_ntk",
        costs.spectrum(**SIZES, **ROWS, **BLOCKS, width=WIDTH),
    ),
    "compute_infinite_spectrum/nngp": (
        compute_infinite_spectrum.main,
        f"--kernel nngp {BLOCK_OPTIONS}",
        "spectra/nngp",
        costs.infinite_spectrum(**SIZES, **ROWS, **BLOCKS),
    ),
    "compute_min_angle": (
        compute_min_angle.main,
        f"--width {WIDTH}",
        "angles/empirical_ntk",
        costs.min_angle(**SIZES, **ROWS, width=WIDTH),
    ),
    "compute_infinite_min_angle": (
        compute_infinite_min_angle.main,
        "",
        "angles/infinite_ntk",
        costs.infinite_min_angle(**SIZES, **ROWS),
    ),
}
NETWORK = {**SIZES, "width": WIDTH, "depth": 2, "loaded": N}
NETWORKS: dict[str, Job] = {
    "compute_training_kernel": (
        compute_training_kernel.main,
        "",
        "training_kernels",
        costs.training_kernel(**NETWORK, seeds=2),
    ),
    "train_network": (
        train_network.main,
        f"--epochs 4 --evaluate-every 2 --batch-size 10 --learning-rates {' '.join(RATES)}",
        "training",
        # of the two networks of a seed, one trains for the first two of the four epochs only
        costs.training(**NETWORK, classes=3, networks=3.0, epochs=4, batch=10, evaluate_every=2),
    ),
}
HEADER = [
    "s",
    "h:m:s",
    "max_rss",
    "max_vms",
    "max_uss",
    "max_pss",
    "io_in",
    "io_out",
    "mean_load",
    "cpu_time",
]


def benchmark(
    root: Path, job: str, *, seconds: float, busy: float = 1.0, run: str = "demo", newness: int = 0
) -> Path:
    """Write a benchmark file as Snakemake does, of a job at ``logs/{run}/{job}.tsv``."""
    path = root / f"logs/{run}/{job}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    looked = seconds // 0.5 * 0.5 if seconds < 15.5 else 15.5 + (seconds - 15.5) // 30 * 30
    row = [f"{seconds:.2f}", "0:00:00", "321.5", *["0"] * 5, "99.0", f"{busy * looked:.2f}"]
    path.write_text("\t".join(HEADER) + "\n" + "\t".join(row) + "\n")
    os.utime(path, (newness, newness))
    return path


def add_samples(root: Path, run: str = "demo") -> Path:
    """Write a dataset of a run, whose archive is returned."""
    folder = root / f"results/{run}/datasets/tiny"
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(0)
    data = Dataset("tiny", chance.standard_normal((N, D)), np.arange(N) % 3, "none")
    save_prepared(folder / "all.npz", data)
    sheet = datasets.describe(data, available=N, seed=None, balanced=False)
    datasets.save_datasheet(folder / "all.json", sheet)
    return folder / "all.npz"


def add_job(root: Path, rule: str, run: str = "demo") -> str:
    """Compute the cells of a job and return its place, which its benchmark file has as well."""
    data = add_samples(root, run)
    call = ["--data", str(data), "--dataset", "tiny", "--activation", "relu"]
    call += ["--seeds", "1", "32"]
    if rule in CELLS:
        main, options, folder, _ = CELLS[rule]
        cells = root / f"results/{run}/{folder}/tiny/relu"
        outputs = [f"{cells}/depth-{L}/seed-{seed}.parquet" for seed in (1, 32) for L in (0, 2)]
        assert main([*call, *options.split(), "--depths", "0", "2", "--outputs", *outputs]) == 0
        return f"{rule}/tiny/relu"
    main, options, folder, _ = NETWORKS[rule]
    place = "fig3/tiny/mlp/relu/depth-2"
    call += ["--experiment", "fig3", "--depth", "2", "--width", str(WIDTH), *options.split()]
    assert main([*call, f"--output={root}/results/{run}/{folder}/{place}.parquet"]) == 0
    return f"{rule}/{place}"


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


@pytest.mark.parametrize("rule", [*CELLS, *NETWORKS])
def test_the_work_of_a_job_is_read_from_its_cells(rule, tmp_path):
    path = benchmark(tmp_path, add_job(tmp_path, rule), seconds=4.0)
    (found,), unusable = estimate_costs.read_benchmarks(tmp_path / "logs", tmp_path / "results")
    assert unusable == []
    assert found.run == "demo"
    assert found.observation.kind == rule.split("/")[0]
    expected = {**CELLS, **NETWORKS}[rule][-1]
    assert found.observation.work.flops == pytest.approx(expected.flops)
    assert found.observation.work.memory == pytest.approx(expected.memory)
    assert found.observation.seconds == pytest.approx(4)
    assert found.observation.memory == 321.5e6
    assert path.exists()


@pytest.mark.parametrize("seconds", [0.8, 12.0, 31.7, 700.0])
def test_a_core_that_was_shared_counts_for_its_part(seconds, tmp_path):
    path = benchmark(tmp_path, "render_figure/a", seconds=seconds, busy=0.4)
    whole = estimate_costs.measured(path, "render_figure", costs.LIGHT, gpu=False)
    assert whole.seconds == pytest.approx(0.4 * seconds, rel=0.02)
    on_gpu = estimate_costs.measured(path, "render_figure", costs.LIGHT, gpu=True)
    assert on_gpu.seconds == seconds


def test_a_job_too_short_to_be_looked_at_counts_whole(tmp_path):
    path = benchmark(tmp_path, "render_figure/a", seconds=0.2)
    path.write_text(path.read_text().replace("99.0\t0.00", "NA\tNA").replace("321.5", "NA"))
    found = estimate_costs.measured(path, "render_figure", costs.LIGHT, gpu=False)
    assert (found.seconds, found.memory) == (0.2, None)


def test_without_any_run_the_numbers_are_the_packages(tmp_path, capsys):
    code, found = estimate(tmp_path)
    assert code == 0
    hours = Model().seconds("compute_spectrum", costs.Work(4e12, 2e9)) / 3600
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
    assert (comparison["run"], comparison["jobs"]) == ("second", 4)
    last = comparison["rules"]["all"]
    from_others = last["predicted_hours"] / last["measured_hours"]
    assert f"{from_others:.2f}" in capsys.readouterr().out

    os.rename(tmp_path / "logs/first", tmp_path / "set_aside")
    last = estimate(tmp_path)[1]["comparison"]["rules"]["all"]
    from_defaults = last["predicted_hours"] / last["measured_hours"]
    assert from_defaults == pytest.approx(1 / 9, rel=0.1)
    assert from_defaults < 2 * from_defaults < from_others < 1.2


def test_benchmarks_that_say_nothing_are_named_in_one_line(tmp_path, capsys):
    job = add_job(tmp_path, "compute_spectrum")
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


@pytest.mark.parametrize(
    "text", ["12:00:00 depth 0, seed 1: kept\n", "12:00:00 going on from a checkpoint in epoch 3\n"]
)
def test_jobs_that_kept_something_are_not_fitted(text, tmp_path):
    path = benchmark(tmp_path, add_job(tmp_path, "compute_spectrum"), seconds=4.0)
    path.with_suffix(".log").write_text(text)
    found = estimate_costs.read_benchmarks(tmp_path / "logs", tmp_path / "results")
    assert found == ([], [path])


def test_equal_samples_end_a_search_that_is_not_fitted(tmp_path):
    job = add_job(tmp_path, "compute_infinite_min_angle")
    data = tmp_path / "results/demo/datasets/tiny/all.npz"
    save_prepared(data, Dataset("tiny", np.ones((N, D)), np.arange(N) % 3, "none"))
    output = tmp_path / "results/demo/angles/infinite_ntk/tiny/relu/depth-0/seed-1.parquet"
    call = ["--dataset=tiny", "--activation=relu", "--seeds=1", "--depths=0"]
    assert compute_infinite_min_angle.main([*call, f"--data={data}", f"--outputs={output}"]) == 0
    path = benchmark(tmp_path, job, seconds=4.0)
    found = estimate_costs.read_benchmarks(tmp_path / "logs", tmp_path / "results")
    assert found == ([], [path])


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
