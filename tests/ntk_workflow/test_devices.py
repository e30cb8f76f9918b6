import math
import os
import re

import pytest
import torch

from ntk_conditioning.errors import UserError
from ntk_workflow import cli, devices, progress_bars, slurm_limits
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
    while devices._held:
        devices._held.pop().release()


def test_a_missing_gpu_is_one_line_and_auto_takes_the_cpu(machine):
    machine(0)
    with pytest.raises(UserError, match=r"^--device cuda: torch sees no GPU here; give the"):
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


def test_threads_and_memory_are_at_most_what_is_given(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(8)}, raising=False)
    for granted, given in (("3", 3), ("64", 8)):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", granted)
        assert cli.threads_given("12") == given
    monkeypatch.delenv("SLURM_CPUS_PER_TASK")
    assert cli.threads_given("12") == 8
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS binds no process
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert slurm_limits.cores() == 6
    # what Slurm says, in MB, and what is left beside Snakemake; 0 is no limit
    for megabytes, left in (("3000", 3000 * 2**20 - 10**9), ("1000", 500 * 2**20), ("0", math.inf)):
        monkeypatch.setenv("SLURM_MEM_PER_NODE", megabytes)
        assert slurm_limits.granted_bytes() == left


def test_a_log_has_a_line_a_minute_with_the_time_that_is_left(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    bar = progress_bars.progress(total=10, initial=2, unit="epoch")
    for done, now[0] in ((2, 50), (3, 71), (4, 90), (5, 130), (6, 131), (8, 240)):
        bar.set_postfix_str(f"loss {done / 10}", refresh=False)
        bar.update(done - bar.n)
    bar.close()
    lines = re.findall(r"(\d+)/10 .*?<(\d\d:\d\d),.*? loss (0.\d)", capsys.readouterr().err)
    # one took 71 s, seven are left
    assert lines[:3] == [("3", "08:17", "0.3"), ("6", "02:11", "0.6"), ("8", "01:20", "0.8")]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_terminal_has_a_bar_at_once_and_a_log_none_for_work_of_seconds(
    terminal, monkeypatch, capsys
):
    monkeypatch.setattr(progress_bars.sys.stderr, "isatty", lambda: terminal, raising=False)
    assert [*progress_bars.progress([1, 2, 3], unit="cell")] == [1, 2, 3]
    assert ("3/3" in capsys.readouterr().err) == terminal
