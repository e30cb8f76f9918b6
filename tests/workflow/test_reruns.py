import json
import os
import re
import signal
import time
from collections import Counter

import pytest

from tests.support.clone import job_counts
from tests.workflow.conftest import CI, CI_FILES

pytestmark = pytest.mark.slow

SPECTRA = {"compute_spectrum"}
ANGLES = {"compute_min_angle"}
INFINITE = {"compute_infinite_spectrum", "compute_infinite_min_angle"}
TRAINING = {"train_network", "aggregate_training", "select_learning_rates"}
# Of any change of rows: the record names the code and the config, and claims are about most tables.
AFTER = {"aggregate_table", "check_claims", "record_run", "render_page", "render_figure"}
ROW = "results/ci/spectra/empirical_ntk/digits/relu.parquet"


def test_what_means_the_same_reruns_nothing(rerun):
    files = [path for path in rerun.files("**/*") if ".snakemake" not in path.parts]
    for number, path in enumerate(files):
        os.utime(path, 2 * (time.time() + number % 7,))
    for file in ("kernels/empirical", "plotting/theme", "networks/activations", "tables/__init__"):
        rerun.edit(f"src/ntk_conditioning/{file}.py", '"""', '"""A word more. ')
    rerun.edit("scripts/compute_spectrum.py", "import torch", "# a remark\nimport torch")
    rerun.edit("datasets.yaml", "urls: [http", "urls: [https://example.org/a, http")
    rerun.edit("config/ci.yaml", "\nseeds: [1, 32]", "\nseeds: [32, 1]")
    rerun.edit("config/ci.yaml", "depths: [0, 1, 2], balanced", "depths: [2.0, 0, 1], balanced")
    assert rerun.plan(*CI) == Counter()


SCIENCE = "src/ntk_conditioning"
#: What changed files of the science, or a program, rerun, and what they leave alone.
USES = {
    (f"{SCIENCE}/plotting/theme", f"{SCIENCE}/claim_experiments/liu2023relu/kernels"): (
        {"render_figure", "run_claim_experiments", "check_claims", "record_run"},
        SPECTRA | ANGLES | INFINITE | TRAINING,
    ),
    ("scripts/compute_min_angle", f"{SCIENCE}/training/mlp_ensemble"): (
        ANGLES | TRAINING | AFTER,
        SPECTRA | INFINITE,
    ),
    (f"{SCIENCE}/kernels/empirical",): (SPECTRA | AFTER, INFINITE | ANGLES),
}
DATA = {"prepare_dataset", "describe_dataset"}
DRAWN = {"render_figure", "render_explorer"}
#: The same of edits of config and catalogue, and the number of rows of spectra.
EDITS = [
    ("config/ci.yaml", "{depths: [0, 1, 2]", "{depths: [0, 1, 2, 3]", SPECTRA | ANGLES, DATA, 4),
    ("config/ci.yaml", "\nseeds: [1, 32]", "\nseeds: [1, 7, 32]", DATA | SPECTRA, TRAINING, 4 + 4),
    ("config/ci.yaml", "\ndatasets: [digits, ", "\ndatasets: [", AFTER, TRAINING, 0),
    ("datasets.yaml", "title: Digits\n", "title: Numbers\n", DRAWN, DATA | SPECTRA | TRAINING, 0),
    ("datasets.yaml", "scaling: symmetric", "scaling: unit_interval", DATA | TRAINING, set(), 4),
]


def test_an_edit_reruns_what_uses_it(rerun):
    for files, (expected, untouched) in USES.items():
        for file in files:
            rerun.edit(f"{file}.py", '"""', 'CHANGED = True\n"""')
        planned = set(rerun.plan(*CI))
        assert expected <= planned, files
        assert not planned & untouched, files
        for file in files:
            rerun.edit(f"{file}.py", 'CHANGED = True\n"""', '"""')
    for file, old, new, expected, untouched, rows in EDITS:
        rerun.edit(file, old, new)
        planned = rerun.plan(*CI)
        assert expected <= set(planned), new
        assert not set(planned) & untouched, new
        assert planned["compute_spectrum"] + planned["compute_infinite_spectrum"] == rows, new
        rerun.edit(file, new, old)
    flac = min(rerun.folder.glob("resources/LibriSpeech/*/*/*/*.flac"))
    flac.write_bytes(flac.read_bytes()[:-1] + b"x")  # of the same size
    assert rerun.plan(*CI)["extract_speech_features"] == 1


