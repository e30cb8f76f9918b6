"""What differs between two runs: settings key by key, tables row by row and quantity by quantity.

Rows of two tables are matched by their keys, where a missing value is a value like any other. The
relative change of two numbers is |a - b| / max(|a|, |b|), whichever run comes first. That of two
lists is the largest difference over the largest number of both, since the small numbers of a
spectrum are rounding noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError

ABSENT = "(absent)"
"""Stands for the value of a setting that a run does not have."""

EXAMPLES = 100
"""Rows that are kept of those that only one run has, and of texts that differ."""

SLICE = 4096
"""Rows whose lists are compared at a time: those of a large run do not fit in memory thrice."""

LEAST = float(np.finfo(np.float64).tiny)
"""The relative change of numbers that differ by less than can be told."""


class ComparisonError(UserError):
    """Two tables cannot be compared."""


@dataclass(frozen=True)
class Change:
    """A setting whose values differ; `ABSENT` where a run lacks it."""

    name: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Example:
    """A row's key, both values, and for numbers their relative change."""

    key: Mapping[str, Any]
    a: Any
    b: Any
    relative: float | None = None


@dataclass(frozen=True)
class ColumnDifference:
    """A column that differs: in how many rows, and where.

    ``missing_a`` and ``missing_b`` count the rows in which only that run lacks the value; they are
    among the ``changed`` whatever the tolerance. ``examples`` has the largest change of a quantity
    and the first row in which each run lacks it, or the first rows of a column without numbers.
    """

    name: str
    numeric: bool
    changed: int
    missing_a: int
    missing_b: int
    largest: float | None
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class TableDifference:
    """How two tables of one name differ; ``only_a`` and ``only_b`` count rows.

    ``columns_a`` and ``columns_b`` are the columns of one table only, or of another type there.
    """

    common: int
    only_a: int
    only_b: int
    examples_a: tuple[Mapping[str, Any], ...]
    examples_b: tuple[Mapping[str, Any], ...]
    columns_a: tuple[str, ...]
    columns_b: tuple[str, ...]
    columns: tuple[ColumnDifference, ...]

    @property
    def equal(self) -> bool:
        """Whether nothing differs, by more than the tolerance."""
        columns = self.columns or self.columns_a or self.columns_b
        return not (columns or self.only_a or self.only_b)


def compare_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Change]:
    """Return the settings that differ, in the order of their names; lists are compared whole.

    >>> compare_settings({"training": {"fig3": {"epochs": 5}}}, {"training": {}})
    [Change(name='training.fig3.epochs', a=5, b='(absent)')]
    """
    left, right = _flat(a), _flat(b)
    changes = [
        Change(name, left.get(name, ABSENT), right.get(name, ABSENT))
        for name in sorted({*left, *right})
    ]
    # not by ==, to which 1, 1.0 and true are the same
    return [change for change in changes if repr(change.a) != repr(change.b)]


def compare_tables(
    a: pa.Table, b: pa.Table, *, keys: Sequence[str], tolerance: float = 0.0
) -> TableDifference:
    """Return how two tables differ whose rows are identified by the columns ``keys``.

    Numbers are equal whose relative change is at most ``tolerance``; infinities and NaN are equal
    to themselves and infinitely far from all else.

    Raises:
        ComparisonError: if a table lacks a key, has one of another type or repeats it.
    """
    rows_a, rows_b = _row_numbers(a, b, keys)
    both, in_a, in_b = np.intersect1d(rows_a, rows_b, assume_unique=True, return_indices=True)
    only_a = np.flatnonzero(~np.isin(rows_a, both))
    only_b = np.flatnonzero(~np.isin(rows_b, both))
    comparable = [n for n in a.column_names if n in b.column_names and _comparable(a[n], b[n])]
    # in the order of A's rows, for examples to be the first ones there
    order = np.argsort(in_a)
    left, right = a.take(in_a[order]), b.take(in_b[order])
    found = (
        _compare_columns(name, left, right, keys, tolerance)
        for name in comparable
        if name not in keys
    )
    return TableDifference(
        common=len(both),
        only_a=len(only_a),
        only_b=len(only_b),
        examples_a=tuple(a.select(keys).take(only_a[:EXAMPLES]).to_pylist()),
        examples_b=tuple(b.select(keys).take(only_b[:EXAMPLES]).to_pylist()),
        columns_a=_others(a, comparable),
        columns_b=_others(b, comparable),
        columns=tuple(column for column in found if column is not None),
    )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def _others(table: pa.Table, comparable: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        f"{field.name} ({field.type})" for field in table.schema if field.name not in comparable
    )


def _comparable(a: pa.ChunkedArray, b: pa.ChunkedArray) -> bool:
    return a.type == b.type or (_is_number(a.type) and _is_number(b.type))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_list_of_numbers(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and _is_number(kind.value_type))


