"""Work on a CPU that is cut into pieces, so that threads need not wait for each other.

torch shares each product among its threads, which meet after every one. Threads with pieces of
their own meet once. It is imported where it is used: it takes seconds, and kernels of infinite
width do without.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import threadpoolctl

if TYPE_CHECKING:
    import torch

Piece = TypeVar("Piece")


def limit_threads(threads: int) -> None:
    """Let linear algebra use that many threads, so that a job keeps to what it was given.

    Set in libraries that are loaded; those that come later read the environment.
    """
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)
    threadpoolctl.threadpool_limits(limits=threads)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)


def count(device: torch.device) -> int:
    """Return how many pieces can be worked on at once: torch's number of threads on a CPU, or 1."""
    import torch

    return torch.get_num_threads() if device.type == "cpu" else 1


def pool(number: int) -> ThreadPoolExecutor:
    """Return so many threads, in each of which torch uses no other."""
    import torch

    return ThreadPoolExecutor(number, initializer=torch.set_num_threads, initargs=(1,))


def each(work: Callable[[Piece], None], pieces: Sequence[Piece], at_once: int) -> None:
    """Call ``work`` on all pieces, without gradients, in ``at_once`` threads, each one of torch's.

    An error is raised as soon as the pieces that have begun are done; no others begin after it.
    """
    import torch

    work = torch.no_grad()(work)
    if at_once == 1:
        for piece in pieces:
            work(piece)
        return
    before = torch.get_num_threads()
    try:
        with pool(at_once) as workers:
            for _ in workers.map(work, pieces):  # an error cancels those that have not begun
                pass
    finally:
        torch.set_num_threads(before)  # which the others set for new threads, too
