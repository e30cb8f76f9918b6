"""Work on a CPU that is cut into pieces, so that threads need not wait for each other.

torch shares each product among its threads, which meet after every one. With pieces of the work of
their own they meet once. It is imported where it is used: it takes seconds, and kernels of infinite
width do without.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import threadpoolctl

if TYPE_CHECKING:
    import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")

#: Seconds after which a waiting thread looks up: a signal that comes just before it waits is
#: otherwise not handled until the others are done.
LOOK_UP = 1.0


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
    pool = ThreadPoolExecutor(at_once, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for _ in pool.map(work, pieces):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # which the others set for new threads, too


class Team:
    """Threads, each one of torch's, that share work; a piece may share out pieces of its own.

    The caller is one of them. It works on all pieces that no other has begun and waits only for
    those that are being worked on, so that no two threads wait for each other.

    >>> with Team(2) as team:
    ...     team.map(abs, [-1, 2])
    [1, 2]
    """

    def __init__(self, threads: int) -> None:
        import torch

        self.threads = threads
        self._others = ThreadPoolExecutor(
            max(1, threads - 1), initializer=torch.set_num_threads, initargs=(1,)
        )
        self._lock, self._busy = Lock(), 1

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self._others.shutdown(cancel_futures=True)

    @property
    def spare(self) -> int:
        """How many threads have nothing to do, but for whom shares out the first work."""
        return self.threads - self._busy

    def map(self, function: Callable[[Piece], Result], pieces: Iterable[Piece]) -> list[Result]:
        """Return a function's values for all pieces; an error is raised as soon as others rest."""
        pieces = [*pieces]
        if self.threads == 1 or len(pieces) == 1:
            return [function(piece) for piece in pieces]
        futures = [self._others.submit(self._work, function, piece) for piece in pieces]
        try:
            own = {k: function(piece) for k, piece in enumerate(pieces) if futures[k].cancel()}
        finally:
            begun = [future for future in futures if not future.cancel()]
            while wait(begun, LOOK_UP).not_done:
                pass
        return [own[k] if k in own else future.result() for k, future in enumerate(futures)]

    def _work(self, function: Callable[[Piece], Result], piece: Piece) -> Result:
        with self._lock:
            self._busy += 1
        try:
            return function(piece)
        finally:
            with self._lock:
                self._busy -= 1
