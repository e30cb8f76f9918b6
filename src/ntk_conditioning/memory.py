"""How much memory there is, and whether a kernel fits into it before work on it starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ntk_conditioning.errors import UserError

GB = 10**9
# Vectors that Lanczos iterations keep beside the kernel, and its solver's own room.
VECTORS = 32
# What a process with its libraries takes before it has any data.
PROCESS = 3 * 10**8


class NotEnoughMemoryError(UserError):
    """The work would not fit into the memory that it may use."""


def available_bytes(root: Path = Path("/")) -> int:
    """Return the memory that a new allocation may take on this machine, without swapping.

    The least of what the system has available and what the control group (a container, a cluster's
    job) leaves. ``root`` is where ``/proc`` and ``/sys`` are.
    """
    limits = [_of_the_system(root), *_of_the_control_group(root)]
    return max(0, min(limits))


def _of_the_system(root: Path) -> int:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024


def _of_the_control_group(root: Path) -> list[int]:
    folder = root / "sys/fs/cgroup"
    found = []
    for limit, used in (
        (folder / "memory.max", folder / "memory.current"),
        (folder / "memory/memory.limit_in_bytes", folder / "memory/memory.usage_in_bytes"),
    ):
        try:
            found.append(int(limit.read_text()) - int(used.read_text()))
        except (OSError, ValueError):  # another version, or "max": no limit
            continue
    return found


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
