"""How much memory there is, and whether a kernel fits into it before work on it starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ntk_conditioning.errors import UserError

GB = 10**9
# Vectors that Lanczos iterations keep beside the kernel, and its solver's own room.
VECTORS = 32
# What a process with its libraries takes before it has any data.
PROCESS = 3 * 10**8


class NotEnoughMemoryError(UserError):
    """The work would not fit into the memory that it may use."""


@dataclass(frozen=True)
class _ControlGroups:
    """A version of Linux's control groups: where their folders are, and what the files are called.

    ``given_back`` is what counts as used but is freed when it is needed: pages of files that were
    read a while ago.
    """

    folder: str
    limit: str
    used: str
    given_back: str


# By the name of the controller in /proc/self/cgroup, which version 2 does not give.
_VERSIONS = {
    "": _ControlGroups("", "memory.max", "memory.current", "inactive_file"),
    "memory": _ControlGroups(
        "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
    ),
}


def available_bytes(root: Path = Path("/")) -> int:
    """Return the memory that a new allocation may take here, without swapping.

    The least of what the system has available and what the control group of this process and
    those around it leave, such as a container's. ``root`` is where ``/proc`` and ``/sys`` are.
    """
    return max(0, min([_of_the_system(root), *_of_control_groups(root)]))


def _of_the_system(root: Path) -> int:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024


def _of_control_groups(root: Path) -> Iterator[int]:
    for controller, group in _own_groups(root).items():
        version = _VERSIONS[controller]
        # A container's groups are often mounted as if they were the root: then only that is found.
        for path in (group, *group.parents):
            folder = root / "sys/fs/cgroup" / version.folder / path.relative_to("/")
            try:
                limit = int((folder / version.limit).read_text())
                used = int((folder / version.used).read_text())
            except (OSError, ValueError):  # no such group, or "max": no limit
                continue
            yield limit - max(0, used - _given_back(folder, version))


def _own_groups(root: Path) -> dict[str, PurePosixPath]:
    """Return the control group of this process by controller, the root where it is unknown."""
    groups = dict.fromkeys(_VERSIONS, PurePosixPath("/"))
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            inside = ".." not in path.split("/")  # else it is in none that this container sees
            if inside and (known := set(controllers.split(",")) & _VERSIONS.keys()):
                groups[known.pop()] = PurePosixPath(path)
    return groups


def _given_back(folder: Path, version: _ControlGroups) -> int:
    with suppress(OSError):
        for line in (folder / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == version.given_back:
                return int(value)
    return 0


def kernel_bytes(n: int, *, itemsize: int, row_bytes: int, copies: int = 1) -> int:
    """Return what the conditioning of a kernel of ``n`` samples needs.

    That is ``copies`` of the kernel, the samples and gradients of two panels, which are never
    less than the tiles need, and the iterations' vectors. ``row_bytes`` are a sample's.
    """
    panels = 2 * min(n, 1024) * row_bytes
    return PROCESS + copies * n * n * itemsize + panels + VECTORS * n * 8


def require(
    n: int,
    needed: Callable[[int, int], int],
    *,
    itemsize: int,
    available: int,
    remedy: str,
    single: bool = True,
) -> None:
    """Raise `NotEnoughMemoryError` if ``n`` samples do not fit, naming what does.

    ``needed`` maps a number of samples and the bytes of an entry to bytes; ``single`` says that
    the kernel may be computed in float32 as well.
    """
    if needed(n, itemsize) <= available:
        return
    offer = f"at most {_largest(lambda size: needed(size, itemsize) <= available, n)} samples fit"
    if single and itemsize > 4:
        offer += f", or {_largest(lambda size: needed(size, 4) <= available, n)} in float32"
    raise NotEnoughMemoryError(
        f"a kernel of {n} samples in float{8 * itemsize} needs {needed(n, itemsize) / GB:.1f} GB "
        f"and {available / GB:.1f} GB are available; {offer}: {remedy}"
    )


def _largest(fits: Callable[[int], bool], n: int) -> int:
    """Return the largest number up to ``n`` that fits, 0 if none does."""
    low, high = 0, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
