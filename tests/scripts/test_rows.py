"""The programs that compute rows: one file however it came about, mistakes in one line."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import compute_bounds
import compute_infinite_min_angle
import compute_infinite_spectrum
import compute_min_angle
import compute_spectrum
import measure_linearity
import measure_orthogonality
import numpy as np
import pytest
import torch

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import load_prepared
from ntk_conditioning.kernels import empirical
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import conditioning
from ntk_conditioning.tables.angles import ANGLES
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_workflow.checkpoints import origin
from tests.support.sources import write_prepared

ROOT = Path(__file__).parents[2]
STUDY = "--architecture deep --hidden m m --samples 4 --steps 3"
# The programs with options of their own. Studies have rows over widths, others over depths.
INFINITE = "--activation relu --kernel nngp --kernel-size 10"
PROGRAMS = {
    "spectrum": (compute_spectrum, "--width 8 --kernel-size 10"),
    "infinite_spectrum": (compute_infinite_spectrum, INFINITE),
    "min_angle": (compute_min_angle, "--width 64"),
    "infinite_min_angle": (compute_infinite_min_angle, "--activation relu"),
    "orthogonality": (measure_orthogonality, STUDY),
    "linearity": (measure_linearity, f"{STUDY} --radii 1 --directions 2"),
}
STUDIES = ("orthogonality", "linearity")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_prepared(tmp_path / "all.npz")
    return tmp_path


def arguments(folder: Path, program: str, options: str, *, values: str, seeds: str) -> list[str]:
    """Return a command line that writes row.parquet in a folder."""
    axis = "widths" if program in STUDIES else "depths"
    given = f"--dataset tiny --activation tanh {PROGRAMS[program][1]} --output {folder}/row.parquet"
    data = f"--data {folder}/all.npz --{axis} {values} --seeds {seeds}"
    return f"{data} {given} {options}".split()


@pytest.fixture
def row(folder, capsys):
    """Return a function that makes a row, and says which cells were computed and which kept."""

    def make(program="spectrum", options="", *, values="1 3", seeds="1 32", kept=True):
        options += f" --checkpoints {folder}/kept" if kept else ""
        (folder / "row.parquet").unlink(missing_ok=True)  # as Snakemake does before a job
        given = arguments(folder, program, options, values=values, seeds=seeds)
        assert PROGRAMS[program][0].main(given) == 0
        lines = [line.split(" ", 2)[-1] for line in capsys.readouterr().err.splitlines()]
        computed, reused = (
            sorted(line.removesuffix(end) for line in lines if line.endswith(end))
            for end in (": computed", ": kept")
        )
        return (folder / "row.parquet").read_bytes(), computed, reused

    return make


ALL = [f"depth {depth}, seed {seed}" for depth in (1, 3) for seed in (1, 32)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_row_is_the_same_file_however_it_was_computed(program, row, folder):
    cells = [cell.replace("depth", "width") if program in STUDIES else cell for cell in ALL]
    whole, computed, reused = row(program, kept=False)
    assert (computed, reused) == (cells, [])
    assert row(program, values="3", seeds="32")[1:] == (cells[3:], [])
    assert row(program, values="3 1", seeds="32 1") == (whole, cells[:3], cells[3:])
    assert row(program) == (whole, [], cells)
    assert {path.name for path in folder.iterdir()} == {"all.npz", "kept", "row.parquet"}


KILLED = """
import os, signal, sys
import compute_spectrum
from ntk_workflow.rows import finite

init = finite.init_mlp
def killed(*arguments, depth, **options):
    if depth == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return init(*arguments, depth=depth, **options)
