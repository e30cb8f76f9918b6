"""The device of a program, and a GPU for each job on a machine.

Snakemake counts the jobs that use a GPU, but chooses none. So every GPU has a file, which the
process that uses the GPU keeps locked; the system frees the lock of a process that ends, however it
ends. Processes that are to share a machine's GPUs need the same folder of locks, and the same names
for the GPUs.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import filelock
import torch

from ntk_workflow.cli import UsageError, logger

VISIBLE = "CUDA_VISIBLE_DEVICES"

#: Blocks of fewer samples are done sooner by more cores than that, side by side, than by a GPU: of
#: 512 an H100 does one in 33 ms, two cores 117 in 20 s (benchmarks/README.md).
SMALL_BLOCK, MANY_CORES = 1024, 10

#: Seconds between two looks for a GPU that has become free.
PAUSE = 1.0

log = logger(__file__)

# By GPU. A lock that nothing refers to any more is released.
_held: dict[str, filelock.BaseFileLock] = {}


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
    """Make a GPU this process's own; return why there is none, or None.

    In a Slurm job the GPUs that are visible are the job's own. Elsewhere one is chosen, before
    anything starts CUDA: its driver reads CUDA_VISIBLE_DEVICES once.
    """
    if not torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        return "torch is a CPU build"
    devices = visible()
    if not devices and VISIBLE in os.environ:
        return f"{VISIBLE} is {os.environ[VISIBLE]!r}: the job was given none"
    held = None
    if devices and "SLURM_JOB_ID" not in os.environ:
        held = os.environ[VISIBLE] = hold_one(devices, lock_folder())
    if not torch.cuda.is_available():
        if held:
            release(held)
        return "no driver or no device is found"
    if held and torch.cuda.device_count() > 1:  # without NVML, torch starts CUDA to count GPUs
        raise UsageError(f"GPUs cannot be counted before one is chosen; name them in {VISIBLE}")
    return None


def visible() -> list[str]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, by index or UUID; without it, all.

    The list ends at -1 or an empty entry, as for CUDA. GPUs are counted only where none is named.
    """
    if VISIBLE not in os.environ:
        return [str(number) for number in range(torch.cuda.device_count())]
    names = [name.strip() for name in os.environ[VISIBLE].split(",")]
    return [*takewhile(lambda name: name and not name.startswith("-"), names)]


def lock_folder() -> Path:
    """Return the folder of locks: NTK_GPU_LOCKS, or one of this user's in the temporary folder."""
    default = Path(tempfile.gettempdir(), f"ntk-gpu-locks-{os.getuid()}")
    return Path(os.environ.get("NTK_GPU_LOCKS") or default)


def hold_one(devices: Sequence[str], folder: Path, *, report: float = 60.0) -> str:
    """Return one of the devices, held by this process until it ends or releases it.

    That is the one it holds already, or the first that no process holds. If all are taken, wait for
    one, and say so every ``report`` seconds.
    """
    for device in _held.keys() & {*devices}:
        return device
    due = time.monotonic()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            for device in devices:
                lock = filelock.FileLock(folder / f"{quote(device, safe='')}.lock")
                with suppress(filelock.Timeout):
                    lock.acquire(timeout=0)
                    _held[device] = lock
                    log.info("GPU %s of %s", device, ", ".join(devices))
                    return device
            if time.monotonic() >= due:
                log.info("all GPUs are taken (%s): waiting for one", ", ".join(devices))
                due += report
            time.sleep(PAUSE)
    except OSError as error:
        raise UsageError(
            f"no locks of GPUs in {folder}: {error}; name another folder in NTK_GPU_LOCKS"
        ) from None


def release(device: str) -> None:
    """Let other processes have a device."""
    _held.pop(device).release()
