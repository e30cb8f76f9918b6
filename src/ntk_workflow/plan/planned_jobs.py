"""The jobs that a run plans, in the form in which scripts/estimate_costs.py takes them.

Pure functions; `jobs.smk` gives them the jobs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

#: The list is one argument of a command, of which Linux takes 128 KiB.
MOST_CHARACTERS = 100_000


@dataclass(frozen=True)
class PlannedJob:
    """A job: the name of its rule, its work, see `costs.Work`, and what it is given."""

    rule: str
    flops: float
    memory: float
    gpu: int = 0
    threads: int = 1


def groups(jobs: Iterable[PlannedJob], *, most: int = MOST_CHARACTERS) -> str:
    """Return the jobs as a JSON list in which equal ones are counted together.

    Work and memory are rounded to three digits, or to fewer if the list has more than ``most``
    characters otherwise.

    >>> job = PlannedJob("compute_spectrum", flops=12345.0, memory=1e9)
    >>> groups([job, replace(job, flops=12346.0)])
    '[{"rule":"compute_spectrum","flops":12300.0,"memory":1000000000.0,"gpu":0,"threads":1,"jobs":2}]'
    """
    planned = list(jobs)
    for digits in (3, 2, 1):
        counted = Counter(
            replace(job, flops=_rounded(job.flops, digits), memory=_rounded(job.memory, digits))
            for job in planned
        )
        text = json.dumps(
            [{**asdict(job), "jobs": number} for job, number in counted.items()],
            separators=(",", ":"),
        )
        if len(text) <= most:
            break
    return text


def _rounded(number: float, digits: int) -> float:
    return float(f"{number:.{digits - 1}e}")
