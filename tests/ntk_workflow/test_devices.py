"""Which device a program computes on, and that jobs on one machine never share a GPU."""

import os

import pytest
import torch

from ntk_workflow import cli, devices
from ntk_workflow.devices import VISIBLE


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with GPUs as torch sees it, and what CUDA's driver has read when it started."""
    monkeypatch.setenv(VISIBLE, "")  # so that it is as before afterwards, whatever is set
    monkeypatch.delenv(VISIBLE)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    started = []

    def make(gpus: int, names: str | None = None) -> list[str]:
        def is_available() -> bool:
            started.append(os.environ.get(VISIBLE, "all"))
            return gpus > 0

        monkeypatch.setattr(torch.cuda, "is_available", is_available)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        if names is not None:
            monkeypatch.setenv(VISIBLE, names)
        return started

    yield make
    for lock in devices._held:
        lock.release()
    devices._held.clear()


def test_a_missing_gpu_is_one_line_and_auto_takes_the_cpu(machine):
    machine(0)
    with pytest.raises(cli.UsageError, match=r"^--device cuda: torch sees no GPU here; give the"):
        devices.torch_device("cuda")
    assert devices.torch_device("auto").type == devices.torch_device("cpu").type == "cpu"


@pytest.mark.parametrize(("gpus", "names", "first"), [(2, None, "0"), (2, "1,0", "1")])
def test_one_gpu_is_chosen_before_cuda_is_started(machine, gpus, names, first):
    started = machine(gpus, names)
    assert devices.torch_device("cuda").type == "cuda"
    assert started == [os.environ[VISIBLE]] == [first]
    assert devices.torch_device("auto").type == "cuda"  # in the same process it is the same GPU
    assert len(devices._held) == 1


def test_in_a_slurm_job_all_visible_gpus_belong_to_it(machine, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    started = machine(2, "0,1")
    assert devices.torch_device("cuda").type == "cuda"
    assert started == ["0,1"]
    assert devices._held == []


def test_jobs_never_share_a_gpu_and_wait_for_one(machine, tmp_path, monkeypatch):
    machine(2)
    gpus = ["0", "MIG-1/2/0"]
    assert [devices.hold_one(gpus, tmp_path) for _ in range(2)] == gpus
    monkeypatch.setattr(devices.time, "sleep", lambda _: devices._held[1].release())
    assert devices.hold_one(gpus, tmp_path) == gpus[1]
