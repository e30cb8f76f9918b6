"""What many jobs cost together, by kind and in all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ntk_workflow.resources.model import Model, Observation
from ntk_workflow.resources.work import Work

#: Numbers by kind of job, the costliest kind first, and of ``all`` jobs last.
Totals = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Planned:
    """As many equal ``jobs`` of a kind, each on ``threads`` cores and ``gpu`` GPUs."""

    kind: str
    work: Work
    jobs: float = 1
    gpu: float = 0
    threads: int = 1


def planned_costs(model: Model, groups: Iterable[Planned]) -> Totals:
    """Return how many jobs there are and what they cost: hours, and the peak memory in bytes.

    >>> planned_costs(Model(), [Planned("render_figure", Work(0.0, 1e9), jobs=2)])["all"]["jobs"]
    2
    """
    totals: Totals = {}
    for group in groups:
        seconds = model.seconds(group.kind, group.work, gpu=bool(group.gpu), threads=group.threads)
        hours = seconds / 3600
        _add(
            totals,
            group.kind,
            {
                "jobs": group.jobs,
                "core_hours": group.jobs * hours * group.threads,
                "gpu_hours": group.jobs * hours * group.gpu,
            },
            {"longest_hours": hours, "memory": group.work.memory},
        )
    return _ordered(totals, "core_hours")


def predicted_costs(model: Model, observations: Iterable[Observation]) -> Totals:
    """Return what jobs took, and what a model that did not see them says: hours, bytes."""
    totals: Totals = {}
    for job in observations:
        predicted = model.seconds(job.kind, job.work, gpu=job.gpu)
        _add(
            totals,
            job.kind,
            {"predicted_hours": predicted / 3600, "measured_hours": job.seconds / 3600},
            {"predicted_memory": job.work.memory, "measured_memory": job.memory or 0},
        )
    return _ordered(totals, "measured_hours")


def _add(
    totals: Totals, kind: str, added: Mapping[str, float], largest: Mapping[str, float]
) -> None:
    for name in (kind, "all"):
        row = totals.setdefault(name, dict.fromkeys((*added, *largest), 0))
        row |= {key: row[key] + value for key, value in added.items()}
        row |= {key: max(row[key], value) for key, value in largest.items()}


def _ordered(totals: Totals, key: str) -> Totals:
    return dict(sorted(totals.items(), key=lambda item: (item[0] == "all", -item[1][key])))
