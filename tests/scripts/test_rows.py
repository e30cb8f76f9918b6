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


DATA, ROW = Path("all.npz"), Path("row.parquet")


@pytest.fixture(autouse=True)
def _data(folder) -> None:
    write_prepared(DATA)


def arguments(program: str, options: str, *, values: str = "1 3", seeds: str) -> list[str]:
    given = f"--data {DATA} --dataset tiny --activation tanh --seeds {seeds} --code 1"
    return f"{given} {PROGRAMS[program][1]} {values} --output {ROW} {options}".split()


@pytest.fixture
def row(capsys):
    """Return a function that makes a row, and says which cells were computed and which kept."""

    def make(program="spectrum", options="", *, values="1 3", seeds="1 32", kept=True):
        options += " --checkpoints kept" if kept else ""
        ROW.unlink(missing_ok=True)  # as Snakemake does before a job
        given = arguments(program, options, values=values, seeds=seeds)
        assert PROGRAMS[program][0].main(given) == 0
        log = capsys.readouterr().err
        cell = r"(?:depth|width) (\w+), seed (\w+)(?:, n \d+)?"
        states = (re.findall(f"{cell}: {state}$", log, re.M) for state in ("computed", "kept"))
        return ROW.read_bytes(), *map(sorted, states)

    return make


ALL = [("1", "1"), ("1", "32"), ("3", "1"), ("3", "32")]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_row_is_the_same_file_however_it_was_computed(program, row):
    whole, *states = row(program, kept=False)
    assert states == [ALL, []]
    assert row(program, values="3", seeds="32")[1:] == (ALL[3:], [])
    assert row(program, values="3 1", seeds="32 1") == (whole, ALL[:3], ALL[3:])
    assert row(program) == (whole, [], ALL)
    assert {*Path().iterdir()} == {DATA, Path("kept"), ROW}


def test_a_job_that_is_stopped_goes_on_with_the_cells_it_lacks(row, monkeypatch, capsys):
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
    assert not ROW.exists()
    assert row() == (whole, ALL[1:], ALL[:1])
    damaged = min(Path("kept").iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-100])
    assert row() == (whole, ALL[:1], ALL[1:])