def test_cells_that_are_there_are_kept(rerun):
    rerun.edit("config/ci.yaml", "digits: {depths: [0, 1, 2]", "digits: {depths: [0, 1, 2, 3]")
    (rerun.folder / ROW).unlink()
    rerun.run(ROW, "--cores", "1", *CI)
    log = rerun.folder / "logs/ci/compute_spectrum/empirical_ntk/digits/relu.log"
    cells = [line.rpartition(", ")[2] for line in log.read_text().splitlines() if "depth " in line]
    assert Counter(cell.rpartition(": ")[2] for cell in cells) == Counter(kept=6, computed=2)
    one_more = ("seeds: [1, 32],\n    job_per_seed: true", "seeds: [1, 7, 32], job_per_seed: true")
    rerun.edit("config/ci.yaml", *one_more)
    trained = [name for name in rerun.planned_outputs(*CI) if "/training/resnet/" in name]
    assert [name.rpartition("/")[2] for name in trained] == ["seed-7.parquet"]


def test_after_ctrl_c_make_ends_in_one_line(rerun):
    long = {"depths": [1], "epochs": 100_000, "learning_rates": [0.5]}
    (rerun.folder / "long.yaml").write_text(json.dumps({"training": {"fig3": long}}))
    (rerun.folder / ".venv").mkdir()
    (rerun.folder / ".venv/.installed").touch()
    log = rerun.folder / "logs/ci/train_network/fig3/digits/mlp/relu/depth-1.log"
    log.unlink()
    said = rerun.folder / "said"
    make = ["make", "demo", "CORES=1", f"CONFIG={' '.join(CI_FILES)} long.yaml"]
    process = rerun.start(said, *make)
    while not (log.exists() and "device cpu" in log.read_text()):
        assert process.poll() is None, said.read_text()
        time.sleep(0.05)
    time.sleep(3)  # by then it handles signals
    os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=300)
    end = r"Stopped; the same command goes on where it was\.\n(make: .*\n)?\Z"
    assert re.search(end, said.read_text())
    assert "stopped by a signal" in log.read_text()


def test_one_figure_can_be_rerun_alone_and_its_config_again(rerun):
    rerun.edit("notebooks/liu2023relu/fig4_g.rst", "**The angle", "**The very angle")
    (rerun.folder / "results/ci/figures/liu2023relu/fig4_g.pdf").unlink()
    planned = rerun.plan("liu2023relu_fig4", "liu2023relu_fig2", *CI)
    assert planned == Counter(render_figure=1, liu2023relu_fig4=1)
    (rerun.folder / "results/ci/record/config.yaml").rename(rerun.folder / "again.yaml")
    # the recorded config asks for the same run, in which a figure is missing; its caption is
    # only in the report, and nothing depends on where files are
    places = ("--config", f"mirror={rerun.folder}", "data_dir=elsewhere")
    assert rerun.plan("--configfile", "again.yaml", *places) == Counter(render_figure=1)


def test_paper_figures_are_collected_on_demand(rerun):
    target = ("collect_paper_figures", *CI)
    jobs = job_counts(rerun.run(*target, "--cores", "1"))
    assert jobs == Counter(collect_paper_figures=1)
    found = {path.name for path in rerun.files("results/ci/paper/*")}
    assert {"liu2023relu_fig2.pdf", "beyond_precision.pdf", "captions.tex"} <= found
    rerun.edit("notebooks/liu2023relu/fig4_g.rst", "staircase", "stairs")
    assert rerun.plan(*target) == Counter(collect_paper_figures=1)
