"""Two tables are compared row by row, whatever is missing, infinite or in another order."""

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_workflow.comparison import differences
from ntk_workflow.comparison.differences import compare_tables

NAN, INF = math.nan, math.inf
LISTS = pa.list_(pa.float64())


def table(values, kind=None, **keys) -> pa.Table:
    keys = keys or {"row": list(range(len(values)))}
    return pa.table({**keys, "x": pa.array(values, kind or pa.float64())})


def difference(a, b, kind=None, tolerance=0.0) -> differences.ColumnDifference | None:
    whole = compare_tables(table(a, kind), table(b, kind), keys=["row"], tolerance=tolerance)
    assert whole.equal == (not whole.columns)
    return whole.columns[0] if whole.columns else None


CHANGES = [
    *((1.0, 1.0, 0), (0.0, -0.0, 0), (2.0, 1.0, 0.5), (1.0, 2.0, 0.5), (-1.0, 1.0, 2)),
    *((0.0, 1e-300, 1), (1e308, -1e308, 2), (INF, INF, 0), (NAN, NAN, 0), (INF, 1.0, INF)),
    *((INF, -INF, INF), (NAN, 1.0, INF), (NAN, INF, INF)),
]


@pytest.mark.parametrize(("a", "b", "relative"), CHANGES)
def test_relative_changes(a, b, relative):
    for column in (difference([a], [b]), difference([[a]], [[b]], LISTS)):
        assert (column.largest if column else 0) == relative


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_numbers_are_equal_only_if_they_are(a, b):
    assert (difference([a], [b]) is None) == (a == b)
    # even if they are neighbours that the same float stands for
    assert 0 < difference([2**60], [2**60 + 1], pa.int64()).largest < 1e-15
    assert difference([2**60, None], [2**60, None], pa.int64()) is None


def test_the_largest_change_is_named_and_a_tolerance_includes_its_bound_and_nothing_missing():
    column = difference([1.0, 2.0, 4.0, 8.0], [1.0, 2.2, 5.0, 8.0])
    assert column.changed == 2
    (example,) = column.examples
    assert (example.key, example.a, example.b) == ({"row": 2}, 4.0, 5.0)
    assert example.relative == column.largest == pytest.approx(0.2)

    column = difference([1.0, None, None, 4.0], [None, None, 3.0, 4.1], tolerance=0.5)
    counts = (column.changed, column.missing_a, column.missing_b, column.largest)
    assert counts == (2, 1, 1, None)
    assert [(example.a, example.b) for example in column.examples] == [(None, 3.0), (1.0, None)]
    assert difference([1.0], [0.75], tolerance=0.25) is None
    assert difference([1.0], [0.75], tolerance=0.24).changed == 1
    assert difference([1.0], [INF], tolerance=1e9).largest == INF


def test_lists_against_the_obvious_way():
    values = [[1.0, None, NAN, INF], [], None, [0.0, 0.0]]
    assert difference(values, values, LISTS) is None
    rng = np.random.default_rng(0)
    a = [rng.lognormal(sigma=5, size=n).tolist() for n in (3, 0, 7, 1, 5) * 3]
    b = [[v * (1 + rng.normal() * 1e-3) for v in row] for row in a]
    pairs = [(np.array(x), np.array(y)) for x, y in zip(a, b, strict=True) if x]
    expected = [abs(x - y).max() / max(*x, *y) for x, y in pairs]
    column = difference(a, b, LISTS)
    assert column.changed == len(expected)
    assert column.largest == pytest.approx(max(expected))


def test_noise_of_a_list_is_small_and_another_length_is_not():
    column = difference([[1e3, 1e-13]], [[1e3, -5e-13]], LISTS)
    assert column.largest == pytest.approx(6e-16)
    assert (column.examples[0].a, column.examples[0].b) == (1e-13, -5e-13)
    column = difference([[1.0], None, [2.0]], [[1.0, 2.0], [1.0], [2.0]], LISTS)
    assert (column.changed, column.missing_a, column.largest) == (2, 1, INF)
    assert (column.examples[0].a, column.examples[0].b) == ("list of 1", "list of 2")


def test_texts_and_booleans_show_the_rows_that_changed():
    column = difference(["holds", "fails", None], ["fails", "fails", "holds"], pa.string())
    assert (column.changed, column.largest) == (2, None)
    shown = [(e.key["row"], e.a, e.b) for e in column.examples]
    assert shown == [(0, "holds", "fails"), (2, None, "holds")]
    assert difference([True, False], [True, None], pa.bool_()).changed == 1


def test_rows_are_matched_by_keys_of_which_some_are_missing():
    a = table([1.0, 2.0, 3.0], name=["a", "a", "b"], seed=[None, 1, None])
    b = table([2.0, 1.0, 9.0], name=["a", "a", "c"], seed=[1, None, None])
    whole = compare_tables(a, b, keys=["name", "seed"])
    assert (whole.common, whole.only_a, whole.only_b, whole.columns) == (2, 1, 1, ())
    assert whole.examples_a == ({"name": "b", "seed": None},)
    assert whole.examples_b == ({"name": "c", "seed": None},)
    empty = compare_tables(a, a.slice(0, 0), keys=["name", "seed"])
    assert (empty.common, empty.only_a, empty.only_b) == (0, 3, 0)
    assert compare_tables(a.slice(0, 0), a.slice(0, 0), keys=["name"]).equal

    # the order of rows is no difference
    rows = [{"k": f"{n % 7}", "seed": n if n % 3 else None, "i": n, "x": n / 7} for n in range(60)]
    shuffled = random.Random(0).sample(rows, len(rows))
    a, b = pa.Table.from_pylist(rows), pa.Table.from_pylist(shuffled)
    assert compare_tables(a, b, keys=["k", "seed", "i"]).equal


def test_other_columns_and_types_are_named_and_the_rest_is_compared():
    a = table([1.0]).append_column("old", pa.array(["x"])).append_column("t", pa.array([1]))
    b = table([1], pa.int64()).append_column("t", pa.array(["1"]))
    whole = compare_tables(a, b, keys=["row"])
    assert whole.columns_a == ("old (string)", "t (int64)")
    assert whole.columns_b == ("t (string)",)
    assert not whole.columns
    assert not whole.equal


REFUSED = [
    (table([1.0], other=[0]), "lacks the key row"),
    (table([1.0], row=["0"]), "the key row is int64 in A and string in B"),
    (table([1.0, 2.0], row=[0, 0]), r"1 rows repeat the key \(row\) in B"),
]


@pytest.mark.parametrize(("b", "message"), REFUSED)
def test_tables_without_common_keys_are_refused(b, message):
    with pytest.raises(differences.ComparisonError, match=message):
        compare_tables(table([1.0]), b, keys=["row"])
