"""The programs that compute cells: their outputs, and what they keep of an earlier call."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import compute_infinite_min_angle
import compute_infinite_spectrum
import compute_min_angle
import compute_spectrum
import numpy as np
import pytest

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_conditioning.tables.angles import ANGLES
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_workflow.checkpoints import cells

PROGRAMS = {
    "compute_spectrum": (compute_spectrum.main, SPECTRA, {"width": 8, "kernel-size": 10}),
    "compute_infinite_spectrum": (
        compute_infinite_spectrum.main,
        SPECTRA,
        {"kernel": "nngp", "kernel-size": 10},
    ),
    "compute_min_angle": (compute_min_angle.main, ANGLES, {"width": 64}),
    "compute_infinite_min_angle": (compute_infinite_min_angle.main, ANGLES, {}),
}


def write_samples(path: Path, *, seed: int = 0) -> Path:
    x = np.random.default_rng(seed).standard_normal((20, 4))
    save_prepared(path, PreparedSamples("tiny", x, None, "none"))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_samples(tmp_path / "all.npz")
    return tmp_path


def call(
    folder: Path,
    program: str = "compute_spectrum",
    *,
    depths: tuple[int, ...] = (0, 2),
    seeds: tuple[int | str, ...] = (1, 32),
    data: tuple[str, ...] = ("all.npz",),
    more: tuple[str, ...] = (),
    **options: object,
) -> list[Path]:
    """Call a program with checkpoints and return its outputs."""
    outputs = [
        folder / f"out/depth-{depth}/seed-{seed}.parquet" for seed in seeds for depth in depths
    ]
    main, _, own = PROGRAMS[program]
    own = own | {"dataset": "tiny", "activation": "relu", "checkpoints": folder / "kept"} | options
    arguments = [f"--{name}={value}" for name, value in own.items() if value is not None]
    arguments += ["--data", *(str(folder / name) for name in data), "--seeds", *map(str, seeds)]
    arguments += ["--depths", *map(str, depths), "--outputs", *map(str, outputs), *more]
    assert main(arguments) == 0
    return outputs


@pytest.fixture
def told(capsys) -> Callable[[], dict[str, list[str]]]:
    """Return which cells were computed and which were kept, according to the log."""

    def read() -> dict[str, list[str]]:
        lines = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
        return {
            what: [line.removesuffix(f": {what}") for line in lines if line.endswith(what)]
            for what in ("computed", "kept")
        }

    return read


ALL = [f"depth {depth}, seed {seed}" for seed in (1, 32) for depth in (0, 2)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_outputs_are_seed_by_seed(folder, told, program):
    outputs = call(folder, program, checkpoints=None)
    assert told() == {"computed": ALL, "kept": []}
    for output in outputs:
        (row,) = tables.read(output, PROGRAMS[program][1]).to_pylist()
        assert f"depth-{row['depth']}/seed-{row['seed']}.parquet" in str(output)


def test_angles_at_infinite_width_need_no_seed(folder, told):
    (output,) = call(folder, "compute_infinite_min_angle", depths=(2,), seeds=("none",))
    assert told() == {"computed": ["depth 2"], "kept": []}
    assert tables.read(output, ANGLES)["seed"].to_pylist() == [None]
    call(folder, "compute_infinite_min_angle", depths=(2,), seeds=("none",))
    assert told() == {"computed": [], "kept": ["depth 2"]}


def test_angles_at_infinite_width_have_an_error_and_those_of_networks_none(folder):
    for program, known in (("compute_infinite_min_angle", True), ("compute_min_angle", False)):
        for output in call(folder, program):
            (row,) = tables.read(output, ANGLES).to_pylist()
            error = row["min_angle_error"]
            assert 0 < error < 1e-9 if known else error is None


@pytest.mark.filterwarnings("ignore::ntk_conditioning.quadrature.InaccurateDualWarning")
def test_an_angle_that_is_not_resolved_is_refused_in_one_line(tmp_path, capsys):
    x = np.random.default_rng(0).standard_normal((12, 6))
    x *= 1e5 / np.linalg.norm(x, axis=1)[:, None]
    save_prepared(tmp_path / "large.npz", Dataset("large", x, None, "none"))
    output = tmp_path / "cell.parquet"
    given = ["--dataset=large", "--activation=tanh", "--depths=2", "--seeds=none"]
    data = [f"--data={tmp_path}/large.npz", f"--outputs={output}"]
    assert compute_infinite_min_angle.main([*given, *data]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("compute_infinite_min_angle: error: large: tanh at depth 2: ")
    assert line.endswith("; scale the data to norms nearer 1")
    assert not output.exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"outputs": ["a"]}, "1 outputs for 2 depths and 2 seeds; give 4, seed by seed"),
        ({"outputs": "abcde"}, "5 outputs for 2 depths and 2 seeds; give 4, seed by seed"),
        ({"data": "abc"}, "3 files of data for 2 seeds; give one for all or as many"),
        ({"data": ["absent.npz"]}, "absent.npz does not exist"),
        ({"depths": ["-1"]}, "argument --depths: -1 is negative"),
        ({"seeds": ["none"]}, "argument --seeds: 'none' is not a whole number"),
    ],
)
@pytest.mark.parametrize("checkpoints", [True, False])
def test_a_mistake_is_one_line(tmp_path, capsys, change, problem, checkpoints):
    lists = {"data": ["x.npz"], "depths": ["0", "2"], "seeds": ["1", "2"], "outputs": "abcd"}
    arguments = ["--dataset=tiny", "--activation=relu"]
    for name, values in (lists | change).items():
        arguments += [f"--{name}", *values]
    arguments += [f"--checkpoints={tmp_path}/kept"] if checkpoints else []
    assert compute_spectrum.main(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert problem in lines[-1]
    assert sum("error" in line for line in lines) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_deleted_outputs_come_back_from_their_checkpoints(folder, told, program):
    outputs = call(folder, program)
    assert told() == {"computed": ALL, "kept": []}
    before = [output.read_bytes() for output in outputs]
    for output in outputs:
        output.unlink()
    assert call(folder, program) == outputs
    assert told() == {"computed": [], "kept": ALL}
    assert [output.read_bytes() for output in outputs] == before
    without = folder / "without"
    without.mkdir()
    write_samples(without / "all.npz")
    alone = call(without, program, checkpoints=None)
    assert [output.read_bytes() for output in alone] == before


def test_kept_outputs_are_not_touched(folder, told):
    outputs = call(folder)
    before = [(output.stat().st_ino, output.stat().st_mtime_ns) for output in outputs]
    call(folder)
    assert [(output.stat().st_ino, output.stat().st_mtime_ns) for output in outputs] == before
    assert {path.name[0] for path in folder.glob("out/*/*")} == {"s"}  # no temporary is left


def test_another_depth_or_seed_computes_only_its_cells(folder, told):
    call(folder)
    told()
    call(folder, depths=(0, 1, 2))
    assert told() == {"computed": ["depth 1, seed 1", "depth 1, seed 32"], "kept": ALL}
    call(folder, seeds=(7, 1, 32))
    assert told() == {"computed": ["depth 0, seed 7", "depth 2, seed 7"], "kept": ALL}
    call(folder, depths=(2,), seeds=(32,), threads=2)
    assert told() == {"computed": [], "kept": ["depth 2, seed 32"]}


def test_a_draw_of_one_seed_is_its_cells_alone(folder, told):
    draws = ("one.npz", "two.npz")
    for number, name in enumerate(draws):
        write_samples(folder / name, seed=number)
    call(folder, data=draws)
    told()
    write_samples(folder / draws[1], seed=5)
    call(folder, data=draws)
    assert told() == {"computed": ALL[2:], "kept": ALL[:2]}


@pytest.mark.parametrize(
    "options",
    [
        {"width": 9},
        {"kernel-size": 9},
        {"blocks": 2},
        {"eigenvalues": "none"},
        {"dtype": "float32"},
        {"dataset": "other"},
        {"activation": "tanh"},
    ],
)
def test_another_option_computes_everything_and_forgets_what_was(folder, told, options):
    call(folder)
    told()
    call(folder, **options)
    assert told() == {"computed": ALL, "kept": []}
    assert len(list(folder.glob("kept/*/*"))) == len(ALL)
    call(folder)
    assert told() == {"computed": ALL, "kept": []}


def test_excluding_duplicates_is_another_cell(folder, told):
    call(folder, "compute_min_angle")
    told()
    call(folder, "compute_min_angle", more=("--exclude-duplicates",))
    assert told()["kept"] == []


PLUGIN = """
from ntk_conditioning.activations import Activation, register

