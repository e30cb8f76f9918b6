"""The page on two runs that compare_runs.py writes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ntk_workflow.comparison.differences import Change, ColumnDifference, Example, TableDifference
from ntk_workflow.comparison.runs import Comparison

SHOWN = 5
"""Rows that are shown of those that differ in the same way; of claims all are."""
WIDEST = 40
"""Characters of a value in a cell."""
CLAIMS = "claims"
TITLES = {"config": "Config", "code": "Code", "versions": "Versions", "data": "Data"}


def page(found: Comparison) -> str:
    """Return a comparison as Markdown: first what differs in a line each, then the details."""
    lines = [f"# {'Nothing differs' if found.equal else 'What differs'}", ""]
    lines += [f"- A: `{found.a}`", f"- B: `{found.b}`"]
    if found.tolerance:
        lines.append(f"- numbers count as equal up to a relative change of {found.tolerance:g}")
    lines += ["", *_table(("", ""), _summary(found))]
    for part, title in TITLES.items():
        lines += _settings(title, getattr(found, part))
    for name, table in sorted(found.tables.items(), key=lambda item: item[0] != CLAIMS):
        if not table.equal:
            lines += _section(name, table)
    return "\n".join(lines)


def _summary(found: Comparison) -> Iterator[tuple[str, str]]:
    for part in TITLES:
        if part in found.unrecorded:
            runs = found.unrecorded[part]
            yield part, "recorded in neither" if len(runs) == 2 else f"not recorded in {runs[0]}"
        else:
            count = len(getattr(found, part))
            yield part, f"{count} {'differ' if count > 1 else 'differs'}" if count else "the same"
    for name in found.tables_a:
        yield f"`{name}`", "only in A"
    for name in found.tables_b:
        yield f"`{name}`", "only in B"
    for name, table in found.tables.items():
        yield f"`{name}`", _in_short(table)


def _in_short(table: TableDifference) -> str:
    if table.equal:
        return f"the same, {_rows(table.common)}"
    parts = [f"{_rows(table.only_a)} only in A"] if table.only_a else []
    parts += [f"{_rows(table.only_b)} only in B"] if table.only_b else []
    if table.columns_a or table.columns_b:
        parts.append("other columns")
    numbers = _numbers(table)
    if numbers:
        worst = max(numbers, key=lambda column: _finite_first(column.largest))
        parts.append(f"numbers, most of all `{worst.name}`: {_change(worst.largest)}")
    rest = [
        f"`{column.name}` in {_rows(column.changed)}"
        for column in table.columns
        if column.largest is None
    ]
    return "; ".join(parts + rest)


def _settings(title: str, changes: Sequence[Change]) -> list[str]:
    if not changes:
        return []
    rows = [(f"`{change.name}`", *_pair(change.a, change.b)) for change in changes]
    return [f"## {title}", "", *_table(("", "A", "B"), rows)]


def _section(name: str, table: TableDifference) -> list[str]:
    lines = [f"## Table `{name}`", ""]
    for run, columns in (("A", table.columns_a), ("B", table.columns_b)):
        if columns:
            lines += [f"Columns that only {run} has: {', '.join(columns)}.", ""]
    for run, count, keys in (
        ("A", table.only_a, table.examples_a),
        ("B", table.only_b, table.examples_b),
    ):
        if count:
            lines += [f"{_rows(count)} only in {run}, of {table.common} in both:", ""]
            lines += [*_some([f"- {_place(key)}" for key in keys], count, all_of=False), ""]
    numbers = _numbers(table)
    if numbers:
        head = ("quantity", "rows", "largest relative change", "A", "B", "where")
        lines += _table(head, (_number(column, table.common) for column in numbers))
    lacking = [line for column in table.columns if column.numeric for line in _lacking(column)]
    lines += [*lacking, ""] if lacking else []
    for column in table.columns:
        if not column.numeric:
            lines += [f"`{column.name}` differs in {_rows(column.changed)}:", ""]
            texts = [_example(example) for example in column.examples]
            lines += [*_some(texts, column.changed, all_of=name == CLAIMS), ""]
    return lines


def _numbers(table: TableDifference) -> list[ColumnDifference]:
    return [column for column in table.columns if column.largest is not None]


def _lacking(column: ColumnDifference) -> Iterator[str]:
    """Yield a line for each run that lacks numbers which the other one has."""
    for run, other, count in (("A", "B", column.missing_a), ("B", "A", column.missing_b)):
        if count:
            example = next(e for e in column.examples if (e.a if run == "A" else e.b) is None)
            value = _value(example.b if run == "A" else example.a, 6)
            yield (
                f"- `{column.name}` is missing in {_rows(count)} of {run} but not of {other}, "
                f"first in {_place(example.key)}: {value}"
            )


def _number(column: ColumnDifference, common: int) -> tuple[str, ...]:
    example = column.examples[0]
    return (
        f"`{column.name}`",
        f"{column.changed} of {common}",
        _change(column.largest),
        *_pair(example.a, example.b),
        _place(example.key),
    )


def _example(example: Example) -> str:
    a, b = _pair(example.a, example.b)
    return f"- {_place(example.key)}: {a} → {b}"


def _some(lines: list[str], count: int, *, all_of: bool) -> list[str]:
    kept = lines if all_of else lines[:SHOWN]
    more = count - len(kept)
    return [*kept, *([f"- and {more:,} more"] if more > 0 else [])]


def _place(key: Mapping[str, Any]) -> str:
    """Return a row's key in words: texts speak for themselves, numbers have their name."""
    words = (
        value if isinstance(value, str) else f"{name} {'none' if value is None else value}"
        for name, value in key.items()
    )
    return ", ".join(words)


def _pair(a: Any, b: Any) -> tuple[str, str]:
    short = _value(a, 6), _value(b, 6)
    return short if short[0] != short[1] else (_value(a, 17), _value(b, 17))


def _value(value: Any, digits: int) -> str:
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= WIDEST or digits > 6 else f"{text[: WIDEST - 1]}…"


def _finite_first(relative: float | None) -> float:
    """Return what numbers are ordered by, so that one that became infinite does not hide others."""
    return relative if relative is not None and math.isfinite(relative) else -1.0


def _change(relative: float | None) -> str:
    return f"{relative:.2g}" if relative is not None and math.isfinite(relative) else "not finite"


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    cells = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    rule = ["-" * max(3, width) for width in widths]
    return [
        "| "
        + " | ".join(cell.ljust(max(3, width)) for cell, width in zip(row, widths, strict=True))
        + " |"
        for row in (head, rule, *cells)
    ] + [""]