finite.init_mlp = killed
compute_spectrum.main(sys.argv[1:])
"""


def test_a_job_that_is_killed_goes_on_with_the_cells_it_lacks(row, folder):
    whole, *_ = row(kept=False)
    (folder / "row.parquet").unlink()
    kept = f"--checkpoints {folder}/kept"
    given = arguments(folder, "spectrum", kept, values="1 3", seeds="1 32")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}/scripts"}
    killed = subprocess.run([sys.executable, "-c", KILLED, *given], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (folder / "row.parquet").exists()
    assert row() == (whole, ALL[1:], ALL[:1])


#: Options that decide a cell's numbers, by program, and some that do not.
DECIDING = {
    "spectrum": [
        *("--kernel-size 9", "--blocks 2", "--eigenvalues none", "--full-spectrum-below 9"),
        *("--width 9", "--kernel empirical_nngp", "--dtype float32"),
    ],
    "infinite_spectrum": ["--kernel infinite_ntk"],
    "min_angle": ["--exclude-duplicates"],
    "orthogonality": [
        *("--samples 5", "--sample-seed 2", "--classes 0 2", "--hidden m", "--dense"),
        *("--steps 2", "--step-size 0.1", "--label-scales 2"),
    ],
    "linearity": ["--radii 2", "--expansions 2", "--directions 3"],
}
OTHERS = [("spectrum", "--memory-gb 50 --threads 2"), ("min_angle", "--memory-gb 0.0001")]


@pytest.mark.parametrize(
    ("program", "options", "kept"),
    [
        *((program, each, False) for program, options in DECIDING.items() for each in options),
        *((*each, True) for each in OTHERS),
    ],
)
def test_what_can_change_a_cell_computes_it_again_and_forgets_what_was(
    program, options, kept, row, folder
):
    before, cells, _ = row(program)
    after, *computed_and_kept = row(program, options)
    assert computed_and_kept == ([[], cells] if kept else [cells, []])
    assert after == before or not kept
    assert len([*folder.glob("kept/*/*/*")]) == len(cells)


PLUGIN = """
from ntk_conditioning.networks.activations import Activation, register
register(Activation("half", function=lambda z: z.tanh() / 2, derivative=DERIVATIVE
))
"""


def test_code_and_versions_are_part_of_what_a_cell_depends_on(row, folder, monkeypatch):
    plugin = folder / "half.py"

    def computed(derivative: str) -> bool:
        plugin.write_text(PLUGIN.replace("DERIVATIVE", derivative))
        return row(options=f"--activation half --activation-file {plugin}")[1] != []

    assert computed("lambda z: (1 - z.tanh() ** 2) / 2")
    assert not computed("lambda z:  (1 - z.tanh()**2) / 2  # a remark")
    edited = "lambda z: 0.5 * (1 - z.tanh() ** 2)"
    assert computed(edited)
    monkeypatch.setattr(origin.metadata, "version", lambda _: "0")
    assert computed(edited)
    digest = origin.source_digest
    monkeypatch.setattr(origin, "source_digest", lambda *a, **o: digest(__file__, *a, **o))
    assert computed(edited)


def test_cells_of_drawn_samples_depend_on_the_draw_of_their_seed(row, folder):
    draws = [folder / "first.npz", folder / "second.npz"]
    for seed, path in enumerate(draws, start=1):
        write_prepared(path, seed=seed)
    options = f"--data {draws[0]} {draws[1]}"
    row(options=options)
    write_prepared(draws[1], seed=5)
    assert row(options=options)[1:] == (ALL[1::2], ALL[::2])


def test_a_damaged_checkpoint_is_computed_again(row, folder):
    before, *_ = row()
    (damaged,) = folder.glob("kept/tanh/depth-1/seed-1-*")
    damaged.write_bytes(damaged.read_bytes()[:-100])
    assert row() == (before, ALL[:1], ALL[1:])


def test_blocks_and_networks_are_drawn_by_streams_of_their_own(row, folder):
    row(values="1", seeds="5")
    block = np.sort(generator(5, "blocks").permutation(20)[:10])
    x = torch.from_numpy(load_prepared(folder / "all.npz").x[block])
    mlp = init_mlp(4, depth=1, width=8, activation="tanh", generator=generator(5, "init"))
    (found,) = tables.read(folder / "row.parquet", SPECTRA).to_pylist()
    expected = conditioning(empirical.ntk(mlp, x).numpy())
    assert found["lambda_max"] == pytest.approx(expected.lambda_max, rel=1e-12)


def test_angles_at_infinite_width_of_a_whole_dataset_have_no_seed(row, folder):
    assert row("infinite_min_angle", seeds="none")[1:] == (["depth 1", "depth 3"], [])
    assert tables.read(folder / "row.parquet", ANGLES)["seed"].to_pylist() == [None, None]
    assert row("infinite_min_angle", seeds="none")[1:] == ([], ["depth 1", "depth 3"])


@pytest.mark.parametrize(
    ("program", "options", "resources"),
    [
        # whole spectra side by side, and extremes one by one
        ("spectrum", "--kernel-size 5 --blocks all", "--threads 2"),
        ("spectrum", "--kernel-size 5 --blocks all --full-spectrum-below 5", "--threads 2"),
        ("infinite_spectrum", "--kernel-size 5 --blocks all", "--threads 2"),
        ("spectrum", "--kernel-size all", "--memory-gb 0.31"),
        ("min_angle", "--exclude-duplicates", "--memory-gb 0.0001"),
    ],
)
def test_threads_and_memory_change_no_byte(program, options, resources, row):
    usual, given = (row(program, f"{options} {more}", kept=False)[0] for more in ("", resources))
    assert usual == given


@pytest.mark.parametrize(
    ("program", "options", "problem"),
    [
        ("spectrum", "--depths 1 1", "an activation, a seed or a depth is given twice"),
        ("spectrum", "--data a b c", "3 files of data for 2 seeds; give one for all or as many"),
        ("spectrum", "--data absent.npz", "absent.npz does not exist"),
        ("spectrum", "--depths -1", "argument --depths: -1 is negative"),
        ("spectrum", "--seeds none", "argument --seeds: 'none' is not a whole number"),
        ("spectrum", "--memory-gb 0.001", "at most 0 samples fit, or 0 in float32"),
        ("spectrum", "--kernel-size 6 --blocks 4", "at most 3 fit"),
        ("infinite_spectrum", "--memory-gb 0.001", "at most 0 samples fit: lower kernel_size"),
        ("min_angle", "--device cuda", "--device cuda: torch sees no GPU here"),
        ("orthogonality", "--classes 0 7", "are not two of its labels, which are 0 to 2"),
        ("orthogonality", "--samples 15", "15 samples asked for; it must be 2 to 14"),
        ("orthogonality", "--hidden m k", "--hidden"),
        ("orthogonality", "--step-size 1e300 --steps 9", "diverged in step"),
        ("linearity", "--data unlabelled.npz", "tiny has no labels"),
        (
            *("infinite_min_angle", "--data large.npz --activation erf --depths 2 --seeds none"),
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


def test_bounds_of_all_activations_are_one_file(folder, refusal):
    given = f"--data {folder}/all.npz --dataset tiny --activation relu erf --depths 1 4"

    def compute(options: str) -> bytes:
        assert compute_bounds.main(f"{given} --output {folder}/row.parquet {options}".split()) == 0
        return (folder / "row.parquet").read_bytes()

    write_prepared(folder / "all.npz", scaling="unit_norm")
    first = compute("--samples 10")
    rows = tables.read(folder / "row.parquet", compute_bounds.BOUNDS).to_pandas()
    assert len(rows) == 2 * 2 * 2  # activations, kernels, depths
    assert set(rows["n"]) == {10}
    assert rows.query("activation == 'erf'")["l_0"].notna().all()
    assert rows.query("activation == 'relu'")["l_0"].isna().all()
    assert compute("--samples 10 --activation erf relu") == first
    assert compute("--samples 10 --seed 2") != first
    words = f"{given} --output {folder}/other.parquet --samples 31".split()
    assert "larger than the dataset's 20 samples" in refusal(compute_bounds, words)
