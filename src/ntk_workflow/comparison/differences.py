"""What differs between two runs: settings key by key, tables row by row and quantity by quantity.

Rows of two tables are matched by their keys, where a missing value is a value like any other. The
relative change of two numbers is |a - b| / max(|a|, |b|), whichever run comes first. That of two
lists is the largest difference over the largest number of both, since the small numbers of a
spectrum are rounding noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError

ABSENT = "(absent)"  #: stands for the value of a setting that a run does not have
EXAMPLES = 100  #: rows that are kept of those that only one run has, and of texts that differ
#: The relative change of numbers that differ by less than a float can hold.
LEAST = float(np.finfo(np.float64).tiny)


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
    names = sorted({*left, *right})
    changes = [Change(name, left.get(name, ABSENT), right.get(name, ABSENT)) for name in names]
    # not by ==, to which 1, 1.0 and true are the same
    return [change for change in changes if repr(change.a) != repr(change.b)]


def compare_tables(
    a: pa.Table,
    b: pa.Table,
    *,
    keys: Sequence[str],
    tolerance: float = 0.0,
    noise: float = 0.0,
) -> TableDifference:
    """Return how two tables differ whose rows are identified by the columns ``keys``.

    Numbers are equal whose relative change is at most ``tolerance``, or, outside lists, whose
    difference is at most ``noise``; infinities and NaN are equal to themselves and infinitely far
    from all else.

    Raises:
        ComparisonError: if a table lacks a key, has one of another type or repeats it.
    """
    both, only_a, only_b = _matched(a, b, keys)
    shared = [name for name in a.column_names if name in b.column_names]
    comparable = [n for n in shared if a[n].type == b[n].type or _are_numbers(a[n], b[n])]
    left, right = (table.take(both[name].to_numpy()) for name, table in (("A", a), ("B", b)))
    quantities = [name for name in comparable if name not in keys]
    columns = [_compare_columns(left, right, name, keys, tolerance, noise) for name in quantities]
    columns_a, columns_b = (
        tuple(f"{each.name} ({each.type})" for each in t.schema if each.name not in comparable)
        for t in (a, b)
    )
    return TableDifference(
        common=len(both),
        only_a=len(only_a),
        only_b=len(only_b),
        examples_a=tuple(a.select(keys).take(only_a[:EXAMPLES]).to_pylist()),
        examples_b=tuple(b.select(keys).take(only_b[:EXAMPLES]).to_pylist()),
        columns_a=columns_a,
        columns_b=columns_b,
        columns=tuple(column for column in columns if column is not None),
    )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def _are_numbers(*columns: pa.ChunkedArray) -> bool:
    kinds = [column.type for column in columns]
    return all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)


def _matched(
    a: pa.Table, b: pa.Table, keys: Sequence[str]
) -> tuple[pd.DataFrame, NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers ``A`` and ``B`` of rows with the same keys, and of the others of each."""
    frames = []
    for name, table in (("A", a), ("B", b)):
        for key in keys:
            if key not in table.column_names:
                raise ComparisonError(f"a table lacks the key {key}: it is of another version")
            if (kind := table[key].type) != a[key].type:
                raise ComparisonError(f"the key {key} is {a[key].type} in A and {kind} in B")
        frame = table.select(keys).to_pandas(types_mapper=pd.ArrowDtype)
        if repeated := frame.duplicated().sum():
            raise ComparisonError(f"{repeated} rows repeat the key ({', '.join(keys)}) in {name}")
        frames.append(frame.assign(**{name: np.arange(len(frame), dtype=float)}))
    rows = frames[0].merge(frames[1], on=list(keys), how="outer")[["A", "B"]]
    only_a, only_b = rows["A"][rows["B"].isna()], rows["B"][rows["A"].isna()]
    both = rows.dropna().astype(np.int64).sort_values("A")  # for examples to be A's first rows
    return both, *(np.sort(only.to_numpy(np.int64)) for only in (only_a, only_b))


