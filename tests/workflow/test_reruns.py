"""Reruns are exact: what a change can affect runs again, and nothing else does."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.support.clone import job_counts
from tests.workflow.conftest import CI

pytestmark = pytest.mark.slow

SPECTRA = {"compute_spectrum", "aggregate_conditioning"}
ANGLES = {"compute_min_angle"}
INFINITE = {"compute_infinite_spectrum", "compute_infinite_min_angle"}
TRAINING = {"train_network", "aggregate_training", "aggregate_experiments", "select_learning_rates"}
DESCRIBED = {"describe_dataset"}
# Of any change: the record names the code and the config, and claims are about most tables.
AFTER = {"check_claims", "record_run", "render_page", "render_figure"}
ROW = "results/ci/spectra/empirical_ntk/digits/relu.parquet"
INFINITE_ROW = ROW.replace("empirical", "infinite")


def test_a_second_run_touching_files_and_comments_do_nothing(rerun):
    now = time.time()
    for number, path in enumerate(sorted(rerun.folder.rglob("*"))):
        if ".snakemake" not in path.parts and path.is_file():
            os.utime(path, (now + number % 7, now + number % 7))
    for file in ("kernels/empirical", "plotting/style", "networks/activations", "tables/__init__"):
        rerun.edit(f"src/ntk_conditioning/{file}.py", '"""', '"""A word more. ')
    rerun.edit(
        "scripts/compute_spectrum.py", "import numpy as np\n", "import numpy as np  # a remark\n"
    )
    rerun.edit("datasets.yaml", "title: Digits\n", "title: Handwritten digits\n")
    rerun.edit("datasets.yaml", "licence: CC BY 4.0", "licence: CC BY")
    rerun.edit("datasets.yaml", "urls: [http", "urls: [https://example.org/a, http")
    assert rerun.plan(*CI) == Counter()
    rerun.edit("datasets.yaml", "scaling: symmetric", "scaling: unit_interval")  # of digits
    flac = min(rerun.folder.glob("resources/LibriSpeech/*/*/*/*.flac"))
    flac.write_bytes(flac.read_bytes()[:-1] + b"x")  # of the same size
    planned = rerun.plan(*CI)
    assert planned["extract_speech_features"] == 1
    assert planned["prepare_dataset"] == 2 + 1 + 1  # both draws, all for training, and speech


# What a changed file of the science, or a program, reruns, and what it leaves alone.
USES = {
    "src/ntk_conditioning/plotting/style": ({"render_figure", "record_run"}, SPECTRA),
    "scripts/compute_min_angle": (ANGLES | AFTER, SPECTRA | INFINITE | TRAINING),
    "src/ntk_conditioning/kernels/infinite_network": (
        INFINITE | AFTER | DESCRIBED,
        {"compute_min_angle"},
    ),
    "src/ntk_conditioning/kernels/empirical": (SPECTRA | AFTER, INFINITE | ANGLES | DESCRIBED),
    "src/ntk_conditioning/training/mlp_ensemble": (TRAINING | AFTER, SPECTRA | ANGLES),
    # No result depends on what figures are given, or on what jobs are thought to cost.
    "src/ntk_workflow/figures/parameters": ({"record_run"}, SPECTRA | ANGLES | INFINITE | TRAINING),
    "src/ntk_workflow/resources": (set(), SPECTRA | ANGLES | INFINITE | TRAINING),
    "src/ntk_conditioning/claim_experiments/liu2023relu/pairs": (
        {"run_claim_experiments", "check_claims", "record_run"},
        SPECTRA | ANGLES | INFINITE | TRAINING,
    ),
}


def test_editing_code_reruns_what_uses_it(rerun):
    for file, (expected, untouched) in USES.items():
        path = rerun.folder / f"{file}.py"
        text = path.read_text()
        path.write_text(f"{text}\nCHANGED = True\n")
        planned = set(rerun.plan(*CI))
        assert expected <= planned, file
        assert not planned & untouched, file
        path.write_text(text)


def test_one_more_depth_of_one_dataset_computes_only_its_cells(rerun):
    rerun.edit("config/ci.yaml", "digits: {depths: [0, 1, 2]", "digits: {depths: [0, 1, 2, 3]")
    outputs = rerun.planned_outputs(*CI)
    rows = {name for name in outputs if "/spectra/" in name or "/angles/" in name}
    assert len(rows) == 2 * 2 * 2  # kernels, activations, spectra and angles
    assert all("/digits/" in name for name in rows)
    for name in ("/datasets/", "/datasheets/", "/activation_study.", "/precision."):
        assert not any(name in output for output in outputs)
    told = rerun.run_cells("--cores", "2", *CI, "--", ROW, INFINITE_ROW)
    assert all("/digits/relu/depth-3/" in cell for cell in told["computed"])
    assert len(told["computed"]) == 2 * 2
    assert len(told["kept"]) == 2 * 2 * 3


def test_one_more_seed_or_other_samples_rerun_only_what_uses_them(rerun):
    rerun.edit("config/ci.yaml", "seeds: [1, 32]", "seeds: [1, 7, 32]")  # of the main grid
    draws = {name for name in rerun.planned_outputs(*CI) if "/datasets/" in name}
    assert draws == {f"results/ci/datasets/digits/seed-7.{end}" for end in ("npz", "json")}
    rerun.edit("config/ci.yaml", "seeds: [1, 7, 32]", "seeds: [1, 32]")
    rerun.edit("config/ci.yaml", "balanced: true", "balanced: false")
    outputs = rerun.planned_outputs(*CI)
    places = [name.split("/")[2:] for name in outputs]  # kind, then dataset or kernel and dataset
    assert {p[1] for p in places if p[0] in ("datasets", "datasheets")} == {"digits"}
    assert {p[2] for p in places if p[0] in ("spectra", "angles")} == {"digits"}
    assert ["tables", "activation_study.parquet"] not in places
    rerun.edit(
        "config/ci.yaml",
        "depths: [1], width: 32, seeds: [1, 32]",
        "depths: [1], width: 32, seeds: [1]",
    )
    trained = {name for name in rerun.planned_outputs(*CI) if "/gradient_descent/" in name}
    trained = {name.split("/")[2] for name in trained}
    expected = {"training_kernels", "training", "predictions", "kernels_along_training"}
    assert trained == expected


def test_one_more_seed_of_networks_that_train_in_jobs_of_their_own_trains_it_alone(rerun):
    one_more = ("seeds: [1, 32],\n    job_per_seed: true", "seeds: [1, 7, 32], job_per_seed: true")
    rerun.edit("config/ci.yaml", *one_more)
    trained = [name for name in rerun.planned_outputs(*CI) if "/training/resnet/" in name]
    assert [name.rpartition("/")[2] for name in trained] == ["seed-7.parquet"]


def test_a_training_that_is_killed_goes_on_from_its_checkpoint(rerun):
    """The job that takes over ends in the same bytes, and trains nothing that had been trained."""
    network = "fig3/digits/mlp/relu/depth-2"
    target = f"results/ci/training/{network}.parquet"
    output = rerun.folder / target
    overlay = {"training": {"fig3": {"epochs": 400, "width": 100, "learning_rates": [0.5]}}}
    (rerun.folder / "long.json").write_text(json.dumps(overlay))
    options = (target, "--configfile", "config/ci.yaml", "long.json")
    often = '{home}scripts/train_network.py --checkpoint-minutes 0.0001"'
    rerun.edit("rules/training.smk", '{home}scripts/train_network.py"', often)
    rerun.run(*options, "--cores", "1")
    undisturbed = output.read_bytes()
    output.unlink()
    # not one that is just being written
    kept = f"results/ci/checkpoints/training/{network}/[!.]*.npz"
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *options]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    process = subprocess.Popen(command, cwd=rerun.folder, env=rerun.environment(), **quiet)
    try:
        while process.poll() is None and not rerun.files(kept):
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert rerun.files(kept)
    rerun.run(*options, "--cores", "1", "--nolock")  # the lock is of Snakemake that was killed
    log = (rerun.folder / f"logs/ci/train_network/{network}.log").read_text()
    assert "going on from a checkpoint in epoch" in log
    assert output.read_bytes() == undisturbed
    assert not rerun.files("results/ci/checkpoints/training/**/*.npz")


def test_one_figure_can_be_rerun_alone_and_its_config_again(rerun):
    rerun.edit("notebooks/liu2023relu/fig4_g.rst", "**The angle", "**The very angle")
    (rerun.folder / "results/ci/figures/liu2023relu/fig4_g.pdf").unlink()
    both = rerun.plan("liu2023relu_fig4", "liu2023relu_fig2", *CI)
    assert both == Counter(render_figure=1, liu2023relu_fig4=1)
    (rerun.folder / "results/ci/record/config.yaml").rename(rerun.folder / "again.yaml")
    # the recorded config asks for the same run, in which a figure is missing; its caption is
    # only in the report, and nothing depends on where files are
    places = (f"mirror={rerun.folder}", "data_dir=elsewhere")
    planned = rerun.plan("--configfile", "again.yaml", "--config", *places)
    assert planned == Counter(render_figure=1)


def test_a_mistake_is_told_although_what_is_asked_for_is_there(rerun):
    for target in ("liu2023relu_fig2", "results/ci/tables/conditioning.parquet"):
        done = rerun.run("-n", target, *CI, "--config", "samples=100000", check=False)
        assert done.returncode == 1
        assert "100000 is more than the 1797 samples of digits" in done.stderr.splitlines()[-1]


def test_paper_figures_are_collected_on_demand(rerun):
    target = ("collect_paper_figures", *CI)
    done = rerun.run(*target, "--cores", "1")
    assert job_counts(done.stderr) == Counter(collect_paper_figures=1)
    found = {path.name for path in rerun.files("results/ci/paper/*")}
    assert {"liu2023relu_fig2.pdf", "beyond_precision.pdf", "captions.tex"} <= found
    assert len(found) == 26 + 2
    latex = (rerun.folder / "results/ci/paper/captions.tex").read_text()
    assert latex.count("\\caption{") == latex.count("\\label{fig:") == 26

    caption = rerun.folder / "notebooks/liu2023relu/fig4_g.rst"
    os.utime(caption)
    assert rerun.plan(*target) == Counter()
    rerun.edit("notebooks/liu2023relu/fig4_g.rst", "staircase", "stairs")
    assert rerun.plan(*target) == Counter(collect_paper_figures=1)