def _row_numbers(
    a: pa.Table, b: pa.Table, keys: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a number for each row of both tables, which is the same for the same keys."""
    numbers = np.zeros(len(a) + len(b), dtype=np.int64)
    for key in keys:
        for table in (a, b):
            if key not in table.column_names:
                raise ComparisonError(
                    f"a table lacks the key {key}: its columns are of another version"
                )
        if a[key].type != b[key].type:
            raise ComparisonError(f"the key {key} is {a[key].type} in A and {b[key].type} in B")
        column = pa.chunked_array([*a[key].chunks, *b[key].chunks], a[key].type).combine_chunks()
        codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy()
        # numbered anew for every key, or many keys of many values would not fit into 64 bits
        numbers = numbers * (int(codes.max(initial=0)) + 1) + codes
        numbers = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    for name, part in (("A", numbers[: len(a)]), ("B", numbers[len(a) :])):
        if repeated := len(part) - len(np.unique(part)):
            raise ComparisonError(f"{repeated} rows repeat the key ({', '.join(keys)}) in {name}")
    return numbers[: len(a)], numbers[len(a) :]


def _compare_columns(
    name: str, left: pa.Table, right: pa.Table, keys: Sequence[str], tolerance: float
) -> ColumnDifference | None:
    """Return how a column differs between two tables of the same keys, None if it does not."""
    a, b = left[name], right[name]
    null_a, null_b = (column.is_null().to_numpy().astype(bool) for column in (a, b))
    known = ~(null_a | null_b)
    if _is_number(a.type):
        relative = _numbers(a, b)
    elif _is_list_of_numbers(a.type):
        relative = _lists(a, b)
    else:
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        relative = np.array([0.0 if x == y else np.inf for x, y in pairs])
    numbers = _is_number(a.type) or _is_list_of_numbers(a.type)
    changed = known & (relative > tolerance)
    one_missing = null_a ^ null_b
    total = int((changed | one_missing).sum())
    if not total:
        return None
    if numbers:
        size = np.where(changed, relative, -1.0)
        shown = [int(size.argmax())] if changed.any() else []
        for lacking in (null_a & ~null_b, null_b & ~null_a):
            shown += [int(lacking.argmax())] if lacking.any() else []
    else:
        shown = np.flatnonzero(changed | one_missing)[:EXAMPLES].tolist()
    return ColumnDifference(
        name=name,
        numeric=numbers,
        changed=total,
        missing_a=int((null_a & ~null_b).sum()),
        missing_b=int((null_b & ~null_a).sum()),
        largest=float(relative[changed].max()) if numbers and changed.any() else None,
        examples=tuple(
            Example(
                left.select(keys).slice(row, 1).to_pylist()[0],
                *_shown(a[row].as_py(), b[row].as_py()),
                float(relative[row]) if numbers and changed[row] else None,
            )
            for row in shown
        ),
    )


def _shown(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two values as an example shows them: of lists their lengths or what differs most."""
    if not isinstance(a, list) or not isinstance(b, list):
        return tuple(f"list of {len(v)}" if isinstance(v, list) else v for v in (a, b))  # type: ignore[return-value]
    if len(a) != len(b):
        return f"list of {len(a)}", f"list of {len(b)}"
    x, y = (np.array(values, dtype=np.float64) for values in (a, b))
    with np.errstate(invalid="ignore"):
        far = np.where((x == y) | (np.isnan(x) & np.isnan(y)), -1.0, np.abs(x - y))
    place = int(np.where(np.isnan(far), np.inf, far).argmax())
    return a[place], b[place]


def _numbers(a: pa.ChunkedArray, b: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return the relative changes between two columns, of no meaning where one is missing."""
    x, y = (column.to_numpy().astype(np.float64) for column in (a, b))
    relative = _relative(x, y, np.maximum(np.abs(x), np.abs(y)))
    if pa.types.is_integer(a.type) and pa.types.is_integer(b.type):
        # large whole numbers may be the same float and yet differ
        differs = pc.fill_null(pc.not_equal(a, b), False).to_numpy().astype(bool)
        relative = np.where(differs, np.maximum(relative, LEAST), 0.0)
    return relative


def _lists(a: pa.ChunkedArray, b: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return the changes between columns of lists, relative to their largest number."""
    relative = np.zeros(len(a))
    for start in range(0, len(a), SLICE):
        parts = (column.slice(start, SLICE).combine_chunks() for column in (a, b))
        relative[start : start + SLICE] = _list_changes(*parts)
    return relative


def _list_changes(a: pa.ListArray, b: pa.ListArray) -> NDArray[np.float64]:
    lengths = [pc.fill_null(pc.list_value_length(part), 0).to_numpy() for part in (a, b)]
    changes = np.where(lengths[0] == lengths[1], 0.0, np.inf)
    rows = np.flatnonzero((lengths[0] == lengths[1]) & (lengths[0] > 0))
    if not len(rows):
        return changes
    starts = np.concatenate([[0], np.cumsum(lengths[0][rows])[:-1]])
    x, y = (
        part.take(rows).flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
        for part in (a, b)
    )
    sizes = np.maximum(*(np.where(np.isfinite(values), np.abs(values), 0) for values in (x, y)))
    largest = np.repeat(np.maximum.reduceat(sizes, starts), lengths[0][rows])
    changes[rows] = np.maximum.reduceat(_relative(x, y, largest), starts)
    return changes


def _relative(
    x: NDArray[np.float64], y: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return |x - y| / scale: zero for equal values only, infinite where only one is finite."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        change = np.abs(x / scale - y / scale)  # in this order x - y cannot overflow
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(same, 0.0, np.where(np.isfinite(change), np.maximum(change, LEAST), np.inf))
