"""Two tables are compared row by row, whatever is missing, infinite or in another order."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_workflow.comparison.differences import (
    ABSENT,
    Change,
    ColumnDifference,
    ComparisonError,
    compare_settings,
    compare_tables,
)

NAN, INF = math.nan, math.inf


def table(values, kind=None, **keys) -> pa.Table:
    keys = keys or {"row": list(range(len(values)))}
    return pa.table({**keys, "x": pa.array(values, kind or pa.float64())})


def difference(a, b, kind=None, tolerance=0.0) -> ColumnDifference | None:
    """Return how two columns of values differ."""
    found = compare_tables(table(a, kind), table(b, kind), keys=["row"], tolerance=tolerance)
    assert found.equal == (not found.columns)
    return found.columns[0] if found.columns else None


@pytest.mark.parametrize(
    ("a", "b", "relative"),
    [
        (1.0, 1.0, 0),
        (0.0, -0.0, 0),
        (2.0, 1.0, 0.5),
        (1.0, 2.0, 0.5),
        (-1.0, 1.0, 2),
        (0.0, 1e-300, 1),
        (1e308, -1e308, 2),
        (INF, INF, 0),
        (NAN, NAN, 0),
        (INF, 1.0, INF),
        (INF, -INF, INF),
        (NAN, 1.0, INF),
        (NAN, INF, INF),
    ],
)
def test_relative_changes(a, b, relative):
    found = difference([a], [b])
    assert (found.largest if found else 0) == relative


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_numbers_are_equal_only_if_they_are(a, b):
    assert (difference([a], [b]) is None) == (a == b)


def test_neighbouring_whole_numbers_beyond_floats_differ():
    found = difference([2**60], [2**60 + 1], pa.int64())
    assert found is not None
    assert 0 < found.largest < 1e-15
    assert difference([2**60, None], [2**60, None], pa.int64()) is None


def test_the_largest_change_is_named_with_its_row():
    found = difference([1.0, 2.0, 4.0, 8.0], [1.0, 2.2, 5.0, 8.0])
    assert found.changed == 2
    (example,) = found.examples
    assert (example.key, example.a, example.b) == ({"row": 2}, 4.0, 5.0)
    assert example.relative == found.largest == pytest.approx(0.2)


def test_missing_values_are_a_change_at_any_tolerance():
    found = difference([1.0, None, None, 4.0], [None, None, 3.0, 4.1], tolerance=0.5)
    assert (found.changed, found.missing_a, found.missing_b, found.largest) == (2, 1, 1, None)
    assert [(example.a, example.b) for example in found.examples] == [(None, 3.0), (1.0, None)]


def test_tolerance_is_relative_and_includes_its_bound():
    assert difference([1.0], [0.75], tolerance=0.25) is None
    assert difference([1.0], [0.75], tolerance=0.24).changed == 1
    assert difference([1.0], [INF], tolerance=1e9).largest == INF


class TestLists:
    KIND = pa.list_(pa.float64())

    def test_equal_whatever_they_hold(self):
        values = [[1.0, None, NAN, INF], [], None, [0.0, 0.0]]
        assert difference(values, values, self.KIND) is None

    def test_against_the_obvious_way(self):
        draw = np.random.default_rng(0)
        a = [draw.lognormal(sigma=5, size=n).tolist() for n in (3, 0, 7, 1, 5) * 3]
        b = [[v * (1 + draw.normal() * 1e-3) for v in row] for row in a]
        found = difference(a, b, self.KIND)
        expected = [
            max(abs(v - w) for v, w in zip(x, y, strict=True)) / max(*x, *y)
            for x, y in zip(a, b, strict=True)
            if x
        ]
        assert found.changed == len(expected)
        assert found.largest == pytest.approx(max(expected))

    def test_noise_is_small_beside_the_largest_number(self):
        found = difference([[1e3, 1e-13]], [[1e3, -5e-13]], self.KIND)
        assert found.largest == pytest.approx(6e-16)
        assert (found.examples[0].a, found.examples[0].b) == (1e-13, -5e-13)

    def test_other_lengths_and_missing_lists(self):
        found = difference([[1.0], None, [2.0]], [[1.0, 2.0], [1.0], [2.0]], self.KIND)
        assert (found.changed, found.missing_a, found.largest) == (2, 1, INF)
        assert (found.examples[0].a, found.examples[0].b) == ("list of 1", "list of 2")


def test_texts_and_booleans_show_the_rows_that_changed():
    found = difference(["holds", "fails", None], ["fails", "fails", "holds"], pa.string())
    assert (found.changed, found.largest) == (2, None)
    shown = [(e.key["row"], e.a, e.b) for e in found.examples]
    assert shown == [(0, "holds", "fails"), (2, None, "holds")]
    assert difference([True, False], [True, None], pa.bool_()).changed == 1


def test_rows_are_matched_by_keys_of_which_some_are_missing():
    a = table([1.0, 2.0, 3.0], name=["a", "a", "b"], seed=[None, 1, None])
    b = table([2.0, 1.0, 9.0], name=["a", "a", "c"], seed=[1, None, None])
    found = compare_tables(a, b, keys=["name", "seed"])
    assert (found.common, found.only_a, found.only_b, found.columns) == (2, 1, 1, ())
    assert found.examples_a == ({"name": "b", "seed": None},)
    assert found.examples_b == ({"name": "c", "seed": None},)


def test_the_order_of_rows_is_no_difference():
    rows = [{"k": f"{n % 7}", "seed": n if n % 3 else None, "i": n, "x": n / 7} for n in range(60)]
    shuffled = random.Random(0).sample(rows, len(rows))
    a, b = pa.Table.from_pylist(rows), pa.Table.from_pylist(shuffled)
    assert compare_tables(a, b, keys=["k", "seed", "i"]).equal


def test_an_empty_table_has_no_common_rows():
    a = table([1.0])
    found = compare_tables(a, a.slice(0, 0), keys=["row"])
    assert (found.common, found.only_a, found.only_b) == (0, 1, 0)
    assert compare_tables(a.slice(0, 0), a.slice(0, 0), keys=["row"]).equal


def test_other_columns_and_types_are_named_and_the_rest_is_compared():
    a = table([1.0]).append_column("old", pa.array(["x"])).append_column("t", pa.array([1]))
    b = table([1], pa.int64()).append_column("t", pa.array(["1"]))
    found = compare_tables(a, b, keys=["row"])
    assert found.columns_a == ("old (string)", "t (int64)")
    assert found.columns_b == ("t (string)",)
    assert not found.columns
    assert not found.equal


@pytest.mark.parametrize(
    ("b", "message"),
    [
        (table([1.0], other=[0]), "lacks the key row"),
        (table([1.0], row=["0"]), "the key row is int64 in A and string in B"),
        (table([1.0, 2.0], row=[0, 0]), r"1 rows repeat the key \(row\) in B"),
    ],
)
def test_tables_without_common_keys_are_refused(b, message):
    with pytest.raises(ComparisonError, match=message):
        compare_tables(table([1.0]), b, keys=["row"])


def test_settings_are_compared_key_by_key():
    a = {"seeds": [1, 2], "study": {"depth": 1, "kept": None}, "same": {}, "one": 1}
    b = {"seeds": [1], "study": {"kept": None}, "same": {}, "one": True}
    assert compare_settings(a, b) == [
        Change("one", 1, True),
        Change("seeds", [1, 2], [1]),
        Change("study.depth", 1, ABSENT),
    ]
