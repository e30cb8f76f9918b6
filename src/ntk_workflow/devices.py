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

import filelock
import torch

from ntk_workflow.cli import UsageError, logger

VISIBLE = "CUDA_VISIBLE_DEVICES"
PAUSE = 1.0  # seconds between two looks for a GPU that has become free

log = logger(__file__)
_held: dict[str, filelock.BaseFileLock] = {}  # by GPU, until this process ends


def device_argument(parser: argparse.ArgumentParser) -> None:
    """Add the device of programs that compute with torch."""
    choices = ["cpu", "cuda", "auto"]
    help = "where to compute; auto is a GPU if there is one, else the CPU"
    parser.add_argument("--device", choices=choices, default="cpu", help=help)


def torch_device(args: argparse.Namespace) -> torch.device:
    """Return the ``--device``, and note its type in ``args`` in place of ``auto``.

    To be called before checkpoints are named, which must not depend on how the device was named.
    """
    if args.device != "cpu":
        missing = _claim_gpu()
        if missing and args.device == "cuda":
            raise UsageError(
                f"--device cuda: torch sees no GPU here ({missing}); give the job a GPU, install "
                "a CUDA build of torch, or let it use the CPU with device auto"
            )
        if args.device == "auto":
            log.info("device auto: %s", f"the CPU, no GPU ({missing})" if missing else "a GPU")
        args.device = "cpu" if missing else "cuda"
    return torch.device(args.device)


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
