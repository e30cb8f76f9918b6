"""The expressions of claims: what they give."""

import numpy as np
import pandas as pd
import pytest

from ntk_workflow.claims.checking import evaluate
from ntk_workflow.claims.papers import Claim, columns

CLAIM = {"name": "a", "place": "p", "kind": "theory", "statement": "s", "table": "t"}
CLAIM |= {"quantity": "value", "comparison": "<", "target": "8"}
ROWS = pd.DataFrame(
    {
        "statement": ["pair_kappa", "pair_kappa_step", "pair_kappa_unequal_step", "orthogonal"],
        "model": ["a", "a", "b", "b"],
        "depth": [1, 8, 2, 3],
        "value": [0.5, np.nan, np.inf, -2.0],
        "normalized": [True, False, True, False],
    }
)
EXPRESSIONS = [
    ("-0.5", [-0.5] * 4),
    ("(1 - value / 2) ** 2", [0.5625, np.nan, np.inf, 4]),
    ("abs(value) + log(depth)", [0.5, np.nan, np.inf, 2 + np.log(3)]),
    ("value.fillna(0) / 0", [np.inf, np.nan, np.inf, -np.inf]),
    ("value.notna() and not depth >= 2 or value < 0", [True, False, False, True]),
    ("1 < depth <= 3 and normalized", [False, False, True, False]),
    ("depth == depth.max()", [False, True, False, False]),
    ("depth == depth.max('model')", [False, True, False, True]),
    ("depth.min('model', 'normalized')", [1, 8, 2, 3]),
    ("statement in ['orthogonal', 'pair_kappa']", [True, False, False, True]),
    ("~statement.str.startswith('pair_')", [False, False, False, True]),
    ("statement.str.fullmatch('pair_kappa(_unequal)?_step')", [False, True, True, False]),
]


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS)
@pytest.mark.parametrize("texts", ["str", "category"])
def test_they_give_a_value_for_each_row(text, expected, texts):
    rows = ROWS.astype({"statement": texts, "model": texts})
    values = evaluate(Claim("p", **CLAIM), rows, text)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert values.dtype == (bool if isinstance(expected[0], bool) else np.float64)
    assert columns(text) <= {*ROWS}