def _compare_columns(
    left: pa.Table, right: pa.Table, name: str, keys: Sequence[str], tolerance: float, noise: float
) -> ColumnDifference | None:
    """Return how a column differs between two tables of the same keys, None if it does not."""
    a, b = left[name], right[name]
    null_a, null_b = (column.is_null().to_numpy().astype(bool) for column in (a, b))
    of_lists = pa.types.is_list(a.type) and _are_numbers(a.type.value_field)
    numeric = of_lists or _are_numbers(a)
    if of_lists:
        relative = np.array([_list_change(x, y) for x, y in zip(a, b, strict=True)])
    elif numeric:
        relative = _numbers(a, b, noise)
    else:
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        relative = np.array([0.0 if x == y else np.inf for x, y in pairs])
    changed = ~(null_a | null_b) & (relative > tolerance)
    missing_a, missing_b = null_a & ~null_b, null_b & ~null_a
    differs = changed | missing_a | missing_b
    if not differs.any():
        return None
    if numeric:
        sizes = (np.where(changed, relative, 0.0), missing_a, missing_b)
        shown = [int(size.argmax()) for size in sizes if size.any()]
    else:
        shown = np.flatnonzero(differs)[:EXAMPLES].tolist()
    examples = []
    for row in shown:
        (key,) = left.select(keys).slice(row, 1).to_pylist()
        change = float(relative[row]) if numeric and changed[row] else None
        examples.append(Example(key, *_shown(a[row].as_py(), b[row].as_py()), change))
    return ColumnDifference(
        name=name,
        numeric=numeric,
        changed=int(differs.sum()),
        missing_a=int(missing_a.sum()),
        missing_b=int(missing_b.sum()),
        largest=float(relative[changed].max()) if numeric and changed.any() else None,
        examples=tuple(examples),
    )


def _shown(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two values as an example shows them: of lists their lengths or what differs most."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        x, y = (np.array(values, dtype=np.float64) for values in (a, b))
        place = int(_relative(x, y, np.ones(1)).argmax())
        return a[place], b[place]
    first, second = (f"list of {len(v)}" if isinstance(v, list) else v for v in (a, b))
    return first, second


def _numbers(a: pa.ChunkedArray, b: pa.ChunkedArray, noise: float) -> NDArray[np.float64]:
    """Return the relative changes between two columns, of no meaning where one is missing."""
    x, y = (column.to_numpy().astype(np.float64) for column in (a, b))
    relative = _relative(x, y, np.maximum(np.abs(x), np.abs(y)))
    with np.errstate(invalid="ignore", over="ignore"):
        relative[np.abs(x - y) <= noise] = 0.0
    if pa.types.is_integer(a.type) and pa.types.is_integer(b.type):
        # large whole numbers may be the same float and yet differ
        differs = pc.fill_null(pc.not_equal(a, b), False).to_numpy().astype(bool)
        relative = np.where(differs, np.maximum(relative, LEAST), 0.0)
    return relative


def _list_change(a: pa.ListScalar, b: pa.ListScalar) -> float:
    """Return the largest change between two lists, relative to their largest number."""
    if not (a.is_valid and b.is_valid):
        return 0.0
    x, y = (v.values.cast(pa.float64()).to_numpy(zero_copy_only=False) for v in (a, b))
    if len(x) != len(y):
        return np.inf
    scale = max(np.abs(v[np.isfinite(v)]).max(initial=0.0) for v in (x, y))
    return float(_relative(x, y, np.array([scale])).max(initial=0.0))


def _relative(
    x: NDArray[np.float64], y: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return |x - y| / scale: zero for equal values only, infinite where only one is finite."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        change = np.abs(x / scale - y / scale)  # in this order x - y cannot overflow
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(same, 0.0, np.where(np.isfinite(change), np.maximum(change, LEAST), np.inf))
