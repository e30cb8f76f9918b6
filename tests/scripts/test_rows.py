"""The programs that compute rows: one file however it came about, mistakes in one line."""

import re
from importlib import metadata
from pathlib import Path

import compute_bounds
import compute_infinite_min_angle
import compute_infinite_spectrum
import compute_min_angle
import compute_spectrum
import measure_architectures
import measure_finite_width
import measure_linearity
import measure_orthogonality
import measure_whole_dataset
import numpy as np
import pytest
import torch

from ntk_conditioning import memory, tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import conditioning
from ntk_workflow.checkpoints import Checkpoints
from tests.support.sources import write_prepared

STUDY = "--architecture deep --hidden m m --samples 4 --steps 3 --widths"
INFINITE = "--activation relu --kernel nngp --kernel-size 10 --depths"
#: Programs with options of their own, up to that of the numbers that rows run along.
PROGRAMS = {
    "spectrum": (compute_spectrum, "--width 8 --kernel-size 10 --depths"),
    "infinite_spectrum": (compute_infinite_spectrum, INFINITE),
    "min_angle": (compute_min_angle, "--width 64 --depths"),
    "infinite_min_angle": (compute_infinite_min_angle, "--activation relu --depths"),
    "orthogonality": (measure_orthogonality, STUDY),
    "linearity": (measure_linearity, f"--radii 1 --directions 2 {STUDY}"),
    "finite_width": (measure_finite_width, "--samples 4 9 --networks 3 --widths 5 --depths"),
    "whole_dataset": (measure_whole_dataset, "--width 8 --samples 7 --depths"),
    "architectures": (measure_architectures, "--samples 6 --network mlp_bias 4"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_prepared(tmp_path / "all.npz")
    return tmp_path


def arguments(folder: Path, program: str, options: str, *, values: str, seeds: str) -> list[str]:
    """Return a command line that writes row.parquet in a folder."""
    given = f"--data {folder}/all.npz --dataset tiny --activation tanh --seeds {seeds} --code 1"
    output = f"--output {folder}/row.parquet"
    return f"{given} {PROGRAMS[program][1]} {values} {output} {options}".split()


@pytest.fixture
def row(folder, capsys):
    """Return a function that makes a row, and says which cells were computed and which kept."""

    def make(program="spectrum", options="", *, values="1 3", seeds="1 32", kept=True):
        options += f" --checkpoints {folder}/kept" if kept else ""
        (folder / "row.parquet").unlink(missing_ok=True)  # as Snakemake does before a job
        given = arguments(folder, program, options, values=values, seeds=seeds)
        assert PROGRAMS[program][0].main(given) == 0
        log = capsys.readouterr().err
        cell = r"(?:depth|width) (\w+), seed (\w+)(?:, n \d+)?"
        computed, reused = (
            sorted(re.findall(f"{cell}: {state}$", log, re.MULTILINE))
            for state in ("computed", "kept")
        )
        return (folder / "row.parquet").read_bytes(), computed, reused

    return make


ALL = [("1", "1"), ("1", "32"), ("3", "1"), ("3", "32")]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_row_is_the_same_file_however_it_was_computed(program, row, folder):
    whole, *states = row(program, kept=False)
    assert states == [ALL, []]
    assert row(program, values="3", seeds="32")[1:] == (ALL[3:], [])
    assert row(program, values="3 1", seeds="32 1") == (whole, ALL[:3], ALL[3:])
    assert row(program) == (whole, [], ALL)
    assert {path.name for path in folder.iterdir()} == {"all.npz", "kept", "row.parquet"}


def test_a_job_that_is_stopped_goes_on_with_the_cells_it_lacks(row, folder, monkeypatch, capsys):
    whole, *_ = row(kept=False)
    init = compute_spectrum.init_mlp

    def stopped(*arguments, depth, **options):
        if depth == 3:
            raise KeyboardInterrupt
        return init(*arguments, depth=depth, **options)

    with monkeypatch.context() as patch:
        patch.setattr(compute_spectrum, "init_mlp", stopped)
        with pytest.raises(KeyboardInterrupt):
            row()
    capsys.readouterr()
    assert not (folder / "row.parquet").exists()
    assert row() == (whole, ALL[1:], ALL[:1])
    damaged = min(folder.glob("kept/*"))
    damaged.write_bytes(damaged.read_bytes()[:-100])
    assert row() == (whole, ALL[:1], ALL[1:])


#: By program, each entry of a cell's dictionary and the option that changes it: first those that
#: decide numbers, then those that say which cell it is.
BLOCKS = {"size": "--kernel-size 9", "count": "--blocks 2", "eigenvalues": "--eigenvalues none"}
BLOCKS |= {"full_spectrum_below": "--full-spectrum-below 9"}
NAMES = {"dataset": "--dataset other", "activation": "--activation erf", "seed": "--seeds 2 5"}
DEPTHS = NAMES | {"depth": "--depths 2 4"}
SAMPLES = {"samples": "--samples 5", "sample_seed": "--sample-seed 2"}
STUDIED = SAMPLES | {"classes": "--classes 0 2", "hidden": "--hidden m", "dense": "--dense"}
STUDIED |= {"step_size": "--step-size 0.1"}
WIDTHS = NAMES | {"architecture": "--architecture other", "width": "--widths 4 5"}
SPECTRUM = {"dtype": "--dtype float32", "kernel": "--kernel empirical_nngp", "width": "--width 9"}
TRAINED = {"trained_for": "--steps 2", "label_scales": "--label-scales 2"}
LINEAR = {"steps": "--steps 2", "radii": "--radii 2", "expansions": "--expansions 2"}
DECIDING = {
    "spectrum": BLOCKS | SPECTRUM | DEPTHS,
    "infinite_spectrum": BLOCKS | {"kernel": "--kernel infinite_ntk"} | DEPTHS,
    "min_angle": {"exclude_duplicates": "--exclude-duplicates", "width": "--width 65"} | DEPTHS,
    "infinite_min_angle": {"exclude_duplicates": "--exclude-duplicates"} | DEPTHS,
    "orthogonality": STUDIED | TRAINED | WIDTHS,
    "linearity": STUDIED | LINEAR | {"directions": "--directions 3"} | WIDTHS,
    "finite_width": SAMPLES | {"networks": "--networks 4", "width": "--widths 6"} | DEPTHS,
    "whole_dataset": {"n": "--samples 8", "width": "--width 9"} | DEPTHS,
    "architectures": SAMPLES | {"image": "--image 2 2 1"} | NAMES,
}
#: Entries that no option changes here: a GPU, and what is the same in all rows of a program.
FIXED = {"spectrum": {"device"}, "infinite_spectrum": {"width"}, "min_angle": {"device", "kernel"}}
FIXED |= {"infinite_min_angle": {"kernel", "width"}, "finite_width": set(), "whole_dataset": set()}
FIXED |= {"orthogonality": {"device"}, "linearity": {"device"}}
FIXED["architectures"] = {"kernel", "model", "width", "depth", "function"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_can_change_a_cell_computes_it_again(program, row, folder, monkeypatch):
    """Every entry of a cell's dictionary, one after the other; what was kept is forgotten."""
    cells = []
    write = Checkpoints.write
    monkeypatch.setattr(
        Checkpoints, "write", lambda self, cell, rows: cells.append(cell) or write(self, cell, rows)
    )
    one = {"values": "1", "seeds": "1"}
    assert row(program, **one)[1:] == (ALL[:1], [])
    first = dict(cells[0])
    entries = {"code": "--code 2"} | DECIDING[program]
    assert {*entries, "data", *FIXED[program]} == {*first}
    for entry, option in entries.items():
        cells.clear()
        _, computed, kept = row(program, option, **one)
        assert (len(computed), kept) == (len(cells), []), entry
        changed = {key for key in first if cells[0][key] != first[key]}
        assert entry in changed, (entry, changed)
        if entry not in {*DEPTHS, *WIDTHS, "kernel", "n"}:
            assert len([*folder.glob("kept/*.parquet")]) == len(cells) == 1, entry
    row(program, **one)
    write_prepared(folder / "all.npz", seed=1)
    assert row(program, **one)[2] == []
    assert row(program, **one)[2] == ALL[:1]
    monkeypatch.setattr(metadata, "version", lambda _: "0")
    assert row(program, **one)[2] == []


def test_blocks_and_networks_are_drawn_by_streams_of_their_own(row, folder):
    row(values="1", seeds="5")
    block = np.sort(generator(5, "blocks").permutation(20)[:10])
    x = torch.from_numpy(load_prepared(folder / "all.npz").x[block])
    mlp = init_mlp(4, depth=1, width=8, activation="tanh", generator=generator(5, "init"))
    (found,) = tables.read(folder / "row.parquet", "spectra").to_pylist()
    expected = conditioning(empirical.ntk(mlp, x).numpy())
    assert found["lambda_max"] == pytest.approx(expected.lambda_max, rel=1e-12)


@pytest.mark.parametrize(
    ("program", "options", "resources"),
    [
        # whole spectra side by side, and extremes one by one
        ("spectrum", "--kernel-size 5 --blocks all", "--threads 2"),
        ("spectrum", "--kernel-size 5 --blocks all --full-spectrum-below 5", "--threads 2"),
        ("infinite_spectrum", "--kernel-size 5 --blocks all", "--threads 2"),
        ("spectrum", "--kernel-size all", 310_000_000),
        ("min_angle", "--exclude-duplicates", 100_000),
    ],
)
def test_threads_and_memory_change_no_byte_and_no_cell(
    program, options, resources, row, monkeypatch
):
    usual = row(program, options)[0]
    if isinstance(resources, int):
        monkeypatch.setattr(memory, "available_bytes", lambda limit=resources: limit)
        resources = ""
    assert row(program, f"{options} {resources}", kept=False)[0] == usual
    assert row(program, f"{options} {resources}") == (usual, [], ALL)


@pytest.mark.parametrize(
    ("program", "options", "problem"),
    [
        ("spectrum", "--depths 1 1", "2 rows repeat the key (kernel, dataset, activation, depth"),
        ("spectrum", "--checkpoints kept --code=", "--checkpoints: give --code, too"),
        ("spectrum", "--data a b c", "3 files of data for 2 seeds; give one for all or as many"),
        ("min_angle", "--device cuda", "--device cuda: torch sees no GPU here"),
        ("orthogonality", "--classes 0 7", "are not two of its labels, which are 0 to 2"),
        ("orthogonality", "--step-size 1e300 --steps 9", "diverged in step"),
        ("linearity", "--data unlabelled.npz", "tiny has no labels"),
        (
            *("infinite_min_angle", "--data large.npz --activation erf --depths 2 --seeds"),
            "; scale the data to norms nearer 1, and all to one norm if σ has kinks away from 0",
        ),
    ],
)
def test_a_mistake_is_one_line(program, options, problem, folder, monkeypatch, refusal):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    write_prepared(folder / "unlabelled.npz", labels=())
    write_prepared(folder / "large.npz", scale=1e100)
    given = arguments(folder, program, options, values="1 3", seeds="1 2")
    assert problem in refusal(PROGRAMS[program][0], given)


@pytest.mark.parametrize("program", ["spectrum", "infinite_spectrum"])
def test_a_kernel_that_does_not_fit_is_one_line(program, folder, monkeypatch, refusal):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    given = arguments(folder, program, "", values="1 3", seeds="1 2")
    assert "at most 0 samples fit" in refusal(PROGRAMS[program][0], given)


def test_bounds_of_all_activations_are_one_file(folder, refusal):
    write_prepared(folder / "all.npz", scaling="unit_norm")
    given = f"--data {folder}/all.npz --dataset tiny --depths 1 4 --output {folder}/row.parquet"
    written = []
    for options in (
        "--samples 10 --activation relu erf",
        "--samples 10 --activation erf relu",
        "--samples 10 --activation relu erf --seed 2",
    ):
        assert compute_bounds.main(f"{given} {options}".split()) == 0
        written.append((folder / "row.parquet").read_bytes())
    assert written[0] == written[1] != written[2]
    rows = tables.read(folder / "row.parquet", "bounds").to_pandas()
    assert len(rows) == 2 * 2 * 2  # activations, kernels, depths
    assert set(rows["n"]) == {10}
    assert (rows["l_0"].notna() == (rows["activation"] == "erf")).all()
    words = f"{given} --activation relu --samples 31".split()
    assert "larger than the dataset's 20 samples" in refusal(compute_bounds, words)
