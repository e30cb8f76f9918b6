"""Which device a program computes on, and that jobs on one machine never share a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import compute_spectrum
import pytest
import torch

from ntk_workflow import cli, devices
from ntk_workflow.devices import VISIBLE
from tests.support.fault_server import wait_until
from tests.support.sources import write_prepared

NONE_HERE = r"^--device cuda: torch sees no GPU here \({}\); give the job a GPU, install a CUDA "


@pytest.fixture
def machine(monkeypatch, tmp_path, caplog):
    """A machine with GPUs as torch sees it, and what CUDA's driver has read when it started."""
    caplog.set_level("INFO")
    monkeypatch.setenv(VISIBLE, "")  # so that it is as before afterwards, whatever is set
    monkeypatch.delenv(VISIBLE)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    started = []

    def make(gpus: int, names: str | None = None, *, slurm: bool = False) -> list[str]:
        def is_available() -> bool:
            started.append(os.environ.get(VISIBLE, "all"))
            return gpus > 0

        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_available", is_available)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        if names is not None:
            monkeypatch.setenv(VISIBLE, names)
        if slurm:
            monkeypatch.setenv("SLURM_JOB_ID", "7")
        return started

    yield make
    for lock in devices._held.values():
        lock.release()
    devices._held.clear()


def resolved(device: str) -> str:
    return devices.torch_device(device).type


def test_the_cpu_is_the_default_and_needs_no_cuda(monkeypatch):
    for module, name in ((torch.cuda, "is_available"), (torch.backends.cuda, "is_built")):
        monkeypatch.setattr(module, name, lambda: pytest.fail("looked for a GPU"))
    parser = cli.Parser()
    devices.device_argument(parser)
    assert resolved(parser.parse_args([]).device) == "cpu"


@pytest.mark.parametrize("slurm", [False, True])
@pytest.mark.parametrize("names", [None, "0", "", "-1"])
def test_a_missing_gpu_is_reported_with_the_reason(machine, caplog, names, slurm):
    machine(0, names, slurm=slurm)
    given_none = f"{VISIBLE} is {names!r}: the job was given none"
    reason = given_none if names in ("", "-1") else "no driver or no device is found"
    with pytest.raises(cli.UsageError, match=NONE_HERE.format(reason)):
        resolved("cuda")
    assert resolved("auto") == "cpu"
    assert caplog.messages[-1] == f"device auto: the CPU, no GPU ({reason})"


def test_a_build_of_torch_without_cuda_is_reported_at_once(machine, monkeypatch):
    machine(2)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    with pytest.raises(cli.UsageError, match=NONE_HERE.format("torch is a CPU build")):
        resolved("cuda")


CHOICES = [(2, None, ["0", "1"]), (2, "1,0", ["1", "0"]), (1, "0,-1", ["0"])]
CHOICES += [(1, "2, GPU-5b", ["2", "GPU-5b"])]


@pytest.mark.parametrize(("gpus", "names", "found"), CHOICES)
def test_one_gpu_is_chosen_before_cuda_is_started(machine, caplog, gpus, names, found):
    started = machine(gpus, names)
    assert resolved("cuda") == "cuda"
    assert started == [os.environ[VISIBLE]] == found[:1]
    assert resolved("auto") == "cuda"  # in the same process it is the same GPU
    assert [*devices._held] == found[:1]
    assert caplog.messages[0] == f"GPU {found[0]} of {', '.join(found)}"
    assert caplog.messages[-1] == "device auto: a GPU"


@pytest.mark.parametrize("names", [None, "0,1"])
def test_in_a_slurm_job_all_visible_gpus_belong_to_it(machine, names):
    started = machine(2, names, slurm=True)
    assert resolved("cuda") == "cuda"
    assert started == [names or "all"]
    assert devices._held == {}


# Holds a GPU until there is a file "go"; two that hold the same one fail.
JOB = """
import logging, sys, time
from pathlib import Path
from unittest.mock import Mock

sys.modules["torch"] = Mock()  # which takes seconds to start, and is not needed
from ntk_workflow import devices

devices.PAUSE = 0.01
logging.basicConfig(level="INFO", format="%(message)s")
place = Path(sys.argv[1])
device = devices.hold_one(sys.argv[2:], place)
used = place / f"used-{device.replace('/', '_')}"
used.open("x").close()
while not (place / "go").exists():
    time.sleep(0.01)
time.sleep(0.05)
used.unlink()
"""


@pytest.fixture
def start(tmp_path):
    started = []
    environ = os.environ | {"PYTHONPATH": str(Path(devices.__file__).parents[1])}

    def job(*names: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", JOB, str(tmp_path), *names]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ))
        return started[-1]

    yield job
    for process in started:
        process.kill()
        process.communicate()


def wait_until_used(folder: Path, *names: str) -> None:
    wait_until(lambda: {path.name[5:] for path in folder.glob("used-*")} == {*names})


def test_jobs_never_share_a_gpu_and_all_of_them_get_one(tmp_path, start):
    jobs = [start("0", "MIG-1/2/0") for _ in range(3)]
    wait_until_used(tmp_path, "0", "MIG-1_2_0")
    assert [job.poll() for job in jobs] == [None] * 3
    (tmp_path / "go").touch()
    logs = [job.communicate(timeout=60)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0] * 3, logs


def test_a_job_that_is_killed_leaves_its_gpu_to_the_next_which_reports_its_wait(tmp_path, start):
    first = start("0")
    wait_until_used(tmp_path, "0")
    second = start("0")
    assert second.stderr.readline() == "all GPUs are taken (0): waiting for one\n"
    (tmp_path / "used-0").unlink()
    first.kill()
    first.wait(timeout=60)
    wait_until_used(tmp_path, "0")
    (tmp_path / "go").touch()
    assert second.communicate(timeout=60)[1] == "GPU 0 of 0\n"


def test_a_row_keeps_its_cells_under_another_name_of_the_device(machine, tmp_path, capsys):
    machine(0)
    write_prepared(tmp_path / "all.npz")
    names = {"data": "all.npz", "output": "out.parquet", "checkpoints": "kept"}
    given = [f"--{option}={tmp_path}/{name}" for option, name in names.items()]
    given += ["--dataset=tiny", "--activation=relu", "--depths=1", "--seeds=1", "--code=1"]
    for device, state in (("auto", "computed"), ("cpu", "kept"), ("auto", "kept")):
        words = ["--width=64", "--kernel-size=10", f"--device={device}"]
        assert compute_spectrum.main([*given, *words]) == 0
        logged = capsys.readouterr().err
        assert f"depth 1, seed 1: {state}" in logged
        assert "device cpu, " in logged
