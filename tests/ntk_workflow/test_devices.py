"""Which device a program computes on, and that jobs on one machine never share a GPU."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import compute_spectrum
import pytest
import torch
import train_network

from ntk_workflow import cli, devices
from ntk_workflow.devices import VISIBLE, hold_one, lock_folder
from ntk_workflow.rows import finite
from ntk_workflow.trainings import networks
from tests.support.fault_server import wait_until
from tests.support.sources import write_prepared

NONE_HERE = r"^--device cuda: torch sees no GPU here \({}\); give the job a GPU, install a CUDA "


class Machine:
    """A machine with GPUs as torch sees it; ``started`` is what its driver has read, if it has."""

    def __init__(self, gpus: int, *, nvml: bool = True) -> None:
        self._gpus, self._nvml, self.started = gpus, nvml, None

    def is_available(self) -> bool:
        self.started = self.started or os.environ.get(VISIBLE, "all")
        return self._gpus > 0

    def device_count(self) -> int:
        names = os.environ.get(VISIBLE, "all")
        if not self._nvml:
            self.is_available()
            names = self.started
        return self._gpus if names == "all" else min(self._gpus, names.count(",") + 1)


@pytest.fixture(autouse=True)
def _nothing_stays_held():
    yield
    for device in [*devices._held]:
        devices.release(device)


@pytest.fixture
def machine(monkeypatch, tmp_path, caplog):
    caplog.set_level("INFO")
    monkeypatch.setenv(VISIBLE, "")  # so that it is as before afterwards, whatever is set
    monkeypatch.delenv(VISIBLE)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("NTK_GPU_LOCKS", str(tmp_path / "locks"))

    def make(gpus: int, names: str | None = None, *, slurm: bool = False, **options: bool):
        machine = Machine(gpus, **options)
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_available", machine.is_available)
        monkeypatch.setattr(torch.cuda, "device_count", machine.device_count)
        if names is not None:
            monkeypatch.setenv(VISIBLE, names)
        if slurm:
            monkeypatch.setenv("SLURM_JOB_ID", "7")
        return machine

    return make


def resolved(device: str) -> str:
    args = argparse.Namespace(device=device)
    assert devices.torch_device(args) == torch.device(args.device)
    return args.device


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
    assert devices._held == {}  # others with the same list wait for nothing


def test_a_build_of_torch_without_cuda_is_reported_at_once(machine, monkeypatch):
    machine(2)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    with pytest.raises(cli.UsageError, match=NONE_HERE.format("torch is a CPU build")):
        resolved("cuda")


# the list ends at -1 or an empty name, as for CUDA
CHOICES = [(2, None, ["0", "1"]), (1, None, ["0"]), (2, "1,0", ["1", "0"]), (1, "0,-1,1", ["0"])]
CHOICES += [(1, "0,,1", ["0"]), (2, "2, GPU-5b", ["2", "GPU-5b"])]


@pytest.mark.parametrize(("gpus", "names", "found"), CHOICES)
def test_one_gpu_is_chosen_before_cuda_is_started(machine, caplog, gpus, names, found):
    machine = machine(gpus, names, nvml=names is None)  # those with names are not counted
    assert resolved("cuda") == "cuda"
    assert machine.started == os.environ[VISIBLE] == found[0]
    assert resolved("auto") == "cuda"  # in the same process it is the same GPU
    assert [*devices._held] == found[:1]
    assert caplog.messages[0] == f"GPU {found[0]} of {', '.join(found)}"
    assert caplog.messages[1:] == ["device auto: a GPU"]


@pytest.mark.parametrize(
    ("device", "size", "threads", "blocks", "found"),
    [
        ("auto", 512, 11, "all", "cpu"),
        ("auto", 512, 11, 10, "cuda"),
        ("auto", 512, 10, "all", "cuda"),
        ("auto", 1024, 11, "all", "cuda"),
        ("auto", "all", 11, "all", "cuda"),
        ("cuda", 512, 11, "all", "cuda"),
    ],
)
def test_many_cores_keep_small_blocks(machine, caplog, device, size, threads, blocks, found):
    machine(1)
    names = {"activation": ["relu"], "activation_file": []}
    sizes = {"kernel_size": size, "threads": threads, "blocks": blocks}
    args = argparse.Namespace(device=device, **sizes, **names)
    finite.networks(args)
    assert args.device == found
    assert ("11 threads do blocks of 512 sooner" in caplog.text) == (found == "cpu")


@pytest.mark.parametrize("names", [None, "0,1"])
def test_in_a_slurm_job_all_visible_gpus_belong_to_it(machine, tmp_path, names):
    machine = machine(2, names, slurm=True)
    assert resolved("cuda") == "cuda"
    assert machine.started == (names or "all")
    assert not (tmp_path / "locks").exists()


@pytest.mark.parametrize("gpus", [1, 2])
def test_several_gpus_that_only_cuda_can_count_must_be_named(machine, gpus):
    """Else all jobs would be on the first: CUDA has started before one was chosen."""
    machine(gpus, nvml=False)
    if gpus == 1:
        assert resolved("cuda") == "cuda"
    else:
        with pytest.raises(cli.UsageError, match=r"name them in CUDA_VISIBLE_DEVICES$"):
            resolved("cuda")


# Holds a GPU until there is a file "go"; two that hold the same one fail.
JOB = """
import logging, sys, time
from pathlib import Path
from unittest.mock import Mock

