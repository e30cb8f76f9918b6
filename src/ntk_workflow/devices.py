"""The device of a program, and a GPU for each job on a machine."""

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import filelock
import torch

from ntk_conditioning.errors import UserError

VISIBLE = "CUDA_VISIBLE_DEVICES"

_held: list[filelock.BaseFileLock] = []  # until this process ends


def torch_device(wanted: str) -> torch.device:
    """Return the device that ``--device`` means; a GPU is this process's alone until it ends."""
    # Slurm shows a job its own GPUs alone. Elsewhere one is chosen before anything starts CUDA,
    # whose driver reads the variable once.
    available = torch.cuda.device_count() if wanted != "cpu" else 0
    if available and "SLURM_JOB_ID" not in os.environ and not _held:
        devices = os.environ.get(VISIBLE, ",".join(map(str, range(available)))).split(",")
        os.environ[VISIBLE] = hold_one(devices, Path(tempfile.gettempdir()))
    if wanted != "cpu" and torch.cuda.is_available():
        return torch.device("cuda")
    if wanted == "cuda":
        remedy = "give the job a GPU, install a CUDA build of torch, or use device auto"
        raise UserError(f"--device cuda: torch sees no GPU here; {remedy}")
    return torch.device("cpu")


def hold_one(devices: list[str], folder: Path) -> str:
    """Return the first device that no other process holds; Snakemake counts, but chooses none."""
    while True:
        for device in devices:
            name = f"ntk-gpu-{os.getuid()}-{device.replace('/', '_')}.lock"
            lock = filelock.FileLock(folder / name)
            with suppress(filelock.Timeout):
                lock.acquire(timeout=0)
                _held.append(lock)
                return device
        time.sleep(1)
