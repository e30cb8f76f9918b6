"""The device of a program, and a GPU for each job on a machine.

Snakemake counts the jobs that use a GPU, but chooses none. So every GPU has a lock, which the
process that uses it keeps until it ends, however it ends.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import filelock
import torch

from ntk_workflow.cli import UsageError, logger

VISIBLE = "CUDA_VISIBLE_DEVICES"

#: Blocks of fewer samples are done sooner by more cores than that, side by side, than by a GPU: of
#: 512 an H100 does one in 33 ms, two cores 117 in 20 s (benchmarks/README.md).
SMALL_BLOCK, MANY_CORES = 1024, 10

PAUSE = 1.0  # seconds between two looks for a GPU that has become free

log = logger(__file__)
_held: dict[str, filelock.BaseFileLock] = {}  # by GPU, until this process ends


def device_argument(parser: argparse.ArgumentParser) -> None:
    """Add the device of programs that compute with torch."""
    choices = ["cpu", "cuda", "auto"]
    help = "where to compute; auto is a GPU if there is one, else the CPU"
    parser.add_argument("--device", choices=choices, default="cpu", help=help)


def torch_device(wanted: str) -> torch.device:
    """Return the device that ``--device`` means; a GPU is this process's alone until it ends."""
    if wanted != "cpu":
        missing = _claim_gpu()
        if missing and wanted == "cuda":
            raise UsageError(
                f"--device cuda: torch sees no GPU here ({missing}); give the job a GPU, install "
                "a CUDA build of torch, or let it use the CPU with device auto"
            )
        if wanted == "auto":
            log.info("device auto: %s", f"the CPU, no GPU ({missing})" if missing else "a GPU")
        if not missing:
            return torch.device("cuda")
    return torch.device("cpu")


def device_for_blocks(
    wanted: str, size: int | Literal["all"], count: int | Literal["all"], *, threads: int
) -> str:
    """Return the ``--device`` for blocks of samples: with ``auto``, small ones are many cores'."""
    small = size != "all" and size < SMALL_BLOCK and (count == "all" or count > MANY_CORES)
    if wanted == "auto" and small and threads > MANY_CORES:
        log.info("device auto: the CPU, %d threads do blocks of %d sooner", threads, size)
        return "cpu"
    return wanted


def _claim_gpu() -> str | None:
    """Make a GPU this process's own until it ends; return why there is none, or None.

    In a Slurm job the GPUs that are visible are the job's own. Elsewhere one is chosen, before
    anything starts CUDA: its driver reads CUDA_VISIBLE_DEVICES once.
    """
    if not torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        return "torch is a CPU build"
    if VISIBLE in os.environ:
        names = [name.strip() for name in os.environ[VISIBLE].split(",")]
        devices = [name for name in names if name not in ("", "-1")]
        if not devices:
            return f"{VISIBLE} is {os.environ[VISIBLE]!r}: the job was given none"
    else:
        devices = [str(number) for number in range(torch.cuda.device_count())]
    if devices and "SLURM_JOB_ID" not in os.environ:
        os.environ[VISIBLE] = hold_one(devices, Path(tempfile.gettempdir()))
    return None if torch.cuda.is_available() else "no driver or no device is found"


def hold_one(devices: Sequence[str], folder: Path) -> str:
    """Return the first of the devices that no other process holds; wait if all are taken."""
    for device in _held.keys() & {*devices}:
        return device
    waiting = False
    while True:
        for device in devices:
            name = f"ntk-gpu-{os.getuid()}-{device.replace('/', '_')}.lock"
            lock = filelock.FileLock(folder / name)
            with suppress(filelock.Timeout):
                lock.acquire(timeout=0)
                _held[device] = lock
                log.info("GPU %s of %s", device, ", ".join(devices))
                return device
        if not waiting:
            log.info("all GPUs are taken (%s): waiting for one", ", ".join(devices))
        waiting = True
        time.sleep(PAUSE)