register(Activation("half", function=lambda z: z.tanh() / 2, derivative=DERIVATIVE
))
"""


def test_an_activations_file_and_the_versions_are_in_the_digest(folder, told, monkeypatch):
    plugin = folder / "half.py"
    options = {"activation": "half", "activation-file": plugin}

    def again(derivative: str) -> int:
        plugin.write_text(PLUGIN.replace("DERIVATIVE", derivative))
        call(folder, **options)
        return len(told()["computed"])

    assert again("lambda z: (1 - z.tanh() ** 2) / 2") == 4
    assert again("lambda z:  (1 - z.tanh()**2) / 2  # a remark") == 0
    assert again("lambda z: 0.5 * (1 - z.tanh() ** 2)") == 4
    monkeypatch.setattr(cells.metadata, "version", lambda _: "0")
    assert again("lambda z: 0.5 * (1 - z.tanh() ** 2)") == 4


def test_a_damaged_checkpoint_is_computed_again(folder, told):
    outputs = call(folder)
    before = outputs[1].read_bytes()
    told()
    outputs[1].write_bytes(before[:-100])  # in place: its checkpoint is the same file
    call(folder)
    assert told() == {"computed": ALL[1:2], "kept": [ALL[0], *ALL[2:]]}
    assert outputs[1].read_bytes() == before


def test_without_hard_links_cells_are_copied(folder, told, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    outputs = call(folder)
    before = [output.read_bytes() for output in outputs]
    assert {output.stat().st_nlink for output in outputs} == {1}
    for output in outputs:
        output.unlink()
    told()
    call(folder)
    assert told() == {"computed": [], "kept": ALL}
    assert [output.read_bytes() for output in outputs] == before


def test_cells_that_are_done_stay_when_a_later_one_fails(folder, told, monkeypatch):
    init = compute_spectrum.init_mlp

    def fail(*arguments: object, depth: int, **options: object) -> object:
        if depth == 2:
            raise RuntimeError("stopped")
        return init(*arguments, depth=depth, **options)

    with monkeypatch.context() as patched:
        patched.setattr(compute_spectrum, "init_mlp", fail)
        with pytest.raises(RuntimeError, match="stopped"):
            call(folder)
    assert told() == {"computed": ALL[:1], "kept": []}
    (folder / "out/depth-0/seed-1.parquet").unlink()  # as Snakemake does after a failure
    call(folder)
    assert told() == {"computed": ALL[1:], "kept": ALL[:1]}
