"""The settings of a run of benchmarks."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ntk_conditioning.threads import limit_threads


@dataclass(frozen=True)
class Settings:
    """``quick`` asks for tiny sizes, whose numbers mean nothing: they show that all works.

    ``threads`` holds for this process and for every process that is measured; ``rounds`` is the
    number of times that each method is called; ``peers`` names the Python programs, by environment,
    of peers that are installed already.
    """

    threads: int = 1
    rounds: int = 5
    quick: bool = False
    peers: Mapping[str, str] = field(default_factory=dict)


def hold_process(threads: int) -> None:
    """Limit this process, and those that it starts, to as many cores and threads.

    JAX has no setting for its threads: it makes one for each core that the process may use.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    limit_threads(threads)
