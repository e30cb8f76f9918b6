"""The page on two runs that compare_runs.py writes."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ntk_workflow.comparison.differences import ColumnDifference, TableDifference
from ntk_workflow.comparison.runs import Comparison
from ntk_workflow.pages.rendering import markdown_table, render

SHOWN = 5  #: rows that are shown of those that differ in the same way; of claims all are
WIDEST = 40  #: characters of a value in a cell
CLAIMS = "claims"
TITLES = {"config": "Config", "code": "Code", "versions": "Versions", "data": "Data"}
HEAD = ("quantity", "rows", "largest relative change", "A", "B", "where")


def page(comparison: Comparison) -> str:
    """Return a comparison as Markdown: first what differs in a line each, then the details."""
    settings = {
        title: [(f"`{each.name}`", *_pair(each.a, each.b)) for each in getattr(comparison, part)]
        for part, title in TITLES.items()
    }
    sections = {
        name: list(_paragraphs(name, table))
        for name, table in sorted(comparison.tables.items(), key=lambda item: item[0] != CLAIMS)
        if not table.equal
    }
    summary = list(_summary(comparison))
    values = {"comparison": comparison, "settings": settings, "sections": sections}
    return render("comparison.md.j2", summary=summary, **values)


def _summary(comparison: Comparison) -> Iterator[tuple[str, str]]:
    for part in TITLES:
        if runs := comparison.unrecorded.get(part):
            yield part, "recorded in neither" if len(runs) == 2 else f"not recorded in {runs[0]}"
        else:
            count = len(getattr(comparison, part))
            yield part, f"{count} {'differ' if count > 1 else 'differs'}" if count else "the same"
    for run, names in (("A", comparison.tables_a), ("B", comparison.tables_b)):
        yield from ((f"`{name}`", f"only in {run}") for name in names)
    for name, table in comparison.tables.items():
        yield f"`{name}`", _in_short(table)


def _in_short(table: TableDifference) -> str:
    if table.equal:
        return f"the same, {_rows(table.common)}"
    counts = (("A", table.only_a), ("B", table.only_b))
    parts = [f"{_rows(count)} only in {run}" for run, count in counts if count]
    parts += ["other columns"] if table.columns_a or table.columns_b else []
    if numbers := _numbers(table):
        # one that became infinite does not hide others
        worst = max(
            numbers, key=lambda c: c.largest if c.largest and math.isfinite(c.largest) else -1
        )
        parts.append(f"numbers, most of all `{worst.name}`: {_change(worst.largest)}")
    rest = [column for column in table.columns if column.largest is None]
    return "; ".join([*parts, *(f"`{each.name}` in {_rows(each.changed)}" for each in rest)])


def _paragraphs(name: str, table: TableDifference) -> Iterator[str]:
    for run, columns in (("A", table.columns_a), ("B", table.columns_b)):
        if columns:
            yield f"Columns that only {run} has: {', '.join(columns)}."
    examples = (("A", table.only_a, table.examples_a), ("B", table.only_b, table.examples_b))
    for run, count, keys in examples:
        if count:
            yield f"{_rows(count)} only in {run}, of {table.common} in both:"
            yield _list([f"- {_place(key)}" for key in keys], count)
    if numbers := _numbers(table):
        yield markdown_table(HEAD, [_number(column, table.common) for column in numbers])
    if lacking := [line for each in table.columns if each.numeric for line in _lacking(each)]:
        yield "\n".join(lacking)
    for column in table.columns:
        if not column.numeric:
            yield f"`{column.name}` differs in {_rows(column.changed)}:"
            pairs = [(_place(each.key), *_pair(each.a, each.b)) for each in column.examples]
            texts = [f"- {place}: {a} → {b}" for place, a, b in pairs]
            yield _list(texts, column.changed, whole=name == CLAIMS)


def _numbers(table: TableDifference) -> list[ColumnDifference]:
    return [column for column in table.columns if column.largest is not None]


def _lacking(column: ColumnDifference) -> Iterator[str]:
    """Yield a line for each run that lacks numbers which the other one has."""
    for run, other, count in (("A", "B", column.missing_a), ("B", "A", column.missing_b)):
        if count:
            example = next(e for e in column.examples if (e.a if run == "A" else e.b) is None)
            value = _value(example.b if run == "A" else example.a, 6)
            where = f"missing in {_rows(count)} of {run} but not of {other}"
            yield f"- `{column.name}` is {where}, first in {_place(example.key)}: {value}"


def _number(column: ColumnDifference, common: int) -> tuple[str, ...]:
    example = column.examples[0]
    rows, pair = f"{column.changed} of {common}", _pair(example.a, example.b)
    return (f"`{column.name}`", rows, _change(column.largest), *pair, _place(example.key))


def _list(lines: Sequence[str], count: int, *, whole: bool = False) -> str:
    shown = lines if whole else lines[:SHOWN]
    more = [f"- and {count - len(shown):,} more"] if count > len(shown) else []
    return "\n".join([*shown, *more])


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


def _change(relative: float | None) -> str:
    return f"{relative:.2g}" if relative is not None and math.isfinite(relative) else "not finite"


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"
