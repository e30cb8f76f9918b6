"""What a job asks a scheduler for: more than its estimate, and more again with every attempt."""

from __future__ import annotations

import math

from ntk_workflow.resources.model import Model
from ntk_workflow.resources.work import Work

# What a job asks for beyond its estimate.
_HEADROOM, _SAFETY, _LEAST_MINUTES = 1.25, 3, 10


def memory_mb(work: Work, attempt: int = 1) -> int:
    """Return the memory that a job asks a scheduler for, in units of 10^6 bytes.

    It is never 0, by which Slurm understands all that a node has.

    >>> memory_mb(Work(0.0, 1e9)), memory_mb(Work(0.0, 1e9), attempt=2)
    (1250, 2500)
    """
    return max(1, math.ceil(_HEADROOM * work.memory / 1e6)) * attempt


def minutes(
    model: Model, kind: str, work: Work, attempt: int = 1, *, gpu: bool = False, threads: int = 1
) -> int:
    """Return the time that a job asks a scheduler for; it doubles with every attempt.

    >>> work = Work(0.0, 1e9)
    >>> minutes(Model(), "render_figure", work), minutes(Model(), "render_figure", work, 2)
    (10, 20)
    """
    seconds = model.seconds(kind, work, gpu=gpu, threads=threads)
    return math.ceil(max(_LEAST_MINUTES, _SAFETY * seconds / 60)) << (attempt - 1)
