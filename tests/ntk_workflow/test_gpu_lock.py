"""Jobs on one machine never share a GPU, whatever becomes of them.

Locks are files with the names of GPUs, so that real processes can hold them where there is no GPU.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ntk_conditioning.errors import UserError
from ntk_workflow.devices import gpu_lock
from ntk_workflow.devices.gpu_lock import LockFolderError, hold_one, lock_folder, visible
from tests.fault_server import wait_until

# Holds a GPU until there is a file "go"; two that hold the same one fail.
JOB = """
import logging, sys, time
from pathlib import Path

from ntk_workflow.devices import gpu_lock

gpu_lock.PAUSE = 0.01
logging.basicConfig(level="INFO", format="%(message)s")
place, report, devices = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
device = gpu_lock.hold_one(devices, place / "locks", report=report)
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
    environ = os.environ | {"PYTHONPATH": str(Path(gpu_lock.__file__).parents[2])}

    def started(*devices: str, report: float = 60) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", JOB, str(tmp_path), str(report), *devices]
        jobs.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ))
        return jobs[-1]

    yield started
    for job in jobs:
        job.kill()
        job.communicate()


@pytest.fixture(autouse=True)
def _nothing_is_held() -> Iterator[None]:
    yield
    for device in [*gpu_lock._held]:
        gpu_lock.release(device)


def used(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("used-*")}


# --- whole processes ------------------------------------------------------------------------------


def test_jobs_never_share_a_gpu_and_all_of_them_get_one(tmp_path, start):
    jobs = [start("0", "GPU-5b", "MIG-1/2/0") for _ in range(7)]
    everything = {"used-0", "used-GPU-5b", "used-MIG-1_2_0"}
    wait_until(lambda: used(tmp_path) == everything, within=60)
    assert [job.poll() for job in jobs] == [None] * 7
    (tmp_path / "go").touch()
    told = [job.communicate(timeout=60)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0] * 7, told


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_that_is_killed_leaves_its_gpu_to_the_next(tmp_path, start, number):
    first = start("0")
    wait_until(lambda: used(tmp_path) == {"used-0"})
    second = start("0", report=0.001)
    assert second.stderr is not None
    assert second.stderr.readline() == "all GPUs are taken (0): waiting for one\n"
    (tmp_path / "used-0").unlink()
    first.send_signal(number)
    assert first.wait(timeout=20) == -number
    wait_until(lambda: used(tmp_path) == {"used-0"})
    assert second.poll() is None


def test_a_job_that_waits_says_so_again_and_again(tmp_path, start):
    start("0")
    wait_until(lambda: used(tmp_path) == {"used-0"})
    waiting = start("0", report=0.05)
    assert waiting.stderr is not None
    told = [waiting.stderr.readline() for _ in range(3)]
    assert told == ["all GPUs are taken (0): waiting for one\n"] * 3
    (tmp_path / "go").touch()
    assert waiting.communicate(timeout=20)[1].splitlines()[-1] == "GPU 0 of 0"


def test_a_job_that_waits_says_so_once_a_minute(tmp_path, start):
    start("0")
    wait_until(lambda: used(tmp_path) == {"used-0"})
    waiting = start("0")
    assert waiting.stderr is not None
    first = waiting.stderr.readline()
    (tmp_path / "go").touch()
    told = [first, *waiting.communicate(timeout=20)[1].splitlines(keepends=True)]
    assert told == ["all GPUs are taken (0): waiting for one\n", "GPU 0 of 0\n"]


# --- one process ----------------------------------------------------------------------------------


def test_the_first_gpu_that_is_free_is_taken_and_told(tmp_path, start, caplog):
    caplog.set_level("INFO")
    start("0")
    wait_until(lambda: used(tmp_path) == {"used-0"})
    assert hold_one(["0", "1", "2"], tmp_path / "locks") == "1"
    assert [record.getMessage() for record in caplog.records] == ["GPU 1 of 0, 1, 2"]


def test_a_process_keeps_the_gpu_that_it_holds(tmp_path):
    assert hold_one(["0", "1"], tmp_path) == "0"
    assert hold_one(["0", "1"], tmp_path) == "0"
    assert hold_one(["1", "0"], tmp_path) == "0"


def test_a_gpu_that_is_released_is_free_for_others(tmp_path, start):
    assert hold_one(["0"], tmp_path / "locks") == "0"
    job = start("0", report=0.001)
    assert job.stderr is not None
    assert "waiting" in job.stderr.readline()
    gpu_lock.release("0")
    wait_until(lambda: used(tmp_path) == {"used-0"})


def test_a_folder_that_cannot_be_used_is_told_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LockFolderError) as caught:
        hold_one(["0"], tmp_path / "file/locks")
    assert isinstance(caught.value, UserError)
    message = str(caught.value)
    assert message.startswith(f"no locks of GPUs in {tmp_path}/file/locks: ")
    assert message.endswith("; name another folder in NTK_GPU_LOCKS")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("environ", "devices"),
    [
        ({}, ["0", "1", "2"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["1"]),
        ({"CUDA_VISIBLE_DEVICES": "2, 0"}, ["2", "0"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-5b,MIG-1/2/0"}, ["GPU-5b", "MIG-1/2/0"]),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, ["0"]),  # as CUDA reads it
        ({"CUDA_VISIBLE_DEVICES": "0,,1"}, ["0"]),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_the_gpus_are_those_that_are_visible(environ, devices):
    assert visible(environ, lambda: 3) == devices


def test_gpus_are_not_counted_where_they_are_named():
    """Counting may start CUDA, which then does not look at the choice any more."""
    assert visible({"CUDA_VISIBLE_DEVICES": "4"}, lambda: pytest.fail("counted")) == ["4"]


def test_the_folder_is_the_users_own_or_the_one_that_is_named(tmp_path):
    assert lock_folder({"NTK_GPU_LOCKS": str(tmp_path)}) == tmp_path
    own = lock_folder({})
    assert own.parent == Path(tempfile.gettempdir())
    assert lock_folder({"NTK_GPU_LOCKS": ""}) == own
