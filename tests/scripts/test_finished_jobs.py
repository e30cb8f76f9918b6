"""What finished jobs took, read from real cells and benchmark files."""

from __future__ import annotations

import compute_infinite_min_angle
import numpy as np
import pytest

from ntk_conditioning.data.prepared import Dataset, save_prepared
from ntk_workflow.provenance import finished_jobs
from ntk_workflow.resources import LIGHT
from tests.scripts.finished_runs import CELLS, NETWORKS, D, N, add_job, benchmark


@pytest.mark.parametrize("rule", [*CELLS, *NETWORKS])
def test_the_work_of_a_job_is_read_from_its_cells(rule, tmp_path):
    path = benchmark(tmp_path, add_job(tmp_path, rule), seconds=4.0)
    (found,), unusable = finished_jobs.read_benchmarks(tmp_path / "logs", tmp_path / "results")
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
    whole = finished_jobs.measured(path, "render_figure", LIGHT, gpu=False)
    assert whole.seconds == pytest.approx(0.4 * seconds, rel=0.02)
    on_gpu = finished_jobs.measured(path, "render_figure", LIGHT, gpu=True)
    assert on_gpu.seconds == seconds


def test_a_job_too_short_to_be_looked_at_counts_whole(tmp_path):
    path = benchmark(tmp_path, "render_figure/a", seconds=0.2)
    path.write_text(path.read_text().replace("99.0\t0.00", "NA\tNA").replace("321.5", "NA"))
    found = finished_jobs.measured(path, "render_figure", LIGHT, gpu=False)
    assert (found.seconds, found.memory) == (0.2, None)


@pytest.mark.parametrize(
    "text", ["12:00:00 depth 0, seed 1: kept\n", "12:00:00 going on from a checkpoint in epoch 3\n"]
)
def test_jobs_that_kept_something_are_not_fitted(text, tmp_path):
    path = benchmark(tmp_path, add_job(tmp_path, "compute_spectrum/empirical_ntk"), seconds=4.0)
    path.with_suffix(".log").write_text(text)
    found = finished_jobs.read_benchmarks(tmp_path / "logs", tmp_path / "results")
    assert found == ([], [path])


def test_equal_samples_end_a_search_that_is_not_fitted(tmp_path):
    job = add_job(tmp_path, "compute_infinite_min_angle")
    data = tmp_path / "results/demo/datasets/tiny/all.npz"
    save_prepared(data, Dataset("tiny", np.ones((N, D)), np.arange(N) % 3, "none"))
    output = tmp_path / "results/demo/angles/infinite_ntk/tiny/relu.parquet"
    call = ["--dataset=tiny", "--activation=relu", "--seeds=1", "--depths=0"]
    assert compute_infinite_min_angle.main([*call, f"--data={data}", f"--output={output}"]) == 0
    path = benchmark(tmp_path, job, seconds=4.0)
    found = finished_jobs.read_benchmarks(tmp_path / "logs", tmp_path / "results")
    assert found == ([], [path])
