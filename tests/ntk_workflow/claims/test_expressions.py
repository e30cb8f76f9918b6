"""The expressions of claims: what they give, and that nothing but them is read."""

import numpy as np
import pandas as pd
import pytest

from ntk_workflow.claims.expressions import ExpressionError, columns, evaluate, parse
from ntk_workflow.claims.papers import ClaimError, read_paper

ROWS = pd.DataFrame(
    {
        "statement": ["pair_kappa", "pair_kappa_step", "pair_kappa_unequal_step", "orthogonal"],
        "depth": [1, 2, 4, 4],
        "value": [0.5, np.nan, np.inf, -2.0],
        "bound": [2.0, 0.0, 1.0, 4.0],
    }
)
#: As pandas understands them, too.
EXPRESSIONS = [
    *("value", "1", "-0.5", "value / bound - 1", "(1 - bound / 3) ** depth * 2"),
    *("abs(value - 0.5) + log(bound)", "value.fillna(0)", "value.isna()", "value.notna()"),
    *("depth == depth.max() and bound > bound.min()", "not depth >= 2 or value <= 0"),
    *("1 < depth <= 4", "statement == 'pair_kappa' or depth != 4", "depth in [1, 2]"),
    *("statement in ['orthogonal', 'pair_kappa']", "statement.isin(['orthogonal'])"),
    *("statement not in ('orthogonal', 'pair_kappa')", "~statement.str.contains('ortho')"),
    *("statement.str.startswith('pair_')", "statement.str.endswith('_step')"),
    "statement.str.fullmatch('pair_kappa(_unequal)?_step')",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_they_give_what_pandas_gives(text: str):
    values = evaluate(text, ROWS)
    with np.errstate(divide="ignore"):
        expected = np.broadcast_to(np.asarray(ROWS.eval(text, engine="python")), len(ROWS))
    np.testing.assert_array_equal(values, expected)
    assert values.dtype == (bool if expected.dtype == bool else np.float64)
    assert len(evaluate(text, ROWS.iloc[:0])) == 0


def test_extremes_of_rows_that_are_equal_in_other_columns():
    rows = pd.DataFrame(
        {"model": ["a", "a", "b", "b"], "data": [1, 2, 1, 1], "depth": [1, 8, 2, 3]}
    )
    categorical = rows.astype({"model": "category"})
    for each in (rows, categorical):
        found = evaluate("depth == depth.max('model')", each)
        assert found.tolist() == [False, True, False, True]
    assert evaluate("depth.min('model', 'data')", rows).tolist() == [1, 8, 2, 2]
    assert columns("depth == depth.max('model')") == {"depth", "model"}
    with pytest.raises(ExpressionError, match="there is no column colour"):
        evaluate("depth.max('colour')", rows)


HOSTILE = [
    # other code
    "@pd.io.common.os.system('touch planted')",
    "pd.io.common.os.system('touch planted')",
    "depth.__class__.__init__.__globals__['__builtins__']['open']('planted', 'w')",
    *("@pd.read_pickle('planted')", "depth.to_csv('planted')", "depth.values.tofile('planted')"),
    *("depth.str.to_csv('planted')", "depth.max().to_csv('planted')", "depth.apply(print)"),
    *("depth.pipe(open, 'planted', 'w')", "depth.fillna(depth.to_csv('planted'))"),
    *("depth.isin([open('planted', 'w')])", "depth in [open('planted', 'w')]"),
    *("depth in depth.to_csv('planted')", "depth in {}", "depth in [{[]: 1}]", "depth is None"),
    *("depth.max(model)", "depth.max(1)", "depth.isna('model')"),
    *("depth.max(open('planted', 'w'))", "depth.max(axis=open('planted', 'w'))"),
    *("open('planted', 'w')", 'eval(\'open("planted", "w")\')', 'f\'{open("planted", "w")}\''),
    *("__import__('os').system('touch planted')", "import os", "(lambda: open('planted', 'w'))()"),
    *("[open('planted', 'w') for _ in [1]]", "{'a': open('planted', 'w')}", "depth & 1"),
    *("depth[open('planted', 'w')]", "depth[0]", "depth.values", "log(*depth)"),
    *("(depth := 1)", "depth = 1", "depth if depth else 1", "`depth`", "depth\0", ""),
    "log(depth, bound)",
    # what is no number or text of a column
    *("True", "1j", "'text'", "'text' * 1000000000", "depth == 'text' * 1000000000"),
    *("1 / 0", "(-8) ** 0.5", "1e999", "9**9**9", "depth ** (9**9**9)", "9" * 400, "9" * 5000),
    # too long, too deep, or with a regular expression that may take exponential time
    *("depth == '" + "x" * 1_000_000 + "'", "(" * 3000 + "depth" + ")" * 3000, "(" * 100_000),
    *("-" * 400 + "depth", "+".join(["depth"] * 60), "depth == '\\d'"),
    *("statement.str.fullmatch('(a+)+b')", "statement.str.contains('(a+)+b')"),
    *(f"statement.str.fullmatch('{text}')" for text in (".*a" * 30, "(a)?" * 30)),
    "statement.str.fullmatch(statement)",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40].replace("\0", "0"))
@pytest.mark.filterwarnings("error")
def test_whatever_else_is_refused_when_a_paper_is_read(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    claim = {"name": "a", "place": "p", "kind": "theory", "statement": "s", "table": "t"}
    claim |= {"quantity": "value", "comparison": "<", "target": 8}
    fields = {"quantity": text, "target": text, "where": ["depth > 0", text]}
    fields |= {"joins.where": [{"prefix": "x", "on": ["depth"], "where": text}]}
    fields |= {"conditions.where": [{"where": text, "words": "never"}]}
    for key, value in fields.items():
        claims = [claim | {key.removesuffix(".where"): value}]
        with pytest.raises(ClaimError) as refused:
            read_paper("p", {"title": "t", "citation": "c", "claims": claims})
        message = str(refused.value)
        assert message.startswith(f"claim a: {key}: ")
        assert "\n" not in message
        assert len(message) < 600
    with pytest.raises(ExpressionError):
        evaluate(text, ROWS)
    assert not list(tmp_path.iterdir())


UNFIT = [
    ("depht + 1", r"'depht \+ 1': there is no column depht"),
    ("statement", "'statement': Unable to parse string"),
    ("statement / 2", "'statement / 2': "),
    ("depth.str.contains('a')", "Can only use .str accessor with string values"),
    ("not value", "'not value': "),
    ("value and depth", "'value and depth': "),
]


@pytest.mark.parametrize(("text", "message"), UNFIT)
def test_what_does_not_fit_the_rows_is_one_line(text, message):
    parse(text)
    with pytest.raises(ExpressionError, match=message) as refused:
        evaluate(text, ROWS)
    assert "\n" not in str(refused.value)
