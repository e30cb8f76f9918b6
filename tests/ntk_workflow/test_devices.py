"""Which device a program computes on, and that jobs on one machine never share a GPU.

There is no GPU here: `machine` says what torch would say on a machine that has some. Locks are
files with the names of GPUs, which real processes hold.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import compute_min_angle
import compute_spectrum
import numpy as np
import pytest
import torch
import train_network

from ntk_conditioning.data.prepared import PreparedSamples, save_prepared
from ntk_workflow import cli, devices
from ntk_workflow.checkpoints import trainings
from ntk_workflow.devices import hold_one, lock_folder, visible
from tests.fault_server import wait_until

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


@pytest.fixture(autouse=True)
def _nothing_stays_held() -> Iterator[None]:
    yield
    for device in [*devices._held]:
        devices.release(device)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Machine]:
    """Return a function that makes this a machine with so many GPUs."""
    monkeypatch.setenv(VISIBLE, "")  # so that it is as before afterwards, whatever is set
    monkeypatch.delenv(VISIBLE)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("NTK_GPU_LOCKS", str(tmp_path / "locks"))

    def make(gpus: int, **options: bool) -> Machine:
        machine = Machine(gpus, **options)
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_available", machine.is_available)
        monkeypatch.setattr(torch.cuda, "device_count", machine.device_count)
        return machine

    return make


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level("INFO")
    return lambda: [record.getMessage() for record in caplog.records]


def resolved(device: str) -> str:
    """Return the device of a program that was given one."""
    args = argparse.Namespace(device=device)
    assert devices.torch_device(args) == torch.device(args.device)
    return str(args.device)


# --- without a GPU --------------------------------------------------------------------------------


def test_the_cpu_is_the_default_and_needs_no_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("looked for a GPU"))
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: pytest.fail("looked for a GPU"))
    parser = cli.Parser()
    devices.device_argument(parser)
    assert resolved(parser.parse_args([]).device) == "cpu"


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
def test_a_missing_gpu_is_reported_with_the_reason(
    machine, monkeypatch, lines, names, reason, slurm
):
    machine(0)
    if names is not None:
        monkeypatch.setenv(VISIBLE, names)
    if slurm:
        monkeypatch.setenv("SLURM_JOB_ID", "7")
    with pytest.raises(cli.UsageError, match=NONE_HERE.format(reason)):
        resolved("cuda")
    assert resolved("auto") == "cpu"
    assert lines()[-1] == f"device auto: the CPU, no GPU ({reason})"
    assert devices._held == {}  # others with the same list wait for nothing


def test_a_build_of_torch_without_cuda_is_reported_at_once(machine, monkeypatch, tmp_path):
    machine(2)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    with pytest.raises(cli.UsageError, match=NONE_HERE.format("torch is a CPU build")):
        resolved("cuda")
    assert resolved("auto") == "cpu"
    assert not (tmp_path / "locks").exists()


# --- with GPUs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "names", "chosen"),
    [(2, None, "0"), (2, "1,0", "1"), (2, "GPU-5b", "GPU-5b"), (1, None, "0")],
)
def test_one_gpu_is_chosen_before_cuda_is_started(machine, monkeypatch, lines, gpus, names, chosen):
    machine = machine(gpus)
    if names:
        monkeypatch.setenv(VISIBLE, names)
    assert resolved("cuda") == "cuda"
    assert machine.started == os.environ[VISIBLE] == chosen
    assert resolved("auto") == "cuda"  # in the same process it is the same GPU
    assert [*devices._held] == [chosen]
    assert lines()[0].startswith(f"GPU {chosen} of ")
    assert lines()[1:] == ["device auto: a GPU"]


@pytest.mark.parametrize("names", [None, "0,1"])
def test_in_a_slurm_job_all_that_is_visible_is_the_jobs_own(machine, monkeypatch, tmp_path, names):
    machine = machine(2)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    if names:
        monkeypatch.setenv(VISIBLE, names)
    assert resolved("cuda") == "cuda"
    assert machine.started == (names or "all")
    assert not (tmp_path / "locks").exists()


@pytest.mark.parametrize(("gpus", "names"), [(2, None), (2, "0,1"), (1, None)])
def test_gpus_that_only_cuda_can_count_must_be_named(machine, monkeypatch, gpus, names):
    """Else all jobs would be on the first: CUDA has started before one was chosen."""
    machine(gpus, nvml=False)
    if names:
        monkeypatch.setenv(VISIBLE, names)
    if gpus == 1 or names:
        assert resolved("cuda") == "cuda"
    else:
        with pytest.raises(cli.UsageError, match=r"name them in CUDA_VISIBLE_DEVICES$"):
            resolved("cuda")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("1", ["1"]),
        ("2, 0", ["2", "0"]),
        ("GPU-5b,MIG-1/2/0", ["GPU-5b", "MIG-1/2/0"]),
        ("0,-1,1", ["0"]),  # as CUDA reads it
        ("0,,1", ["0"]),
    ],
)
def test_named_gpus_are_not_counted(monkeypatch, names, expected):
    """Counting may start CUDA, which then does not look at the choice any more."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: pytest.fail("counted"))
    monkeypatch.setenv(VISIBLE, names)
    assert visible() == expected


# --- locks ----------------------------------------------------------------------------------------

