"""An estimate of costs, and how far off the last one was, as lines of text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ntk_workflow.resources import Model, Totals


def report(
    model: Model,
    estimate: Totals,
    comparison: dict[str, Any] | None,
    fitted: int,
    unusable: Sequence[Path],
) -> Iterator[str]:
    """Yield the lines of the estimate."""
    lines = [
        [
            rule,
            f"{row['jobs']:.0f}",
            f"{row['core_hours']:.2f}",
            f"{row['gpu_hours']:.2f}",
            duration(row["longest_hours"]),
            gigabytes(row["memory"]),
        ]
        for rule, row in estimate.items()
    ]
    yield from table(["rule", "jobs", "core-hours", "GPU-hours", "longest job", "memory"], lines)
    yield ""
    if fitted:
        yield f"Fitted to the benchmarks of {fitted} jobs."
    else:
        yield "From the package's own numbers: there are no benchmarks to fit."
    on_gpus = [rule for rule, row in estimate.items() if rule != "all" and row["gpu_hours"]]
    assumed = [rule for rule in on_gpus if model.pace(rule, gpu=True).assumed]
    if assumed:
        yield f"GPU-hours of {', '.join(assumed)} are assumed: no such job on a GPU was measured."
    if unusable:
        names = ", ".join(map(str, unusable[:3])) + (", ..." if len(unusable) > 3 else "")
        yield f"{len(unusable)} benchmarks unreadable, without cells or of a part of them: {names}"
    if comparison is None:
        return
    jobs = comparison["jobs"]
    origin = f"{jobs} jobs of other runs" if jobs else "the package's own numbers"
    yield from ("", f"The last run, {comparison['run']}, as predicted from {origin}:", "")
    lines = [
        [
            rule,
            f"{row['predicted_hours']:.2f}",
            f"{row['measured_hours']:.2f}",
            f"{row['predicted_hours'] / row['measured_hours']:.2f}",
            gigabytes(row["predicted_memory"]),
            gigabytes(row["measured_memory"]),
        ]
        for rule, row in comparison["rules"].items()
    ]
    hours = ["predicted hours", "measured hours", "ratio"]
    yield from table(["rule", *hours, "predicted memory", "measured memory"], lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table: names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        name, *numbers = (
            text.rjust(width) if at else text.ljust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([name, *numbers]).rstrip()


def gigabytes(number: float) -> str:
    """Return a number of bytes as a text."""
    return f"{number / 1e9:.1f} GB"


def duration(hours: float) -> str:
    """Return hours as a text.

    >>> duration(1.51), duration(0.01)
    ('1 h 31 min', '1 min')
    """
    whole, minutes = divmod(math.ceil(60 * hours), 60)
    return f"{whole} h {minutes:02} min" if whole else f"{minutes} min"