#: By program, the options that change an entry of a cell: first those of numbers, then of names.
BLOCKS = "kernel-size 9, blocks 2, eigenvalues none, full-spectrum-below 9"
NAMES = "dataset other, activation erf, seeds 2 5"
DEPTHS, WIDTHS = f"{NAMES}, depths 2 4", f"{NAMES}, architecture other, widths 4 5"
SAMPLES = "samples 5, sample-seed 2"
STUDIED = f"{SAMPLES}, classes 0 2, hidden m, dense, step-size 0.1, steps 2"
CHANGES = {
    "spectrum": f"{BLOCKS}, dtype float32, kernel empirical_nngp, width 9, {DEPTHS}",
    "infinite_spectrum": f"{BLOCKS}, kernel infinite_ntk, {DEPTHS}",
    "min_angle": f"exclude-duplicates, width 65, {DEPTHS}",
    "infinite_min_angle": f"exclude-duplicates, {DEPTHS}",
    "orthogonality": f"{STUDIED}, label-scales 2, {WIDTHS}",
    "linearity": f"{STUDIED}, radii 2, expansions 2, directions 3, {WIDTHS}",
    "finite_width": f"{SAMPLES}, networks 4, widths 6, {DEPTHS}",
    "whole_dataset": f"samples 8, width 9, {DEPTHS}",
    "architectures": f"{SAMPLES}, image 2 2 1, {NAMES}",
}
#: Entries that no option changes here: a GPU, and what is the same in all rows of a program.
FIXED = {"spectrum": {"device"}, "infinite_spectrum": {"width"}, "min_angle": {"device", "kernel"}}
FIXED |= {"infinite_min_angle": {"kernel", "width"}, "finite_width": set(), "whole_dataset": set()}
FIXED |= {"orthogonality": {"device"}, "linearity": {"device"}}
FIXED["architectures"] = {"kernel", "model", "width", "depth", "function"}
#: Entries that say which cell it is.
NAMED = {"kernel", "dataset", "activation", "architecture", "depth", "width", "seed", "n"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_can_change_a_cell_computes_it_again(program, row, monkeypatch):
    """Every entry of a cell's dictionary, one after the other; what was kept is forgotten."""
    cells, write = [], Checkpoints.write
    monkeypatch.setattr(
        Checkpoints, "write", lambda self, cell, rows: cells.append(cell) or write(self, cell, rows)
    )
    one = {"values": "1", "seeds": "1"}
    assert row(program, **one)[1:] == (ALL[:1], [])
    first, entries = dict(cells[0]), {"data", *FIXED[program]}
    for option in ("code 2", *CHANGES[program].split(", ")):
        cells.clear()
        _, computed, kept = row(program, f"--{option}", **one)
        assert (len(computed), kept) == (len(cells), []), option
        changed = {key for key in first if cells[0][key] != first[key]}
        if not changed & NAMED:
            assert len([*Path("kept").iterdir()]) == len(cells) == 1, option
        entries |= changed
    assert entries == {*first}
    row(program, **one)
    write_prepared(DATA, seed=1)
    assert row(program, **one)[2] == []
    assert row(program, **one)[2] == ALL[:1]
    monkeypatch.setattr(metadata, "version", lambda _: "0")
    assert row(program, **one)[2] == []


def test_blocks_and_networks_are_drawn_by_streams_of_their_own(row):
    row(values="1", seeds="5")
    block = np.sort(generator(5, "blocks").permutation(20)[:10])
    x = torch.from_numpy(load_prepared(DATA).x[block])
    mlp = init_mlp(4, depth=1, width=8, activation="tanh", generator=generator(5, "init"))
    (found,) = tables.read(ROW, "spectra").to_pylist()
    expected = conditioning(empirical.ntk(mlp, x).numpy())
    assert found["lambda_max"] == pytest.approx(expected.lambda_max, rel=1e-12)


def test_every_seed_may_have_a_file_of_its_own(row):
    write_prepared(Path("other.npz"), seed=1)

    def rows(data: str, seeds: str) -> list[dict[str, object]]:
        row(options=f"--data {data}", values="1", seeds=seeds, kept=False)
        return tables.read(ROW, "spectra").to_pylist()

    assert rows("all.npz other.npz", "1 32") == rows("all.npz", "1") + rows("other.npz", "32")


SMALL_BLOCKS = "--kernel-size 5 --blocks all"
RESOURCES = [
    ("spectrum", SMALL_BLOCKS, "--threads 2"),  # whole spectra side by side
    ("spectrum", f"{SMALL_BLOCKS} --full-spectrum-below 5", "--threads 2"),  # one by one
    ("infinite_spectrum", SMALL_BLOCKS, "--threads 2"),
    ("spectrum", "--kernel-size all", 310_000_000),
    ("min_angle", "--exclude-duplicates", 100_000),
]


@pytest.mark.parametrize(("program", "options", "more"), RESOURCES)
def test_threads_and_memory_change_no_byte_and_no_cell(program, options, more, row, monkeypatch):
    usual = row(program, options)[0]
    if isinstance(more, int):
        monkeypatch.setattr(memory, "available_bytes", lambda limit=more: limit)
        more = ""
    assert row(program, f"{options} {more}", kept=False)[0] == usual
    assert row(program, f"{options} {more}") == (usual, [], ALL)


LARGE = "--data large.npz --activation erf --depths 2 --seeds"
MISTAKES = [
    ("spectrum", "--depths 1 1", "2 rows repeat the key (kernel, dataset, activation, depth"),
    ("spectrum", "--checkpoints kept --code=", "--checkpoints: give --code, too"),
    ("spectrum", "--data a b c", "3 files of data for 2 seeds; give one for all or as many"),
    ("spectrum", "", "at most 0 samples fit"),
    ("infinite_spectrum", "", "at most 0 samples fit"),
    ("min_angle", "--device cuda", "--device cuda: torch sees no GPU here"),
    ("orthogonality", "--classes 0 7", "are not two of its labels, which are 0 to 2"),
    ("orthogonality", "--step-size 1e300 --steps 9", "diverged in step"),
    ("linearity", "--data unlabelled.npz", "tiny has no labels"),
    ("infinite_min_angle", LARGE, "; scale the data to norms nearer 1, and all to one norm if σ"),
]


@pytest.mark.parametrize(("program", "options", "problem"), MISTAKES)
def test_a_mistake_is_one_line(program, options, problem, monkeypatch, refusal):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    if not options:
        monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    write_prepared(Path("unlabelled.npz"), labels=())
    write_prepared(Path("large.npz"), scale=1e100)
    assert problem in refusal(PROGRAMS[program][0], arguments(program, options, seeds="1 2"))


def test_bounds_of_all_activations_are_one_file(refusal):
    write_prepared(DATA, scaling="unit_norm")

    def words(options: str) -> list[str]:
        return f"--data {DATA} --dataset tiny --depths 1 4 --output {ROW} {options}".split()

    written = []
    for options in ("relu erf", "erf relu", "relu erf --seed 2"):
        assert compute_bounds.main(words(f"--samples 10 --activation {options}")) == 0
        written.append(ROW.read_bytes())
    assert written[0] == written[1] != written[2]
    rows = tables.read(ROW, "bounds").to_pandas()
    assert len(rows) == 2 * 2 * 2  # activations, kernels, depths
    assert set(rows["n"]) == {10}
    assert (rows["l_0"].notna() == (rows["activation"] == "erf")).all()
    problem = "larger than the dataset's 20 samples"
    assert problem in refusal(compute_bounds, words("--samples 31 --activation relu"))
