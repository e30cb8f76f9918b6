"""Peak memory of one call, in a process of its own.

It is the resident set of the process, as Linux counts it: the peak (VmHWM) is reset just before the
call, after a small call has loaded libraries and started threads. "Growth" is the peak minus what
was resident before. On systems other than Linux nothing is measured.
"""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.settings import hold_process

STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Peak:
    """Bytes: ``growth`` during the call, and the ``process`` at its peak, all included.

    The call took ``seconds``.
    """

    growth: int
    process: int
    seconds: float


def peak(prepare: Callable[..., Callable[[], object]], *args: Any, threads: int) -> Peak | None:
    """Return the peak of the call that ``prepare(*args)`` returns, None if it is not known.

    ``prepare`` is a function of a module; it runs in the new process and warms up.
    """
    if not STATUS.exists():
        return None
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, hold_process, (threads,)) as pool:
        return pool.submit(_measure, prepare, *args).result()


def peak_on(
    function: Callable[[Any, Any], object], problem: Any, *, small: int, threads: int
) -> Peak | None:
    """Return the peak of a function of a problem's network and data, after ``small`` samples."""
    return peak(_prepare, function, problem, small, threads=threads)


def _prepare(
    function: Callable[[Any, Any], object], problem: Any, small: int
) -> Callable[[], object]:
    warm_up = replace(problem, n=small)
    function(warm_up.network(), warm_up.data())
    network, x = problem.network(), problem.data()
    return lambda: function(network, x)


def _measure(prepare: Callable[..., Callable[[], object]], *args: Any) -> Peak:
    call = prepare(*args)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # resets VmHWM, see proc(5)
    before = resident("VmRSS")
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    top = resident("VmHWM")
    del result
    return Peak(top - before, top, seconds)


def resident(field: str) -> int:
    """Return VmRSS or VmHWM of this process in bytes."""
    for line in STATUS.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)
