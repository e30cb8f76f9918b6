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
# The grid of config/ci.yaml: synthetic at 3 depths, digits at 2 and speech at 1, 2 activations; a
# job computes all seeds. The study is of 3 activations at 2 depths, on a dataset of its own.
# Synthetic and speech are whole; of digits and the study's dataset each of 2 seeds draws its own
# samples, and then the smallest angle at infinite width is a job for each seed.
POINTS = (3 + 2 + 1) * 2
ANGLES_AT_INFINITY = (3 + 1) * 2 + 2 * 2 * 2
DRAWS = 1 + 1 + 2 + 2
EMPIRICAL = {"compute_spectrum": POINTS, "compute_min_angle": POINTS}
INFINITE = {
    "compute_infinite_spectrum": POINTS + 6,
    "compute_infinite_min_angle": ANGLES_AT_INFINITY,
}
DATASHEETS = {"describe_dataset": DRAWS, "aggregate_datasets": 1}
TABLES = {"aggregate_spectra": 1, "aggregate_conditioning": 1, "aggregate_angles": 1}
STUDY = {"aggregate_activation_study": 1}
EMPIRICAL_FIGURES = {"render_figure": 2}  # fig2 and spectrum_decay
ALL_FIGURES = {"render_figure": 5}


def test_a_first_run_computes_every_cell_once(clone):
    assert clone.plan(*CI) == Counter(
        {"extract_speech_features": 1, "prepare_dataset": DRAWS}
        | DATASHEETS
        | EMPIRICAL
        | INFINITE
        | TABLES
        | STUDY
        | ALL_FIGURES
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


def test_what_a_catalogue_says_besides_the_content_does_nothing(rerun):
    rerun.edit("datasets.yaml", "title: Digits\n", "title: Handwritten digits\n")
    rerun.edit("datasets.yaml", "licence: CC BY 4.0", "licence: CC BY")
    rerun.edit("datasets.yaml", "urls: [http", "urls: [https://example.org/a, http")
    assert rerun.plan(*CI) == Counter()
    rerun.edit("datasets.yaml", "scaling: symmetric", "scaling: unit_interval")  # of digits
    assert rerun.plan(*CI)["prepare_dataset"] == 2


def append(clone, file: str) -> None:
    path = clone.folder / file
    path.write_text(path.read_text() + "\nCHANGED = True\n")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("src/ntk_conditioning/plotting.py", ALL_FIGURES),
        (
            "src/ntk_conditioning/empirical.py",  # also searches the data's own smallest angle
            EMPIRICAL | TABLES | DATASHEETS | EMPIRICAL_FIGURES,
        ),
        ("src/ntk_conditioning/infinite.py", None),
        (
            "scripts/compute_min_angle.py",
            {"compute_min_angle": POINTS, "aggregate_angles": 1} | {"render_figure": 1},
        ),
        ("scripts/describe_dataset.py", DATASHEETS),
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
    rerun.edit("config/ci.yaml", "digits: {depths: [0, 2]", "digits: {depths: [0, 2, 3]")
    outputs = rerun.planned_outputs(*CI)
    cells = {name for name in outputs if "/spectra/" in name or "/angles/" in name}
    assert cells == {
        f"results/ci/{kind}/{kernel}/digits/{activation}/depth-3/seed-{seed}.parquet"
        for kind, kernel, seeds in (
            ("spectra", "empirical_ntk", (1, 32)),
            ("spectra", "infinite_ntk", (1, 32)),
            ("angles", "empirical_ntk", (1, 32)),
            ("angles", "infinite_ntk", (1, 32)),
        )
        for activation in ("relu", "linear")
        for seed in seeds
    }
    assert "results/ci/tables/spectra.parquet" in outputs
    assert not any("/datasets/" in name or "/datasheets/" in name for name in outputs)


def test_one_more_seed_leaves_the_other_draws_alone(rerun):
    before = {path: digest(path) for path in rerun.files("results/ci/data*/**/*")}
    assert len(before) == DRAWS * 3  # archive, JSON and table row
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
    at_infinity = {name for name in outputs if "/angles/infinite_ntk/" in name}
    assert len(at_infinity) == 2 * 2
    assert all("/digits/" in name and name.endswith("seed-7.parquet") for name in at_infinity)
    rerun.run(*CI, "--cores", "2", "results/ci/tables/datasets.parquet")
    assert (
        before.items()
        <= {path: digest(path) for path in rerun.files("results/ci/data*/**/*")}.items()
    )


def test_other_samples_of_one_dataset_rerun_only_its_cells(rerun):
    rerun.edit("config/ci.yaml", "balanced: true", "balanced: false")
    outputs = rerun.planned_outputs(*CI)
    places = [name.split("/")[2:] for name in outputs]  # kind, then dataset or kernel and dataset
    assert {p[1] for p in places if p[0] in ("datasets", "datasheets")} == {"digits"}
    assert {p[2] for p in places if p[0] in ("spectra", "angles")} == {"digits"}
    assert ["tables", "datasets.parquet"] in places
    assert ["tables", "activation_study.parquet"] not in places


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
