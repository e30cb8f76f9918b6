"""The estimate of a run: of real dry runs, and fitted to jobs that have finished."""

import re
from pathlib import Path

import estimate_costs
import pytest

from ntk_workflow import estimate
from ntk_workflow.estimate import Job, report
from ntk_workflow.resources import CORE
from tests.support.clone import Clone

KIND = "compute_spectrum"
STARTUP = CORE[KIND].startup
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
    assert re.search(r"^compute_spectrum\w* +\d+ +[\d.]+ +0.00 +1 min +1\.\d GB$", text, re.M)
    assert re.search(r"^all +\d\d +0\.\d\d +0\.00 +1 min +[12]\.\d GB$", text, re.M)
    assert "train_network" not in text
    assert "liu2023relu_fig2" not in text  # which only collects files
    assert "no job of this run has been measured" in text
    assert not (folder / "results/ci").exists()


def test_what_a_profile_gives_to_a_gpu_is_counted_there(estimated):
    more = ["--profile", "slurm", "--configfile", "config/paper.yaml"]
    code, text, _ = estimated("agarwal2021deep_fig4", *more)
    assert code == 0
    row = re.search(r"^train_network +(\d+) +([\d.]+) +([\d.]+)", text, re.M)
    assert int(row[1]) > 1
    assert float(row[2]) == float(row[3]) > 1  # core-hours, GPU-hours
    assert "GPU-hours of train_network are by an H100's rates" in text
    assert "attempts of a day" not in text  # ten seeds of a ResNet-110 are ten jobs


def test_a_job_that_no_attempt_finishes_is_told_with_the_retries_that_it_needs():
    days = [Job("train_network", 86400 * days, gpus=1) for days in (0.5, 2.1)]
    (line,) = [line for line in report(days, {}) if "attempts" in line]
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
    resources: tmpdir=/tmp, mem_mb=2000, mem=2 GB, gpu=0, core_seconds=90
    shell: echo "
    output: nothing"

localrule all:
    input: a.parquet
"""
TOTAL = "total    {}\n"


def test_a_dry_run_is_read_whole_or_not_at_all():
    files = {"benchmark": "a.tsv", "log": "a.log", "outputs": ("a.parquet",)}
    whole = Job(KIND, 90, threads=4, mem_mb=2000, **files)
    assert estimate.jobs(TOTAL.format(2) + BLOCK + TOTAL.format(2)) == [whole]
    assert whole.hours == 90 / 3600 / 4
    assert estimate.jobs("Nothing to be done (all requested files are present).") == []
    with pytest.raises(estimate.DryRunError, match="counts 3 jobs and 2 can be read"):
        estimate.jobs(TOTAL.format(3) + BLOCK)
    with pytest.raises(estimate.DryRunError, match=r"compute_spectrum: .* mem_mb is <TBD>"):
        estimate.jobs(TOTAL.format(2) + BLOCK.replace("mem_mb=2000", "mem_mb=<TBD>"))


def finished_job(root: Path, seconds: float, *, busy: str = "NA", log: str = "", gpus: int = 0):
    """Return a job with the files that it left: ``busy`` is its processor time."""
    (root / "a.tsv").write_text(f"s\tmax_rss\tcpu_time\n{seconds}\t321.5\t{busy}\n")
    (root / "a.log").write_text(log)
    return Job(KIND, 90, gpus=gpus, benchmark=str(root / "a.tsv"), log=str(root / "a.log"))


@pytest.mark.parametrize(("seconds", "looked"), [(0.8, 0.5), (31.7, 15.5), (700.0, 675.5)])
def test_a_core_that_was_shared_counts_for_its_part(seconds, looked, tmp_path):
    """Of the time until Snakemake's last look at the process."""
    shared = finished_job(tmp_path, seconds, busy=f"{0.4 * looked:.3f}")
    assert estimate.measured(shared) == pytest.approx(0.4 * seconds)
    shared = finished_job(tmp_path, seconds, busy="0.1", gpus=1, log="device cuda, float32\n")
    assert estimate.measured(shared) == seconds
    assert estimate.measured(finished_job(tmp_path, seconds)) == seconds  # too short for a look


def test_a_part_of_a_job_another_device_and_a_damaged_file_do_not_count(tmp_path):
    resumed = ["depth 0, seed 1: kept\n", "going on from a checkpoint in epoch 3\n"]
    for log in (*resumed, "device cuda\n"):
        assert estimate.measured(finished_job(tmp_path, 4.0, log=log)) is None
    assert estimate.measured(Job(KIND, 90)) is None
    damaged = finished_job(tmp_path, 4.0)
    Path(damaged.benchmark).write_text("")
    assert estimate.measured(damaged) is None


def test_an_estimate_learns_this_machine_from_its_finished_jobs():
    def after(pairs: list[tuple[float, float]]) -> float:
        finished = {KIND: [(Job(KIND, seconds), measured) for seconds, measured in pairs]}
        return estimate.fitted([Job(KIND, STARTUP + 5000)], finished)[0].seconds

    assert after([]) == STARTUP + 5000
    slow = [(STARTUP + work, 4 * STARTUP + 2 * work) for work in (1, 10, 100, 1000)] * 10
    assert after(slow) == pytest.approx(4 * STARTUP + 10000, rel=0.1)
    assert 1.1 * 5000 < after([(1000, 4000)]) < 2.5 * 5000  # one job says less than many
    short = [(STARTUP + 0.01, 8 * STARTUP)] * 50
    assert after(short) == pytest.approx(5000, rel=0.05)  # they say nothing of long ones
