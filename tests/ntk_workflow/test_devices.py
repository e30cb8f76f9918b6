"""Which device a program computes on, and what its checkpoints know of it.

There is no GPU here: `machine` says what torch would say on a machine that has some.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import compute_min_angle
import compute_spectrum
import numpy as np
import pytest
import torch
import train_network

from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_workflow import cli
from ntk_workflow.checkpoints import cells as cell_checkpoints
from ntk_workflow.checkpoints import trainings
from ntk_workflow.devices import gpu_lock
from ntk_workflow.devices.device import device_argument, torch_device

VISIBLE = "CUDA_VISIBLE_DEVICES"
NONE_HERE = r"^--device cuda: torch sees no GPU here \({}\); give the job a GPU, install a CUDA "


class Machine:
    """A machine with some GPUs, as torch tells of it. ``started`` is what its driver has read."""

    def __init__(self, gpus: int, *, nvml: bool = True) -> None:
        self._gpus, self._nvml = gpus, nvml
        self.started: str | None = None

    def is_available(self) -> bool:
        self._start()
        return self._gpus > 0

    def device_count(self) -> int:
        """Count without starting the driver if it can, as torch does."""
        if not self._nvml:
            self._start()
        names = os.environ.get(VISIBLE) if self._nvml else self.started
        return self._gpus if names in (None, "all") else min(self._gpus, names.count(",") + 1)

    def _start(self) -> None:
        if self.started is None:
            self.started = os.environ.get(VISIBLE, "all")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Return a function that makes this a machine with so many GPUs."""
    monkeypatch.setenv(VISIBLE, "")  # so that it is as before afterwards, whatever is set
    monkeypatch.delenv(VISIBLE)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("NTK_GPU_LOCKS", str(tmp_path / "locks"))

    def made(gpus: int, **options: bool) -> Machine:
        found = Machine(gpus, **options)
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_available", found.is_available)
        monkeypatch.setattr(torch.cuda, "device_count", found.device_count)
        return found

    yield made
    for device in [*gpu_lock._held]:
        gpu_lock.release(device)


def resolved(device: str | None) -> argparse.Namespace:
    """Return the arguments of a program with a device, after it is resolved."""
    parser = cli.Parser()
    device_argument(parser)
    args = parser.parse_args([] if device is None else [f"--device={device}"])
    assert torch_device(args) == torch.device(args.device)
    return args


# --- without a GPU --------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", None])
def test_the_cpu_is_the_default_and_asks_for_nothing(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("asked for a GPU"))
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: pytest.fail("asked for a GPU"))
    assert resolved(device).device == "cpu"


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (None, "no driver or no device is found"),
        ("0", "no driver or no device is found"),
        ("", "CUDA_VISIBLE_DEVICES is '': the job was given none"),
        ("-1", "CUDA_VISIBLE_DEVICES is '-1': the job was given none"),
    ],
)
@pytest.mark.parametrize("slurm", [False, True])
def test_a_gpu_that_is_not_there_is_told_with_the_reason(
    machine, monkeypatch, caplog, names, reason, slurm
):
    machine(0)
    caplog.set_level("INFO")
    if names is not None:
        monkeypatch.setenv(VISIBLE, names)
    if slurm:
        monkeypatch.setenv("SLURM_JOB_ID", "7")
    with pytest.raises(cli.UsageError, match=NONE_HERE.format(reason)):
        resolved("cuda")
    caplog.clear()
    assert resolved("auto").device == "cpu"
    told = [record.getMessage() for record in caplog.records]
    assert told[-1] == f"device auto: the CPU, no GPU ({reason})"
    assert gpu_lock._held == {}  # others with the same list wait for nothing


def test_a_build_of_torch_without_cuda_is_told_at_once(machine, monkeypatch, tmp_path):
    machine(2)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    with pytest.raises(cli.UsageError, match=NONE_HERE.format("torch is a CPU build")):
        resolved("cuda")
    assert resolved("auto").device == "cpu"
    assert not (tmp_path / "locks").exists()


def test_another_device_is_refused():
    with pytest.raises(cli.UsageError, match="argument --device: invalid choice: 'gpu'"):
        resolved("gpu")


# --- with GPUs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cuda", "auto"])
@pytest.mark.parametrize(("names", "chosen"), [(None, "0"), ("1,0", "1"), ("GPU-5b", "GPU-5b")])
def test_one_gpu_is_chosen_before_cuda_is_started(
    machine, monkeypatch, caplog, device, names, chosen
):
    found = machine(2)
    caplog.set_level("INFO")
    if names:
        monkeypatch.setenv(VISIBLE, names)
    assert resolved(device).device == "cuda"
    assert found.started == os.environ[VISIBLE] == chosen
    assert [*gpu_lock._held] == [chosen]
    told = [record.getMessage() for record in caplog.records]
    assert told[0].startswith(f"GPU {chosen} of ")
    assert ("device auto: a GPU" in told) == (device == "auto")