sys.modules["torch"] = Mock()  # which takes seconds to start, and is not needed
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


@pytest.fixture
def start(tmp_path):
    jobs = []
    environ = os.environ | {"PYTHONPATH": str(Path(devices.__file__).parents[1])}

    def started(*names: str, report: float = 60) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", JOB, str(tmp_path), str(report), *names]
        jobs.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ))
        return jobs[-1]

    yield started
    for job in jobs:
        job.kill()
        job.communicate()


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
    second = start("0", report=0.05)
    waiting = [second.stderr.readline() for _ in range(3)]
    assert waiting == ["all GPUs are taken (0): waiting for one\n"] * 3
    (tmp_path / "used-0").unlink()
    first.kill()
    assert first.wait(timeout=60) == -signal.SIGKILL
    wait_until_used(tmp_path, "0")
    (tmp_path / "go").touch()
    assert second.communicate(timeout=60)[1].splitlines()[-1] == "GPU 0 of 0"


def test_the_first_free_gpu_is_taken_and_kept_until_it_is_released(tmp_path, start, caplog):
    caplog.set_level("INFO")
    folder = tmp_path / "locks"
    start("0")
    wait_until_used(tmp_path, "0")
    assert hold_one(["0", "1", "2"], folder) == hold_one(["2", "1"], folder) == "1"
    assert caplog.messages == ["GPU 1 of 0, 1, 2"]
    job = start("1")
    assert "waiting" in job.stderr.readline()  # once a minute
    devices.release("1")
    assert job.stderr.readline() == "GPU 1 of 1\n"


def test_the_folder_is_named_or_the_users_own_and_a_useless_one_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("NTK_GPU_LOCKS", str(tmp_path))
    assert lock_folder() == tmp_path
    monkeypatch.setenv("NTK_GPU_LOCKS", "")
    assert lock_folder().parent == Path(tempfile.gettempdir())
    (tmp_path / "file").touch()
    problem = rf"^no locks of GPUs in {tmp_path}/file/locks: .*; name another folder in \w+$"
    with pytest.raises(cli.UsageError, match=problem):
        hold_one(["0"], tmp_path / "file/locks")


@pytest.fixture
def files(tmp_path):
    write_prepared(tmp_path / "all.npz")
    names = {"data": "all.npz", "output": "out.parquet", "checkpoints": "kept"}
    return [f"--{option}={tmp_path}/{name}" for option, name in names.items()]


def test_checkpoints_depend_on_the_device_and_not_on_how_it_was_named(machine, monkeypatch, files):
    """The training stops before it begins: there is no GPU for its network."""
    saved = []
    monkeypatch.setattr(networks, "make_ensemble", lambda *_, **options: None)
    monkeypatch.setattr(train_network, "train", lambda _, each, **options: saved.append(each) or 2)
    network = ["--experiment=fig3", "--dataset=tiny", "--activation=relu", "--depth=1"]
    network += ["--epochs=1", "--learning-rates=0.1", "--products=together", *files]

    def digest(device: str) -> str:
        assert train_network.main([*network, f"--device={device}"]) == 130
        return saved[-1]._digest

    machine(2)
    assert digest("auto") == digest("cuda") != digest("cpu")


def test_a_row_keeps_its_cells_under_another_name_of_the_device(machine, files, capsys):
    machine(0)
    given = ["--dataset=tiny", "--activation=relu", "--depths=1", "--seeds=1", *files]
    for device, state in (("auto", "computed"), ("cpu", "kept"), ("auto", "kept")):
        words = ["--width=64", "--kernel-size=10", f"--device={device}"]
        assert compute_spectrum.main([*given, *words]) == 0
        logged = capsys.readouterr().err
        assert f"depth 1, seed 1: {state}" in logged
        assert "device cpu, " in logged
