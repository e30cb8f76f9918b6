"""How much memory there is, and how much a kernel needs."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from ntk_conditioning.errors import UserError

GB = 10**9
# Vectors that Lanczos iterations keep beside the kernel, and its solver's own room.
VECTORS = 32
# What a process with its libraries takes before it has any data.
PROCESS = 3 * 10**8
# Of Linux's control groups, versions 2 and 1: the controller, the files of limit and usage, and the
# name of the used pages that are freed on demand.
_VERSIONS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


class NotEnoughMemoryError(UserError):
    """The work would not fit into the memory that it may use."""


def available_bytes(root: Path = Path("/")) -> int:
    """Return the memory that a new allocation may take here, without swapping.

    The least of what the system has available and what the control group of this process and
    those around it leave, such as a container's. ``root`` is where ``/proc`` and ``/sys`` are.
    """
    try:
        system = 1024 * _numbers(root / "proc/meminfo")["MemAvailable:"]
    except OSError:
        system = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(0, min([system, *_left_by_control_groups(root)]))


def require(needed: int, what: str, remedy: str = "take fewer samples") -> None:
    """Raise `NotEnoughMemoryError` if ``what`` takes more bytes than are available."""
    if needed > (available := available_bytes()):
        raise NotEnoughMemoryError(
            f"{what} takes {needed / GB:.1f} GB of the host's memory, of which "
            f"{available / GB:.1f} GB are available; {remedy}"
        )


def _left_by_control_groups(root: Path) -> Iterator[int]:
    lines: list[str] = []
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for controller, limit_file, used_file, freeable in _VERSIONS:
        top = root / "sys/fs/cgroup" / controller
        folders = [top]  # where a container mounts its own group
        for _, controllers, name in (line.split(":", 2) for line in lines):
            group = PurePosixPath(name)
            # with ".." it is in none that this container sees
            if controller in controllers.split(",") and ".." not in group.parts:
                folders += [top / path.relative_to("/") for path in (group, *group.parents)]
        for folder in folders:
            try:
                limit, used = (int((folder / name).read_text()) for name in (limit_file, used_file))
            except (OSError, ValueError):  # no such group, or "max": no limit
                continue
            with suppress(OSError):
                used -= _numbers(folder / "memory.stat").get(freeable, 0)
            yield limit - max(0, used)


def _numbers(file: Path) -> dict[str, int]:
    """Return the numbers of a file of lines such as ``name: 7 kB``."""
    lines = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
    return {name: int(value) for name, value, *_ in lines}


def kernel_bytes(n: int, *, itemsize: int, row_bytes: int, copies: int = 1) -> int:
    """Return what the conditioning of a kernel of ``n`` samples needs.

    That is ``copies`` of the kernel, the samples and gradients of two panels, which are never
    less than the tiles need, and the iterations' vectors. ``row_bytes`` are a sample's.
    """
    panels = 2 * min(n, 1024) * row_bytes
    return PROCESS + copies * n * n * itemsize + panels + VECTORS * n * 8