def test_a_single_gpu_is_locked_as_well(machine, tmp_path):
    machine(1)
    resolved("cuda")
    assert [*gpu_lock._held] == ["0"]
    assert [path.name for path in (tmp_path / "locks").iterdir()] == ["0.lock"]


def test_a_second_call_in_the_same_process_uses_the_same_gpu(machine):
    machine(2)
    resolved("cuda")
    resolved("auto")
    assert [*gpu_lock._held] == ["0"]


@pytest.mark.parametrize("names", [None, "0,1"])
def test_in_a_slurm_job_all_that_is_visible_is_the_jobs_own(machine, monkeypatch, tmp_path, names):
    found = machine(2)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    if names:
        monkeypatch.setenv(VISIBLE, names)
    assert resolved("cuda").device == "cuda"
    assert found.started == (names or "all")
    assert not (tmp_path / "locks").exists()


def test_gpus_that_only_cuda_can_count_must_be_named(machine, monkeypatch):
    """Else all jobs would be on the first: CUDA has started before one was chosen."""
    machine(2, nvml=False)
    with pytest.raises(cli.UsageError, match=r"name them in CUDA_VISIBLE_DEVICES$"):
        resolved("cuda")


@pytest.mark.parametrize(("gpus", "names"), [(2, "0,1"), (1, None)])
def test_named_or_single_gpus_need_not_be_counted(machine, monkeypatch, gpus, names):
    machine(gpus, nvml=False)
    if names:
        monkeypatch.setenv(VISIBLE, names)
    assert resolved("cuda").device == "cuda"


# --- checkpoints ----------------------------------------------------------------------------------


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], tuple[str, str]]:
    """Return a function that tells how checkpoints of cells and trainings on a device are called.

    The training stops before it begins: there is no GPU for its network.
    """
    x = np.random.default_rng(0).standard_normal((20, 4))
    save_prepared(tmp_path / "all.npz", PreparedSamples("tiny", x, np.arange(20) % 2, "none"))
    kept: list[trainings.TrainingCheckpoints] = []
    monkeypatch.setattr(train_network, "make_ensemble", lambda *_, **options: None)
    monkeypatch.setattr(train_network, "train", lambda _, own, **options: kept.append(own) or 2)
    point = ("--experiment=fig3", "--dataset=tiny", "--activation=relu", "--depth=1")
    arguments = [
        *(*point, "--epochs=1", "--learning-rates", "0.1", "--products=together"),
        f"--data={tmp_path}/all.npz",
        *(f"--checkpoints={tmp_path}/kept", f"--output={tmp_path}/out.parquet"),
    ]

    def called(device: str) -> tuple[str, str]:
        args = resolved(device)
        cells = cell_checkpoints.Checkpoints(
            tmp_path, program=compute_spectrum.__file__, options=vars(args)
        )
        cell = cell_checkpoints.Cell("depth", 1, seed=1, data=Path(__file__))
        assert train_network.main([*arguments, f"--device={device}"]) == 130
        return cells.path(cell).name, kept[-1]._digest

    return called


def test_checkpoints_depend_on_the_device_and_not_on_how_it_was_named(machine, digests):
    machine(0)
    cpu = digests("cpu")
    assert digests("auto") == cpu
    machine(2)
    gpu = digests("cuda")
    assert digests("auto") == gpu
    assert digests("cpu") == cpu
    assert all(one != other for one, other in zip(cpu, gpu, strict=True))


@pytest.mark.parametrize("program", [compute_spectrum, compute_min_angle])
def test_a_program_keeps_the_cells_of_the_device_under_another_name(
    machine, tmp_path, capsys, program
):
    machine(0)
    x = np.random.default_rng(0).standard_normal((20, 4))
    save_prepared(tmp_path / "all.npz", PreparedSamples("tiny", x, None, "none"))
    arguments = [
        *("--dataset=tiny", "--activation=relu", "--depths=1", "--seeds=1", "--width=64"),
        *(f"--data={tmp_path}/all.npz", f"--output={tmp_path}/out.parquet"),
        f"--checkpoints={tmp_path}/kept",
    ]
    arguments += ["--kernel-size=10"] if program is compute_spectrum else []
    for device, what in (("auto", "computed"), ("cpu", "kept"), ("auto", "kept")):
        assert program.main([*arguments, f"--device={device}"]) == 0
        told = capsys.readouterr().err
        assert f"depth 1, seed 1: {what}" in told
        assert "device cpu, " in told
