"""Verdicts on claims: comparisons, joins, conditions, what cannot be decided, and mistakes."""

import html
import math
from dataclasses import asdict

import pandas as pd
import pytest

from ntk_workflow.claims.checking import FAILS, HOLDS, NOT_TESTED, UNDER_A_CONDITION, Finding, check
from ntk_workflow.claims.pages import Checked, page
from ntk_workflow.claims.papers import Claim, ClaimError, Condition, Join, Paper

TABLE = pd.DataFrame({"activation": ["relu"] * 4 + ["linear"] * 4, "depth": [1, 2] * 4})
TABLE["seed"] = [1, 1, 32, 32] * 2
TABLE["kappa"] = [5.0, 3.0, 6.0, 7.0, 10.0, 10.0, 12.0, None]
RELU = ("activation == 'relu'",)
LINEAR = Join("linear", ["depth", "seed"], where=("activation == 'linear'",))


def claim(**values) -> Claim:
    common = {"name": "a", "place": "Theorem 1", "kind": "theory", "statement": "s", "table": "t"}
    common |= {"quantity": "kappa", "comparison": "<", "target": "8"}
    return Claim(**{**common, "where": RELU, **values})


def checked(**values) -> Finding:
    return check(claim(**values), {"t": TABLE})


def test_a_claim_holds_in_every_case_or_it_does_not():
    finding = checked()
    expected = {"measured": 7, "low": 3, "high": 7, "median": 5.5, "worst": "depth 2, seed 32"}
    expected |= {"cases": 4, "holding": 4, "undecided": 0}
    expected |= {"seed_spread": 4}  # of depth 2: 3 and 7
    assert asdict(finding).items() >= expected.items()
    assert (checked(target="7").verdict, checked(target="7").holding) == (FAILS, 3)


COMPARISONS = [
    *(("<", "7", 0, FAILS, 7), ("<=", "7", 0, HOLDS, 7), ("<", "7", 0.1, HOLDS, 7)),
    *((">", "3", 0, FAILS, 3), (">=", "3", 0, HOLDS, 3), ("==", "5", 2, HOLDS, 3)),
    *(("==", "6", 2.9, FAILS, 3), ("==", "kappa", 0, HOLDS, 5)),
]


@pytest.mark.parametrize(("comparison", "target", "tolerance", "verdict", "worst"), COMPARISONS)
def test_comparisons(comparison, target, tolerance, verdict, worst):
    finding = checked(comparison=comparison, target=target, tolerance=tolerance)
    assert (finding.verdict, finding.measured) == (verdict, worst)


def test_rows_stand_beside_others_and_an_unresolved_kappa_is_larger_than_any_number():
    ratio = {"quantity": "kappa / linear_kappa", "target": "1", "joins": [LINEAR]}
    finding = checked(**ratio)
    assert (finding.cases, finding.undecided, finding.measured) == (3, 1, 0.5)
    finding = checked(**ratio, unresolved=["kappa"])
    assert (finding.verdict, finding.cases, finding.low) == (HOLDS, 4, 0)
    finding = checked(where=LINEAR.where, target="20", unresolved=["kappa"])
    assert (finding.verdict, finding.measured) == (FAILS, math.inf)


def test_a_row_stands_beside_the_previous_one_and_a_condition_may_save_a_claim():
    steps = claim(
        quantity="kappa / before_kappa",
        target="1",
        joins=[Join("before", ["activation", "seed"], previous="depth")],
        conditions=[Condition("seed == 5", "never"), Condition("seed == 1", "for seed 1")],
    )
    finding = check(steps, {"t": TABLE.sample(frac=1, random_state=0)})
    assert (finding.verdict, finding.condition) == (UNDER_A_CONDITION, "for seed 1")
    assert (finding.cases, finding.holding, finding.condition_cases) == (2, 1, 1)
    assert finding.measured == pytest.approx(7 / 6)
    broken = [Condition("seed == 32", "for seed 32")]
    assert checked(target="4", conditions=broken).verdict == FAILS


def test_wheres_select_step_by_step():
    largest = "kappa == kappa.max()"
    assert checked(where=("seed == 1", largest), target="11").cases == 2  # the two linear ones
    assert checked(where=(largest, "seed == 1")).cases == 0


WITHOUT_NUMBER = [{"where": ("activation == 'gelu'",)}, {"table": "other"}]
WITHOUT_NUMBER += [{"joins": [Join("x", ["depth"], table="other")]}]
WITHOUT_NUMBER += [{"quantity": "kappa / 0 - kappa / 0"}]


@pytest.mark.parametrize("values", WITHOUT_NUMBER)
def test_what_has_no_number_is_not_tested(values):
    finding = checked(**values)
    assert (finding.verdict, finding.measured) == (NOT_TESTED, None)


MISTAKES = [
    ({"quantity": "activation"}, r"a: 'activation': .*'relu'"),
    ({"joins": [Join("x", ["dept"], where=RELU)]}, r"a: join 'x': .*dept"),
    ({"joins": [Join("x", ["depth"], where=RELU)]}, r"a: join 'x': Merge keys are not unique"),
]


@pytest.mark.parametrize(("values", "message"), MISTAKES)
def test_mistakes_name_the_claim(values, message):
    with pytest.raises(ClaimError, match=message):
        checked(**values)


def test_pages_name_verdict_quantity_number_and_case():
    claims = [
        claim(name="a", statement="1 < 2 | all"),
        claim(name="b", where=("activation == 'none'",)),
        claim(name="c", kind="erratum", target="1", figure="p/fig1", note="Why."),
    ]
    results = [Checked(each, check(each, {"t": TABLE})) for each in claims]
    papers = [(Paper("p", "A <title>", "c", claims), results)]
    text = page("claims.md.j2", "demo", papers)
    assert "| Theorem 1 | 1 < 2 \\| all | ✓ holds | `kappa` | 7 | `< 8` |" in text
    assert "Measured 7 in the worst of 4 cases (depth 2, seed 32); range 3 to 7, median 5.5" in text
    assert "Not tested: no row of this run." in text
    assert "(figures/p/fig1.png)" in text
    source = page("claims.html.j2", "demo", papers)
    assert "A &lt;title&gt;" in source
    shown = html.unescape(source)
    assert "1 < 2 | all" in shown
    assert "where <code>activation == 'relu'</code>" in shown
    for anchor in (*"abc", "p-theory", "p-erratum"):
        assert f'id="{anchor}"' in shown
        assert f'href="#{anchor}"' in shown
