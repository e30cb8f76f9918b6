"""Verdicts on claims: comparisons, joins, conditions, what cannot be decided, and mistakes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ntk_workflow.claims import (
    FAILS,
    HOLDS,
    NOT_TESTED,
    UNDER_A_CONDITION,
    Claim,
    ClaimError,
    Condition,
    Join,
    check,
    pages,
    read_paper,
)
from ntk_workflow.claims.pages import Checked

TABLE = pd.DataFrame(
    {
        "activation": ["relu"] * 4 + ["linear"] * 4,
        "depth": [1, 2] * 4,
        "seed": [1, 1, 32, 32] * 2,
        "kappa": [5.0, 3.0, 6.0, 7.0, 10.0, 10.0, 12.0, None],
    }
)
RELU = ("activation == 'relu'",)
LINEAR = Join("linear", ["depth", "seed"], where=("activation == 'linear'",))


def claim(**values: Any) -> Claim:
    common = {"name": "a", "place": "Theorem 1", "kind": "theory", "statement": "s", "table": "t"}
    return Claim(
        **(common | {"quantity": "kappa", "comparison": "<", "target": "8", "where": RELU} | values)
    )


def verdict(**values: Any) -> str:
    return check(claim(**values), {"t": TABLE}).verdict


def test_a_claim_holds_in_every_case_or_it_does_not():
    found = check(claim(), {"t": TABLE})
    assert found.verdict == HOLDS
    assert (found.cases, found.holding, found.undecided) == (4, 4, 0)
    assert (found.measured, found.low, found.high, found.median) == (7, 3, 7, 5.5)
    assert found.worst == "depth 2, seed 32"
    assert found.seed_spread == 4  # of depth 2: 3 and 7
    found = check(claim(target="7"), {"t": TABLE})
    assert (found.verdict, found.holding) == (FAILS, 3)


@pytest.mark.parametrize(
    ("comparison", "target", "tolerance", "expected"),
    [
        ("<", "7", 0, FAILS),
        ("<=", "7", 0, HOLDS),
        ("<", "7", 0.1, HOLDS),
        (">", "3", 0, FAILS),
        (">=", "3", 0, HOLDS),
        ("==", "5", 2, HOLDS),
        ("==", "5", 1.9, FAILS),
        ("==", "kappa", 0, HOLDS),
    ],
)
def test_comparisons(comparison, target, tolerance, expected):
    assert verdict(comparison=comparison, target=target, tolerance=tolerance) == expected


def test_the_worst_case_is_the_one_that_misses_most():
    assert check(claim(comparison=">", target="1"), {"t": TABLE}).measured == 3
    assert check(claim(comparison="==", target="6"), {"t": TABLE}).measured == 3


def test_rows_stand_beside_others():
    found = check(claim(quantity="kappa / linear_kappa", target="1", joins=[LINEAR]), {"t": TABLE})
    assert (found.cases, found.undecided, found.measured) == (3, 1, 0.5)


def test_an_unresolved_kappa_is_larger_than_any_number():
    ratio = claim(quantity="kappa / linear_kappa", target="1", joins=[LINEAR], unresolved=["kappa"])
    found = check(ratio, {"t": TABLE})
    assert (found.verdict, found.cases, found.low) == (HOLDS, 4, 0)
    found = check(
        claim(where=("activation == 'linear'",), target="20", unresolved=["kappa"]), {"t": TABLE}
    )
    assert (found.verdict, found.measured) == (FAILS, math.inf)


def test_a_row_stands_beside_the_previous_one():
    steps = claim(
        quantity="kappa / before_kappa",
        target="1",
        joins=[Join("before", ["activation", "seed"], previous="depth")],
        conditions=[Condition("seed == 5", "never"), Condition("seed == 1", "for seed 1")],
    )
    found = check(steps, {"t": TABLE.sample(frac=1, random_state=0)})
    assert (found.verdict, found.condition, found.condition_cases) == (
        UNDER_A_CONDITION,
        "for seed 1",
        1,
    )
    assert (found.cases, found.holding, found.measured) == (2, 1, pytest.approx(7 / 6))


def test_a_condition_that_some_case_breaks_is_none():
    conditions = [Condition("seed == 32", "for seed 32")]
    assert verdict(target="4", conditions=conditions) == FAILS


def test_wheres_select_step_by_step():
    found = check(claim(where=("seed == 1", "kappa == kappa.max()"), target="11"), {"t": TABLE})
    assert found.cases == 2  # the two linear ones
    assert check(claim(where=("kappa == kappa.max()", "seed == 1")), {"t": TABLE}).cases == 0


@pytest.mark.parametrize(
    "values",
    [
        {"where": ("activation == 'gelu'",)},
        {"table": "other"},
        {"joins": [Join("x", ["depth"], table="other")]},
        {"quantity": "kappa / 0 - kappa / 0"},
    ],
)
def test_what_has_no_number_is_not_tested(values):
    found = check(claim(**values), {"t": TABLE})
    assert found.verdict == NOT_TESTED
    assert found.measured is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"quantity": "kapa"}, r"a: 'kapa': there is no column kapa"),
        ({"quantity": "activation"}, r"a: 'activation': .*'relu'"),
        ({"joins": [Join("x", ["dept"], where=RELU)]}, r"a: join 'x': .*dept"),
        ({"joins": [Join("x", ["depth"], where=RELU)]}, r"a: join 'x': Merge keys are not unique"),
    ],
)
def test_mistakes_name_the_claim(values, message):
    with pytest.raises(ClaimError, match=message):
        check(claim(**values), {"t": TABLE})


def test_a_name_is_one_claims():
    one = {
        "name": "a",
        "place": "p",
        "kind": "theory",
        "statement": "s",
        "table": "t",
        "quantity": "kappa",
        "comparison": "<",
        "target": 8,
    }
    paper = read_paper("p", {"title": "t", "citation": "c", "claims": [one]})
    assert paper.claims == [Claim(**(one | {"target": "8"}))]
    with pytest.raises(ClaimError, match="claims named twice: a"):
        read_paper("p", {"title": "t", "citation": "c", "claims": [one, one]})


def test_pages_tell_verdict_number_and_case():
    claims = [
        claim(name="a", statement="1 < 2 | all"),
        claim(name="b", where=("activation == 'none'",)),
        claim(name="c", kind="erratum", target="1", figure="p/fig1"),
    ]
    paper = read_paper("p", {"title": "A <title>", "citation": "c", "claims": []})
    checked = [Checked(each, check(each, {"t": TABLE})) for each in claims]
    text = pages.markdown("demo", [(paper, checked)])
    assert "| Theorem 1 | 1 < 2 \\| all | ✓ holds | 7 | `< 8` |" in text
    assert "Measured 7 in the worst of 4 cases (depth 2, seed 32); range 3 to 7, median 5.5" in text
    assert "Not tested: no row of this run." in text
    assert "(figures/p/fig1.png)" in text
    page = pages.html("demo", [(paper, checked)])
    assert "A &lt;title&gt;" in page
    assert "1 &lt; 2 | all" in page
    assert page.count("<h3") == 3
    assert np.all([f'id="{name}"' in page and f'href="#{name}"' in page for name in "abc"])
