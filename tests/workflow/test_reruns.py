"""Reruns are exact: what a change can affect runs again, and nothing else does."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("finished")]

CI = ("--configfile", "config/ci.yaml")
# The grid of config/ci.yaml: synthetic at 3 depths, digits at 2 and speech at 1, 2 activations.
# All are small, so a job computes a row: all depths and seeds of a dataset and activation. The
# study is of 3 activations on a dataset of its own. Synthetic and speech are whole; of digits and
# the study's dataset each of 2 seeds draws its own samples.
ROWS = 3 * 2
STUDY_ROWS = 3
DRAWS = 1 + 1 + 2 + 2
EMPIRICAL = {"compute_spectrum": ROWS, "compute_min_angle": ROWS}
INFINITE = {
    "compute_infinite_spectrum": ROWS + STUDY_ROWS,
    "compute_infinite_min_angle": ROWS,
}
DATASHEETS = {"describe_dataset": DRAWS, "aggregate_datasets": 1}
TABLES = {"aggregate_spectra": 1, "aggregate_conditioning": 1, "aggregate_angles": 1}
STUDY = {"aggregate_activation_study": 1}
PRECISION = {"measure_precision": 1}
CONSTANTS = {"measure_activations": 1}
BOUNDS = {"compute_bounds": 2, "aggregate_bounds": 1}
# Of two and of four architectures.
ASSEMBLIES = {"measure_orthogonality": 2, "measure_linearity": 4, "fit_width_slopes": 1}
ASSEMBLIES |= {"aggregate_orthogonality": 1, "aggregate_linearity": 1}
# Trained are digits and speech at 2 depths, digits with the code's scale and gradient descent on
# the sphere; the last two take their learning rates from the kernel where training begins.
TRAININGS = 2 * 2 + 1 + 1
RELATIVE = 2
# Of torch's modules, without kernels: two normalisations, and one network of each other experiment.
DEEP = 2 + 5
# Training takes its own samples of digits and digits_sphere, the study of bounds of the latter and
# of another one.
WHOLE = 3
SELECTION = {"select_learning_rates": 1}
TRAINING = {"train_network": TRAININGS + DEEP, "aggregate_training": 1} | SELECTION
TRAINING_KERNELS = {
    "compute_training_kernel": TRAININGS,
    "aggregate_training_kernels": 1,
} | SELECTION
RELATIVE_TRAINING = TRAINING_KERNELS | TRAINING | {"train_network": RELATIVE}
ALL_FIGURES = {"render_figure": 20}
CLAIMS = {"check_claims": 1}  # of most tables
CLAIM_EXPERIMENTS = {"measure_statements": 1} | CLAIMS
RECORD = {"record_run": 1, "render_pages": 1}  # which any new code is
# Programs of the cells of a dataset of the main grid, and the seeds of those cells.
PROGRAMS = {
    "compute_spectrum/empirical_ntk": (1, 32),
    "compute_infinite_spectrum/infinite_ntk": (1, 32),
    "compute_min_angle": (1, 32),
    "compute_infinite_min_angle": (1, 32),
}


def test_a_first_run_computes_every_cell_once(clone):
    assert clone.plan(*CI) == Counter(
        {"extract_speech_features": 1, "prepare_dataset": DRAWS + WHOLE}
        | DATASHEETS
        | EMPIRICAL
        | INFINITE
        | TABLES
        | STUDY
        | PRECISION
        | CONSTANTS
        | BOUNDS
        | ASSEMBLIES
        | TRAINING
        | TRAINING_KERNELS
        | ALL_FIGURES
        | CLAIM_EXPERIMENTS
        | RECORD
    )
    outputs = re.findall(r"^\s+output: (.*)$", clone.run("-n", *CI).stdout, re.MULTILINE)
    files = [name for line in outputs for name in line.split(", ")]
    cells = [name for name in files if "/seed-" in name and "/depth-" in name]
    points = (3 + 2 + 1) * 2
    at_infinity = (3 + 1) * 2 + 2 * 2 * 2  # of whole datasets one for all seeds
    assert len(cells) == 3 * points * 2 + 3 * 2 * 2 + at_infinity
    assert len(set(cells)) == len(cells)


def test_a_second_run_does_nothing(finished):
    assert finished.plan(*CI) == Counter()


def test_touching_every_file_does_nothing(rerun):
    now = time.time()
    for number, path in enumerate(sorted(rerun.folder.rglob("*"))):
        if ".snakemake" not in path.parts and path.is_file():
            os.utime(path, (now + number % 7, now + number % 7))
    assert rerun.plan(*CI) == Counter()


def test_a_comment_or_docstring_does_nothing(rerun):
    for file in ("empirical", "plotting/style", "spectra", "activations", "tables/__init__"):
        rerun.edit(f"src/ntk_conditioning/{file}.py", '"""', '"""A word more. ')
    for file in ("compute_spectrum", "run_notebook"):
        rerun.edit(f"scripts/{file}.py", "import sys\n", "import sys  # a remark\n")
    assert rerun.plan(*CI) == Counter()


def test_what_a_catalogue_says_besides_the_content_does_nothing(rerun):
    rerun.edit("datasets.yaml", "title: Digits\n", "title: Handwritten digits\n")
    rerun.edit("datasets.yaml", "licence: CC BY 4.0", "licence: CC BY")
    rerun.edit("datasets.yaml", "urls: [http", "urls: [https://example.org/a, http")
    assert rerun.plan(*CI) == Counter()
    rerun.edit("datasets.yaml", "scaling: symmetric", "scaling: unit_interval")  # of digits
    assert rerun.plan(*CI)["prepare_dataset"] == 2 + 1  # both draws, and all for training


def append(clone, file: str) -> None:
    path = clone.folder / file
    path.write_text(path.read_text() + "\nCHANGED = True\n")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("src/ntk_conditioning/plotting/style.py", ALL_FIGURES),
        (
            "src/ntk_conditioning/angles/min_angle.py",  # also searches the data's own
            EMPIRICAL
            | TABLES
            | DATASHEETS
            | PRECISION
            | RELATIVE_TRAINING
            | CLAIM_EXPERIMENTS
            | {"render_figure": 12},
        ),
        (
            "src/ntk_conditioning/kernels/empirical.py",
            {"compute_spectrum": ROWS, "aggregate_spectra": 1, "aggregate_conditioning": 1}
            | DATASHEETS
            | PRECISION
            | RELATIVE_TRAINING
            | CLAIM_EXPERIMENTS
            | {"render_figure": 12},
        ),
        ("src/ntk_conditioning/kernels/infinite.py", None),
        ("src/ntk_conditioning/training/mlp_ensemble.py", TRAINING | CLAIMS | {"render_figure": 8}),
        ("scripts/compute_training_kernel.py", RELATIVE_TRAINING | CLAIMS | {"render_figure": 8}),
        ("scripts/select_learning_rates.py", SELECTION | CLAIMS | {"render_figure": 8}),
        (
            "scripts/compute_min_angle.py",
            {"compute_min_angle": ROWS, "aggregate_angles": 1} | CLAIMS | {"render_figure": 1},
        ),
        ("scripts/describe_dataset.py", DATASHEETS),
        ("scripts/run_notebook.py", ALL_FIGURES),
        ("scripts/check_claims.py", CLAIMS),
        (
            "src/ntk_conditioning/claim_experiments/liu2023relu/pairs.py",
            CLAIM_EXPERIMENTS | {"render_figure": 1},
        ),
    ],
)
def test_editing_code_reruns_exactly_what_uses_it(rerun, file, expected):
    append(rerun, file)
    planned = rerun.plan(*CI)
    if expected is None:  # figures may import the theory, which shares the recursion
        assert set(INFINITE) <= set(planned)
        assert not set(EMPIRICAL) & set(planned)
        assert all(planned[rule] == count for rule, count in (INFINITE | TABLES | STUDY).items())
    else:
        assert planned == Counter(expected | RECORD)


def cells_of(dataset: str, *, depths: Iterable[int], seeds: Iterable[int] = (1, 32)) -> set[str]:
    """Return the cells of a dataset of the main grid whose samples are drawn."""
    return {
        f"{program}/{dataset}/{activation}/depth-{depth}/seed-{seed}"
        for program in PROGRAMS
        for activation in ("relu", "linear")
        for depth in depths
        for seed in seeds
    }


def test_one_more_depth_of_one_dataset_computes_only_its_cells(rerun):
    before = {path: digest(path) for path in rerun.files("results/ci/[acds]*/**/*.*")}
    rerun.edit("config/ci.yaml", "digits: {depths: [0, 2]", "digits: {depths: [0, 2, 3]")
    outputs = rerun.planned_outputs(*CI)
    touched = {name for name in outputs if "/spectra/" in name or "/angles/" in name}
    assert all("/digits/" in name for name in touched)
    assert "results/ci/tables/spectra.parquet" in outputs
    for name in ("/datasets/", "/datasheets/", "/activation_study.", "/precision."):
        assert not any(name in output for output in outputs)
    told = rerun.run_cells(*CI, "--cores", "2")
    assert told["computed"] == cells_of("digits", depths=[3])
    assert told["kept"] == cells_of("digits", depths=[0, 2])
    after = {path: digest(path) for path in rerun.files("results/ci/[acds]*/**/*.*")}
    assert before.items() <= after.items()
    assert rerun.plan(*CI) == Counter()
    # what is no longer asked for is no reason to run a job again
    rerun.edit("config/ci.yaml", "digits: {depths: [0, 2, 3]", "digits: {depths: [0, 3]")
    assert set(rerun.plan(*CI)) == {
        *TABLES,
        *CLAIMS,
        *RECORD,
        "aggregate_datasets",
        "render_figure",
    }


def test_one_more_seed_leaves_the_other_draws_alone(rerun):
    before = {path: digest(path) for path in rerun.files("results/ci/data*/**/*")}
    # archive, JSON and table row; of what is whole for a study of its own, no table row
    assert len(before) == DRAWS * 3 + WHOLE * 2
    rerun.edit("config/ci.yaml", "seeds: [1, 32]", "seeds: [1, 7, 32]")
    outputs = rerun.planned_outputs(*CI)
    new = {name for name in outputs if "/datasets/" in name or "/datasheets/" in name}
    assert new == {
        f"results/ci/{path}"
        for dataset in ("digits", "digits_sphere")
        for path in (
            f"datasets/{dataset}/seed-7.npz",
            f"datasets/{dataset}/seed-7.json",
            f"datasheets/{dataset}/seed-7.parquet",
        )
    }
    rerun.run(*CI, "--cores", "2", "results/ci/tables/datasets.parquet")
    assert (
        before.items()
        <= {path: digest(path) for path in rerun.files("results/ci/data*/**/*")}.items()
    )


def test_one_more_seed_computes_only_its_cells(rerun):
    rerun.edit("config/ci.yaml", "seeds: [1, 32]", "seeds: [1, 7, 32]")
    tables = (f"results/ci/tables/{name}.parquet" for name in ("spectra", "angles"))
    told = rerun.run_cells(*CI, "--cores", "2", "--", *tables)
    whole = {
        f"{program}/{dataset}/{activation}/depth-{depth}/seed-7"
        for program in list(PROGRAMS)[:3]
        for dataset, depths in (("synthetic", (0, 1, 2)), ("librispeech_sample", (1,)))
        for activation in ("relu", "linear")
        for depth in depths
    }
    assert told["computed"] == whole | cells_of("digits", depths=[0, 2], seeds=[7])
    assert cells_of("digits", depths=[0, 2]) <= told["kept"]
    # at infinite width, of a whole dataset, nothing has a seed and nothing runs
    assert not any(name.endswith("seed-none") for name in told["kept"])


def test_other_samples_of_one_dataset_rerun_only_its_cells(rerun):
    rerun.edit("config/ci.yaml", "balanced: true", "balanced: false")
    outputs = rerun.planned_outputs(*CI)
    places = [name.split("/")[2:] for name in outputs]  # kind, then dataset or kernel and dataset
    assert {p[1] for p in places if p[0] in ("datasets", "datasheets")} == {"digits"}
    assert {p[2] for p in places if p[0] in ("spectra", "angles")} == {"digits"}
    assert ["tables", "datasets.parquet"] in places
    assert ["tables", "activation_study.parquet"] not in places
    tables = (f"results/ci/tables/{name}.parquet" for name in ("spectra", "angles"))
    told = rerun.run_cells(*CI, "--cores", "2", "--", *tables)
    assert told == {"computed": cells_of("digits", depths=[0, 2]), "kept": set()}


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_lost_cell_is_rebuilt_with_the_same_bytes_and_reruns_no_more_than_it_must(
    rerun, checkpoint
):
    cell = "empirical_ntk/digits/relu/depth-2/seed-32"
    before = {path: digest(path) for path in rerun.files("results/ci/**/*")}
    (rerun.folder / f"results/ci/spectra/{cell}.parquet").unlink()
    if not checkpoint:
        (kept,) = rerun.files(f"results/ci/checkpoints/spectra/{cell}-*.parquet")
        kept.unlink()
    planned = rerun.plan(*CI)
    assert planned == Counter(
        {"compute_spectrum": 1, "aggregate_spectra": 1, "aggregate_conditioning": 1}
        | {"render_figure": 3}  # fig2, spectrum_decay and convergence_vs_kappa
        | {"render_pages": 1}
        | CLAIMS
    )
    told = rerun.run_cells(*CI, "--cores", "2")
    lost = "compute_spectrum/empirical_ntk/digits/relu/depth-2/seed-32"
    assert told["computed"] == (set() if checkpoint else {lost})
    assert len(told["computed"] | told["kept"]) == 4
    assert {path: digest(path) for path in rerun.files("results/ci/**/*")} == before
    assert rerun.plan(*CI) == Counter()


ROW = "results/ci/spectra/empirical_ntk/digits/relu"
ROW_FILES = [f"{ROW}/depth-{depth}/seed-{seed}.parquet" for depth in (0, 2) for seed in (1, 32)]


def test_a_row_that_is_killed_computes_only_what_is_missing(rerun):
    """kill -9 of everything, when the first cell of a row of wide networks is done."""
    wide = (*CI, "--config", "width=4000", "--", *ROW_FILES)
    log = rerun.folder / "logs/ci/compute_spectrum/empirical_ntk/digits/relu.log"
    log.unlink()
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--cores", "1", *wide],
        cwd=rerun.folder,
        env=rerun.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for _ in range(1200):
            time.sleep(0.05)
            if log.exists() and ": computed" in log.read_text():
                break
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert log.exists()
    done = log.read_text().count(": computed")
    assert 1 <= done < 4
    rerun.run("--unlock", *CI)
    told = rerun.run_cells("--cores", "1", *wide)
    assert len(told["kept"]) >= done  # the last one may have been in place, but not yet told
    assert len(told["computed"]) == 4 - len(told["kept"]) >= 1
    assert rerun.plan(*wide) == Counter()


def test_a_row_that_fails_computes_only_what_is_missing(rerun):
    """Snakemake deletes the outputs of a failed job."""
    text = (rerun.folder / "examples/swish.py").read_text()
    broken = "    if __import__('pathlib').Path('broken').exists():\n        raise RuntimeError\n"
    head = "def swish(z):\n"
    assert head in text
    (rerun.folder / "examples/swish.py").write_text(text.replace(head, head + broken))
    # at depth 0 there is no activation to fail
    options = (*CI, "--config", "activation_files=[examples/swish.py]", "activations=[swish]")
    target = [name.replace("/relu/", "/swish/") for name in ROW_FILES]
    (rerun.folder / "broken").touch()
    assert rerun.run("--cores", "1", *options, "--", *target, check=False).returncode != 0
    assert not any((rerun.folder / name).exists() for name in target)
    (rerun.folder / "broken").unlink()
    told = rerun.run_cells("--cores", "1", *options, "--", *target)
    first = "compute_spectrum/empirical_ntk/digits/swish/depth-0/seed-1"
    assert told["kept"] == {first}
    assert len(told["computed"]) == 3
    assert all((rerun.folder / name).exists() for name in target)


def test_large_datasets_have_a_job_for_each_depth(rerun):
    """The same cells, whoever computes them: those that are there are kept."""
    rerun.edit("rules/batches.py", "LONGEST_ROW = 1800", "LONGEST_ROW = 0")
    told = rerun.run_cells(*CI, "--cores", "1", "--forcerun", "compute_spectrum", "--", *ROW_FILES)
    assert len(told["kept"]) == 4
    assert told["computed"] == set()
    logs = {
        path.name
        for path in rerun.files("logs/ci/compute_spectrum/empirical_ntk/digits/relu/*.log")
    }
    assert logs == {"depth-0.log", "depth-2.log"}
    assert rerun.plan(*CI) == Counter()


def test_a_training_that_is_killed_goes_on_from_its_checkpoint(rerun):
    """kill -9 of everything; the job that takes over ends in the same bytes."""
    target = "results/ci/training/fig3/digits/mlp/relu/depth-2.parquet"
    overlay = {"training": {"fig3": {"epochs": 400, "width": 100}}}
    (rerun.folder / "long.json").write_text(json.dumps(overlay))
    options = (target, "--cores", "1", "--configfile", "config/ci.yaml", "long.json")
    often = "scripts/train_network.py"
    rerun.edit(often, "type=positive_number, default=5.0,", "type=positive_number, default=1e-4,")
    rerun.run(*options)
    undisturbed = digest(rerun.folder / target)
    (rerun.folder / target).unlink()
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", *options],
        cwd=rerun.folder,
        env=rerun.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    kept = "results/ci/checkpoints/training/fig3/digits/mlp/relu/depth-2/*.npz"
    try:
        for _ in range(1200):
            time.sleep(0.05)
            if rerun.files(kept):
                break
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert rerun.files(kept)
    rerun.run("--unlock", "--configfile", "config/ci.yaml", "long.json")
    rerun.run(*options)
    log = rerun.folder / "logs/ci/train_network/fig3/digits/mlp/relu/depth-2.log"
    assert "going on from a checkpoint" in log.read_text()
    assert digest(rerun.folder / target) == undisturbed
    assert not rerun.files(kept)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_one_figure_can_be_rerun_alone(rerun):
    (rerun.folder / "results/ci/figures/liu2023relu/fig4_g.pdf").unlink()
    assert rerun.plan("liu2023relu_fig4", *CI) == Counter(
        {"render_figure": 1, "liu2023relu_fig4": 1}
    )
    assert rerun.plan("liu2023relu_fig2", *CI) == Counter()
