"""The device of a program, and a GPU for each job on a machine."""

import argparse
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import filelock
import torch

from ntk_workflow.cli import UsageError, logger

VISIBLE = "CUDA_VISIBLE_DEVICES"

log = logger(__file__)
_held: list[filelock.BaseFileLock] = []  # until this process ends


def device_argument(parser: argparse.ArgumentParser) -> None:
    """Add the device of programs that compute with torch."""
    help = "where to compute; auto is a GPU if there is one, else the CPU"
    parser.add_argument("--device", choices=["cpu", "cuda", "auto"], default="cpu", help=help)


def torch_device(wanted: str) -> torch.device:
    """Return the device that ``--device`` means; a GPU is this process's alone until it ends."""
    if wanted == "cpu":
        return torch.device("cpu")
    # Slurm shows a job its own GPUs alone. Elsewhere one is chosen before anything starts CUDA,
    # whose driver reads the variable once.
    if (found := torch.cuda.device_count()) and "SLURM_JOB_ID" not in os.environ and not _held:
        names = os.environ.get(VISIBLE, ",".join(map(str, range(found)))).split(",")
        devices = [name.strip() for name in names if name.strip() not in ("", "-1")]
        os.environ[VISIBLE] = hold_one(devices, Path(tempfile.gettempdir()))
    if torch.cuda.is_available():
        return torch.device("cuda")
    if wanted == "cuda":
        raise UsageError(
            "--device cuda: torch sees no GPU here; give the job a GPU, install a CUDA build of "
            "torch, or let it use the CPU with device auto"
        )
    log.info("device auto: the CPU, no GPU")
    return torch.device("cpu")


def hold_one(devices: list[str], folder: Path) -> str:
    """Return the first device that no other process holds; Snakemake counts, but chooses none."""
    waiting = False
    while True:
        for device in devices:
            name = f"ntk-gpu-{os.getuid()}-{device.replace('/', '_')}.lock"
            lock = filelock.FileLock(folder / name)
            with suppress(filelock.Timeout):
                lock.acquire(timeout=0)
                _held.append(lock)
                return device
        if not waiting:
            log.info("all GPUs are taken (%s): waiting for one", ", ".join(devices))
        waiting = True
        time.sleep(1)