# Holds a GPU until there is a file "go"; two that hold the same one fail.
JOB = """
import logging, sys, time
from pathlib import Path

from ntk_workflow import devices

devices.PAUSE = 0.01
logging.basicConfig(level="INFO", format="%(message)s")
place, report, names = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
device = devices.hold_one(names, place / "locks", report=report)
used = place / f"used-{device.replace('/', '_')}"
used.open("x").close()
while not (place / "go").exists():
    time.sleep(0.01)
time.sleep(0.05)
used.unlink()
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a job on some GPUs; none outlives the test."""
    jobs: list[subprocess.Popen[str]] = []
    environ = os.environ | {"PYTHONPATH": str(Path(devices.__file__).parents[1])}

    def started(*names: str, report: float = 60) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", JOB, str(tmp_path), str(report), *names]
        jobs.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ))
        return jobs[-1]

    yield started
    for job in jobs:
        job.kill()
        job.communicate()


def used(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("used-*")}


def test_jobs_never_share_a_gpu_and_all_of_them_get_one(tmp_path, start):
    jobs = [start("0", "MIG-1/2/0") for _ in range(4)]
    wait_until(lambda: used(tmp_path) == {"used-0", "used-MIG-1_2_0"}, within=60)
    assert [job.poll() for job in jobs] == [None] * 4
    (tmp_path / "go").touch()
    logs = [job.communicate(timeout=60)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0] * 4, logs


def test_a_job_that_is_killed_leaves_its_gpu_to_the_next_which_reports_its_wait(tmp_path, start):
    first = start("0")
    wait_until(lambda: used(tmp_path) == {"used-0"}, within=60)
    second = start("0", report=0.05)
    assert second.stderr is not None
    waiting = [second.stderr.readline() for _ in range(3)]
    assert waiting == ["all GPUs are taken (0): waiting for one\n"] * 3
    (tmp_path / "used-0").unlink()
    first.kill()
    assert first.wait(timeout=20) == -signal.SIGKILL
    wait_until(lambda: used(tmp_path) == {"used-0"}, within=60)
    (tmp_path / "go").touch()
    assert second.communicate(timeout=20)[1].splitlines()[-1] == "GPU 0 of 0"


def test_the_first_free_gpu_is_taken_and_kept_until_it_is_released(tmp_path, start, lines):
    folder = tmp_path / "locks"
    start("0")
    wait_until(lambda: used(tmp_path) == {"used-0"}, within=60)
    assert hold_one(["0", "1", "2"], folder) == hold_one(["2", "1"], folder) == "1"
    assert lines() == ["GPU 1 of 0, 1, 2"]
    job = start("1")
    assert job.stderr is not None
    assert "waiting" in job.stderr.readline()  # once a minute
    devices.release("1")
    assert job.stderr.readline() == "GPU 1 of 1\n"


def test_a_folder_that_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    problem = rf"^no locks of GPUs in {tmp_path}/file/locks: .*; name another folder in \w+$"
    with pytest.raises(cli.UsageError, match=problem):
        hold_one(["0"], tmp_path / "file/locks")


def test_the_folder_is_the_users_own_or_the_one_that_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("NTK_GPU_LOCKS", str(tmp_path))
    assert lock_folder() == tmp_path
    monkeypatch.setenv("NTK_GPU_LOCKS", "")
    assert lock_folder().parent == Path(tempfile.gettempdir())


# --- checkpoints ----------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).standard_normal((20, 4))
    save_prepared(tmp_path / "all.npz", PreparedSamples("tiny", x, np.arange(20) % 2, "none"))
    return tmp_path / "all.npz"


def test_checkpoints_depend_on_the_device_and_not_on_how_it_was_named(machine, monkeypatch, data):
    """The training stops before it begins: there is no GPU for its network."""
    saved: list[trainings.TrainingCheckpoints] = []
    monkeypatch.setattr(train_network, "make_ensemble", lambda *_, **options: None)
    monkeypatch.setattr(train_network, "train", lambda _, own, **options: saved.append(own) or 2)
    network = ["--experiment=fig3", "--dataset=tiny", "--activation=relu", "--depth=1"]
    network += ["--epochs=1", "--learning-rates=0.1", "--products=together", f"--data={data}"]
    network += [f"--checkpoints={data.parent}/kept", f"--output={data.parent}/out.parquet"]

    def digest(device: str) -> str:
        assert train_network.main([*network, f"--device={device}"]) == 130
        return saved[-1]._digest

    machine(0)
    cpu = digest("cpu")
    assert digest("auto") == cpu
    machine(2)
    assert digest("auto") == digest("cuda") != digest("cpu") == cpu


@pytest.mark.parametrize("program", [compute_spectrum, compute_min_angle])
def test_a_row_keeps_its_cells_under_another_name_of_the_device(machine, data, capsys, program):
    machine(0)
    arguments = ["--dataset=tiny", "--activation=relu", "--depths=1", "--seeds=1", "--width=64"]
    arguments += [f"--data={data}", f"--output={data.parent}/out.parquet"]
    arguments += [f"--checkpoints={data.parent}/kept"]
    arguments += ["--kernel-size=10"] if program is compute_spectrum else []
    for device, state in (("auto", "computed"), ("cpu", "kept"), ("auto", "kept")):
        assert program.main([*arguments, f"--device={device}"]) == 0
        logged = capsys.readouterr().err
        assert f"depth 1, seed 1: {state}" in logged
        assert "device cpu, " in logged
