"""Programs for kernels of any size: whole spectra or extremes, within the memory and the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import compute_infinite_spectrum
import compute_min_angle
import compute_spectrum
import numpy as np
import pytest
import torch

from ntk_conditioning import tables
from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_conditioning.tables.angles import ANGLES
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_workflow.checkpoints import cells

PROGRAMS = {
    "empirical": (compute_spectrum.main, ["--width=16"]),
    "empirical_nngp": (compute_spectrum.main, ["--kernel=empirical_nngp", "--width=150"]),
    "infinite_ntk": (compute_infinite_spectrum.main, ["--kernel=infinite_ntk"]),
    "nngp": (compute_infinite_spectrum.main, ["--kernel=nngp"]),
}
EMPIRICAL_AND_INFINITE = ("empirical", "infinite_ntk")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """120 samples with 6 features."""
    return write_samples(tmp_path / "all.npz", equal=0)


def write_samples(path: Path, *, equal: int) -> Path:
    """Write samples of which so many, the last, are equal to the first."""
    x = np.random.default_rng(0).standard_normal((120, 6))
    x[120 - equal :] = x[:equal]
    save_prepared(path, PreparedSamples("tiny", x, None, "none"))
    return path


def arguments(data: Path, *more: str, activation: str = "relu", depth: int = 2) -> list[str]:
    """Return the arguments of every program for one cell, out.parquet beside the data."""
    return [
        f"--data={data}",
        f"--outputs={data.parent / 'out.parquet'}",
        *("--dataset=tiny", "--seeds=1", f"--depths={depth}", f"--activation={activation}"),
        *more,
    ]


def rows(data: Path, program: str, *more: str, **cell: Any) -> list[dict[str, Any]]:
    """Return the rows of a cell, from a call that must succeed."""
    main, own = PROGRAMS[program]
    assert main(arguments(data, *own, *more, **cell)) == 0
    return tables.read(data.parent / "out.parquet", SPECTRA).to_pylist()


def refusal(capsys: pytest.CaptureFixture[str], main: Any, given: list[str]) -> str:
    """Return the one line about an error of a call that must fail and write nothing."""
    output = next(Path(text.split("=", 1)[1]) for text in given if text.startswith("--outputs="))
    capsys.readouterr()
    assert main(given) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "error" in line] == lines[-1:]
    assert not any("Traceback" in line for line in lines)
    assert not output.exists()
    return lines[-1]


# --- extremes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_from_a_size_on_only_the_extremes_are_computed(data, program):
    small = ("--kernel-size=60", "--blocks=2", "--eigenvalues=all")
    whole = rows(data, program, *small, "--full-spectrum-below=61")
    found = rows(data, program, *small, "--full-spectrum-below=60")
    assert [row["block"] for row in found] == [0, 1]
    for row, other in zip(found, whole, strict=True):
        assert (row["method"], other["method"]) == ("extremes", "spectrum")
        assert (row["eigenvalues"], row["effective_rank"]) == (None, None)
        assert len(other["eigenvalues"]) == 60
        assert (row["n"], row["numerical_rank"]) == (60, other["numerical_rank"])
        assert row["lambda_max"] == pytest.approx(other["lambda_max"], abs=0, rel=1e-12)
        assert row["kappa"] == pytest.approx(other["kappa"], abs=0, rel=1e-8)
        assert 0 < row["kappa_error"] < 1e-6
        assert 0 < row["lambda_min_error"] < 1e-6 * row["lambda_min"]
        assert 0 < row["lambda_max_error"] < 1e-6 * row["lambda_max"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_kernel_with_equal_samples_has_no_smallest_eigenvalue(data, program):
    write_samples(data, equal=10)
    whole = rows(data, program, "--kernel-size=all", "--full-spectrum-below=121")
    found = rows(data, program, "--kernel-size=all", "--full-spectrum-below=120")
    assert [row["numerical_rank"] for row in (*whole, *found)] == [110, 110]
    (row,) = found
    assert (
        row["lambda_min"] is row["lambda_min_error"] is row["kappa"] is row["kappa_error"] is None
    )
    assert row["kappa_nonzero"] == pytest.approx(whole[0]["kappa_nonzero"], abs=0, rel=1e-3)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("cell", [{"activation": "linear"}, {"depth": 0}])
def test_linear_networks_are_solved_from_their_factor_whatever_the_size(data, program, cell):
    found = rows(data, program, "--kernel-size=5", "--full-spectrum-below=1", **cell)
    (row,) = found
    assert row["method"] == "factor"
    assert len(row["eigenvalues"]) == 5
    assert row["effective_rank"] is not None
    assert 0 < row["kappa_error"] < 1e-10


def test_float32_extremes_are_flagged(data):
    more = ("--kernel-size=60", "--dtype=float32", "--full-spectrum-below=60")
    (row,) = rows(data, "empirical", *more)
    assert (row["method"], row["dtype"], row["reduced_precision"]) == ("extremes", "float32", True)


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_does_not_fit_is_refused_in_one_line(data, program, capsys):
    main, own = PROGRAMS[program]
    given = arguments(data, *own, "--kernel-size=all", "--memory-gb=0.001")
    line = refusal(capsys, main, given)
    assert "a kernel of 120 samples in float64 needs" in line
    assert "at most 0 samples fit" in line
    assert ("in float32:" in line) == ("empirical" in program)
    assert "take fewer samples" in line


@pytest.mark.parametrize("program", EMPIRICAL_AND_INFINITE)
def test_the_line_names_a_size_that_then_passes(data, program, capsys):
    """A budget between those of 60 and of 120 samples, found from what the error says."""
    main, own = PROGRAMS[program]
    low, high = 0.3, 0.4  # of 60 samples or fewer, and of all
    for _ in range(30):
        middle = (low + high) / 2
        code = main(arguments(data, *own, "--kernel-size=60", f"--memory-gb={middle}"))
        low, high = (middle, high) if code == 2 else (low, middle)
    (data.parent / "out.parquet").unlink()
    given = arguments(data, *own, "--kernel-size=all", f"--memory-gb={high}")
    line = refusal(capsys, main, given)
    assert "at most 60 samples fit" in line
    assert len(rows(data, program, "--kernel-size=60", f"--memory-gb={high}")) == 1


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("cell", [{"activation": "linear"}, {"depth": 0}])
def test_linear_networks_have_no_kernel_that_must_fit(data, program, cell):
    (row,) = rows(data, program, "--kernel-size=5", "--memory-gb=0.001", **cell)
    assert row["method"] == "factor"


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf", "much"])
def test_a_memory_that_is_none_is_refused(data, given, capsys):
    line = refusal(
        capsys, compute_spectrum.main, arguments(data, "--width=16", f"--memory-gb={given}")
    )
    assert "argument --memory-gb" in line


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_memory_changes_no_byte(data, program):
    output = data.parent / "out.parquet"
    rows(data, program, "--kernel-size=all")
    usual = output.read_bytes()
    rows(data, program, "--kernel-size=all", "--memory-gb=0.31")
    assert output.read_bytes() == usual


def test_the_memory_changes_no_byte_of_an_angle(data):
    write_samples(data, equal=3)
    output = data.parent / "out.parquet"
    for more in ((), ("--exclude-duplicates",)):
        given = arguments(data, "--width=32", *more)
        assert compute_min_angle.main(given) == 0
        usual = output.read_bytes()
        for memory in ("0.001", "0.0001", "1"):
            output.unlink()
            assert compute_min_angle.main([*given, f"--memory-gb={memory}"]) == 0
            assert output.read_bytes() == usual
        (row,) = tables.read(output, ANGLES).to_pylist()
        assert (row["min_angle"] > 0) == bool(more)


# --- threads, device, checkpoints -----------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("below", [25, 21, 20])
def test_two_threads_write_the_same_bytes_as_one(data, program, below):
    several = ("--kernel-size=20", "--blocks=all", f"--full-spectrum-below={below}")
    written = []
    for threads in (1, 2, 2):
        assert len(rows(data, program, *several, f"--threads={threads}")) == 6
        written.append((data.parent / "out.parquet").read_bytes())
    assert len(set(written)) == 1


def test_an_error_in_a_thread_is_one_line_too(data, capsys, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise compute_spectrum.spectra.IndefiniteError("no kernel")

    monkeypatch.setattr(compute_spectrum.spectra, "conditioning", fail)
    given = arguments(data, "--width=16", "--kernel-size=20", "--blocks=all", "--threads=2")
    assert refusal(capsys, compute_spectrum.main, given).endswith("error: no kernel")


@pytest.mark.parametrize("main", [compute_spectrum.main, compute_min_angle.main])
def test_a_gpu_that_is_not_there_is_told_in_one_line(data, capsys, monkeypatch, main):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    line = refusal(capsys, main, arguments(data, "--width=16", "--device=cuda"))
    assert "--device cuda: torch sees no GPU here" in line


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        (("--memory-gb=50",), True),
        (("--threads=2",), True),
        (("--full-spectrum-below=30",), False),
        (("--full-spectrum-below=31",), False),
    ],
)
@pytest.mark.parametrize("program", EMPIRICAL_AND_INFINITE)
def test_a_checkpoint_depends_on_the_method_and_not_on_the_memory(data, program, more, kept):
    folder = data.parent / "kept"
    usual = ("--kernel-size=30", f"--checkpoints={folder}")
    rows(data, program, *usual)
    before = set(folder.glob("*/*"))
    assert len(before) == 1
    rows(data, program, *usual, *more)
    after = set(folder.glob("*/*"))
    assert len(after) == 1
    assert (after == before) == kept


def test_the_device_is_in_the_digest_and_the_memory_is_not():
    assert "memory_gb" in cells.APART
    assert "device" not in cells.APART
