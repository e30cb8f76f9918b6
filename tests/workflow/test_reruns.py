"""Reruns are exact: what a change can affect runs again, and nothing else does."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("finished")]

CI = ("--configfile", "config/ci.yaml")
# The grid of config/ci.yaml: synthetic at 3 depths and digits at 2, 2 activations; a job computes
# all seeds. The study is of 3 activations at 2 depths, on a dataset of its own.
POINTS = (3 + 2) * 2
EMPIRICAL = {"compute_spectrum": POINTS, "compute_min_angle": POINTS}
INFINITE = {"compute_infinite_spectrum": POINTS + 6, "compute_infinite_min_angle": POINTS}
TABLES = {"aggregate_spectra": 1, "aggregate_conditioning": 1, "aggregate_angles": 1}
STUDY = {"aggregate_activation_study": 1}
EMPIRICAL_FIGURES = {"render_figure": 2}  # fig2 and spectrum_decay
ALL_FIGURES = {"render_figure": 5}


def test_a_first_run_computes_every_cell_once(clone):
    assert clone.plan(*CI) == Counter(
        {"prepare_dataset": 3} | EMPIRICAL | INFINITE | TABLES | STUDY | ALL_FIGURES
    )


def test_a_second_run_does_nothing(finished):
    assert finished.plan(*CI) == Counter()


def test_touching_every_file_does_nothing(rerun):
    now = time.time()
    for number, path in enumerate(sorted(rerun.folder.rglob("*"))):
        if ".snakemake" not in path.parts and path.is_file():
            os.utime(path, (now + number % 7, now + number % 7))
    assert rerun.plan(*CI) == Counter()


def test_a_comment_or_docstring_does_nothing(rerun):
    for file in ("empirical", "plotting", "spectra", "activations", "tables/__init__"):
        rerun.edit(f"src/ntk_conditioning/{file}.py", '"""', '"""A word more. ')
    for file in ("compute_spectrum", "run_notebook"):
        rerun.edit(f"scripts/{file}.py", "import sys\n", "import sys  # a remark\n")
    assert rerun.plan(*CI) == Counter()


def append(clone, file: str) -> None:
    path = clone.folder / file
    path.write_text(path.read_text() + "\nCHANGED = True\n")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("src/ntk_conditioning/plotting.py", ALL_FIGURES),
        ("src/ntk_conditioning/empirical.py", EMPIRICAL | TABLES | EMPIRICAL_FIGURES),
        ("src/ntk_conditioning/infinite.py", None),
        (
            "scripts/compute_min_angle.py",
            {"compute_min_angle": POINTS, "aggregate_angles": 1} | {"render_figure": 1},
        ),
        ("scripts/run_notebook.py", ALL_FIGURES),
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
        assert planned == Counter(expected)


def test_one_more_depth_of_one_dataset_computes_only_its_cells(rerun):
    rerun.edit("config/ci.yaml", "digits: {depths: [0, 2]}", "digits: {depths: [0, 2, 3]}")
    outputs = rerun.planned_outputs(*CI)
    cells = {name for name in outputs if "/spectra/" in name or "/angles/" in name}
    assert cells == {
        f"results/ci/{kind}/{kernel}/digits/{activation}/depth-3/seed-{seed}.parquet"
        for kind, kernel, seeds in (
            ("spectra", "empirical_ntk", (1, 32)),
            ("spectra", "infinite_ntk", (1, 32)),
            ("angles", "empirical_ntk", (1, 32)),
            ("angles", "infinite_ntk", ("none",)),
        )
        for activation in ("relu", "linear")
        for seed in seeds
    }
    assert "results/ci/tables/spectra.parquet" in outputs
    assert not any("/datasets/" in name for name in outputs)


def test_a_lost_cell_is_rebuilt_with_the_same_bytes_and_reruns_no_more_than_it_must(rerun):
    cell = Path("results/ci/spectra/empirical_ntk/digits/relu/depth-2/seed-32.parquet")
    before = {path: digest(path) for path in rerun.files("results/ci/**/*")}
    (rerun.folder / cell).unlink()
    planned = rerun.plan(*CI)
    assert planned == Counter(
        {"compute_spectrum": 1, "aggregate_spectra": 1, "aggregate_conditioning": 1}
        | EMPIRICAL_FIGURES
    )
    rerun.run(*CI, "--cores", "2")
    assert {path: digest(path) for path in rerun.files("results/ci/**/*")} == before
    assert rerun.plan(*CI) == Counter()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_one_figure_can_be_rerun_alone(rerun):
    (rerun.folder / "results/ci/figures/liu2023relu/fig4_g.pdf").unlink()
    assert rerun.plan("liu2023relu_fig4", *CI) == Counter(
        {"render_figure": 1, "liu2023relu_fig4": 1}
    )
    assert rerun.plan("liu2023relu_fig2", *CI) == Counter()
