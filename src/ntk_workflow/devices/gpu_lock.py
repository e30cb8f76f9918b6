"""A GPU for each job on a machine: Snakemake counts the jobs that use one, but chooses none.

Every GPU has a file, which the process that uses the GPU keeps locked. The system frees the lock of
a process that ends, however it ends. Processes that are to share a machine's GPUs need the same
folder of locks, and the same names for the GPUs.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from urllib.parse import quote

import filelock

from ntk_conditioning.errors import UserError
from ntk_workflow.cli import logger

VISIBLE = "CUDA_VISIBLE_DEVICES"

#: Seconds between two looks for a GPU that has become free.
PAUSE = 1.0

log = logger(__file__)

# By GPU. A lock that nothing refers to any more is released.
_held: dict[str, filelock.BaseFileLock] = {}


class LockFolderError(UserError):
    """The folder of locks cannot be used."""


def visible(environ: Mapping[str, str], count: Callable[[], int]) -> list[str]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, by index or UUID; without it, all.

    ``count`` tells how many there are. The list ends at -1 or an empty entry, as for CUDA.
    """
    if VISIBLE not in environ:
        return [str(number) for number in range(count())]
    names = [name.strip() for name in environ[VISIBLE].split(",")]
    return [*takewhile(lambda name: name and not name.startswith("-"), names)]


def lock_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of locks: NTK_GPU_LOCKS, or one of this user's in the temporary folder."""
    own = environ.get("NTK_GPU_LOCKS")
    return Path(own or Path(tempfile.gettempdir(), f"ntk-gpu-locks-{os.getuid()}"))


def hold_one(devices: Sequence[str], folder: Path, *, report: float = 60.0) -> str:
    """Return one of the devices, held by this process until it ends or releases it.

    That is the one it holds already, or the first that no process holds. If all are taken, wait for
    one, and say so every ``report`` seconds.

    Raises:
        LockFolderError: if there can be no locks in the folder.
    """
    for device in devices:
        if device in _held:
            return device
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        locks = {
            device: filelock.FileLock(folder / f"{quote(device, safe='')}.lock")
            for device in devices
        }
        due = time.monotonic()
        while not (free := _first_free(locks)):
            if time.monotonic() >= due:
                log.info("all GPUs are taken (%s): waiting for one", ", ".join(devices))
                due += report
            time.sleep(PAUSE)
    except OSError as error:
        raise LockFolderError(
            f"no locks of GPUs in {folder}: {error}; name another folder in NTK_GPU_LOCKS"
        ) from None
    _held[free] = locks[free]
    log.info("GPU %s of %s", free, ", ".join(devices))
    return free


def release(device: str) -> None:
    """Let other processes have a device."""
    _held.pop(device).release()


def _first_free(locks: Mapping[str, filelock.BaseFileLock]) -> str | None:
    """Return the first device that is free, now locked, or None."""
    for device, lock in locks.items():
        with suppress(filelock.Timeout):
            lock.acquire(timeout=0)
            return device
    return None
