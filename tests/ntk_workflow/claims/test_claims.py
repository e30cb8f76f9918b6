import html
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ntk_conditioning.errors import UserError
from ntk_workflow.claims import checking
from ntk_workflow.claims.checking import FAILS, HOLDS, UNDECIDED, Finding, check, evaluate
from ntk_workflow.claims.pages import described, page
from ntk_workflow.claims.papers import Claim, Condition, Join, Paper, columns, load

PAPERS = Path(__file__).parents[3] / "papers"
TABLE = pd.DataFrame({"activation": ["relu"] * 4 + ["linear"] * 4, "depth": [1, 2] * 4})
TABLE["at"] = [1, 1, 32, 32] * 2
TABLE["kappa"] = [5.0, 3.0, 6.0, 7.0, 10.0, 10.0, 12.0, None]
RELU = ("activation == 'relu'",)
LINEAR = Join("linear", ["depth", "at"], where=("activation == 'linear'",))


def claim(**values) -> Claim:
    common = {"paper": "p", "name": "a", "place": "Theorem 1", "kind": "theory", "table": "bounds"}
    common |= {"statement": "s", "quantity": "kappa", "comparison": "<", "target": "8"}
    return Claim(**common | {"where": RELU} | values)


def checked(table: pd.DataFrame = TABLE, /, **values) -> Finding:
    return check(claim(**values), {"bounds": table})


def below_1(kappa, statistic: str = "every", **columns) -> Finding:
    """Return what is found of kappas that are claimed to be below 1."""
    table = pd.DataFrame({"kappa": kappa, "activation": "relu"} | columns)
    return checked(table, target="1", statistic=statistic)


#: Values of networks that are to be below 1, and the verdict on every network and on their mean.
NETWORKS = [
    ([0.1, 0.2, 0.3], HOLDS, HOLDS),
    ([0.1, 0.2, 0.9], UNDECIDED, HOLDS),  # a fourth may be above
    ([0.1, 0.2, 0.3, 0.2, 0.3, 1.2], UNDECIDED, HOLDS),  # one is
    ([0.5, 0.7, 1.2, 1.3], FAILS, UNDECIDED),
    ([1.5, 1.7, 1.2, 1.3], FAILS, FAILS),
    ([0.9], UNDECIDED, UNDECIDED),  # of one network there is no interval
    ([1.1], UNDECIDED, UNDECIDED),
]


@pytest.mark.parametrize(("values", "every", "mean"), NETWORKS)
def test_other_networks_may_say_otherwise(values, every, mean):
    for statistic, verdict in (("every", every), ("mean", mean)):
        finding = below_1(values, statistic, seed=range(len(values)))
        assert (finding.verdict, finding.networks) == (verdict, len(values))
        if len(values) > 1:
            assert finding.interval_low <= finding.measured <= finding.interval_high
        else:
            assert finding.interval_low is finding.interval_high is None
        assert finding.cases == (1 if statistic == "mean" else len(values))


def test_the_interval_of_a_mean_has_95_percent():
    values = np.random.default_rng(0).standard_normal(400)
    table = pd.DataFrame({"kappa": values, "seed": range(400), "activation": "relu"})
    finding = checked(table, statistic="mean")
    # of so many, a mean is normal; 2,000 draws give the ends to 3 % of the interval's half
    half = 1.96 * values.std() / 20
    ends = [values.mean() - half, values.mean() + half]
    assert [finding.interval_low, finding.interval_high] == pytest.approx(ends, abs=0.1 * half)


@pytest.mark.parametrize(("kappa", "verdict"), [(0.9, HOLDS), (1.1, FAILS)])
def test_what_depends_on_no_seed_and_bounds_need_one_case(kappa, verdict):
    for statistic in ("every", "mean"):
        finding = below_1([kappa], statistic, seed=None)
        assert (finding.verdict, finding.interval_low) == (verdict, kappa)
    assert below_1([kappa], "bound", seed=1).verdict == verdict
    # means over as many networks
    assert below_1([kappa], seed=1, networks=50).verdict == verdict
    assert below_1([kappa], seed=1, seeds=2).verdict == verdict
    assert below_1([kappa], seed=1, seeds=1).verdict == UNDECIDED


def test_a_mean_of_one_network_decides_nothing_and_is_not_shown_beside_one_that_does():
    drawn = {"depth": [1, 1, 2], "seed": [1, 2, 1]}
    finding = below_1([0.1, 0.2, 9.0], "mean", **drawn)
    assert (finding.verdict, finding.measured, finding.interval_low) == (UNDECIDED, 9.0, None)
    assert (
        described(claim(target="1", statistic="mean"), finding)["interval"]
        == "one draw has no interval"
    )
    finding = below_1([1.1, 1.2, 9.0], "mean", **drawn)
    assert (finding.verdict, finding.measured, finding.worst) == (FAILS, 1.15, "depth 1")
    table = pd.DataFrame({"depth": [1, 1, 2, 3], "seed": [1, 2, 1, 1], "activation": "relu"})
    some = {"target": "1", "statistic": "mean", "conditions": [Condition("depth == 1", "at 1")]}
    finding = checked(table.assign(kappa=[0.1, 0.2, 9.0, 9.0]), **some)
    assert (finding.verdict, finding.condition) == (UNDECIDED, "at 1")


def test_the_page_says_where_the_tolerance_alone_allows_a_claim():
    table = pd.DataFrame({"kappa": [1.1, 1.2], "seed": [1, 2], "activation": "relu"})
    for comparison, target, saved in (("==", "1", True), ("<=", "1", True), ("<=", "1.15", False)):
        near = claim(comparison=comparison, target=target, tolerance=0.5, statistic="mean")
        shown = described(near, check(near, {"bounds": table}))
        assert shown["outcome"] == HOLDS
        assert ("which excludes 1: only the tolerance allows it" in shown["interval"]) == saved


def test_rows_that_differ_in_a_key_of_their_table_are_no_other_networks():
    """Of one network after no steps and nine the values are far apart, of two they are not."""
    table = pd.DataFrame({"steps": [0, 0, 9, 9], "seed": [1, 2] * 2, "kappa": [0.1, 0.2, 0.8, 0.9]})
    about = claim(table="orthogonality", where=(), target="1.1")
    finding = check(about, {"orthogonality": table})
    assert (finding.verdict, finding.worst) == (HOLDS, "seed 2, steps 9")
    assert finding.interval_high == pytest.approx(1.0)


def test_blocks_of_a_network_are_no_other_networks():
    blocks = {"seed": [1, 1, 32, 32], "block": [0, 1, 0, 1]}
    assert below_1([0.1, 1.5, 0.1, 1.5], **blocks).verdict == FAILS
    assert below_1([0.1, 1.5, 0.1, 0.5], **blocks).verdict == UNDECIDED
    assert below_1([0.1, 1.5, 0.1, 0.5], "mean", **blocks).verdict == HOLDS


def test_a_row_stands_beside_the_previous_one_and_a_condition_may_save_a_claim():
    steps = {"quantity": "kappa / before_kappa", "target": "1"}
    steps["joins"] = [Join("before", ["activation", "at"], previous="depth")]
    steps["conditions"] = [Condition("at == 5", "never"), Condition("at == 1", "for 1")]
    finding = checked(TABLE.sample(frac=1, random_state=0), **steps)
    assert (finding.verdict, finding.condition) == (checking.UNDER_A_CONDITION, "for 1")
    assert (finding.cases, finding.holding, finding.condition_cases) == (2, 1, 1)
    assert finding.measured == pytest.approx(7 / 6)


def on(target: str, where: str, derived: str | None = None) -> dict:
    """Return a target with a condition on which it holds, and what proves it."""
    return {"target": target, "conditions": [Condition(where, "there", derived)]}


RATIO = {"quantity": "kappa / linear_kappa", "target": "1", "joins": [LINEAR]}
WHOLE = {"measured": 7, "low": 3, "high": 7, "median": 5.5, "worst": "depth 2, at 32"}
WHOLE |= {"verdict": HOLDS, "cases": 4, "holding": 4, "undecided": 0, "networks": 0}
UNTESTED = {"verdict": checking.NOT_TESTED, "measured": None}
LARGEST = "kappa == kappa.max()"
INFINITE = {"unresolved": ["kappa"]}
BESIDE = (*RELU, "linear_kappa > 10", "depth == 1")
FEW_AND_HALF = [Condition("kappa < 4", "few"), Condition("kappa < 6", "half")]
LARGE, SMALL = {"paper_size": "at == 100"}, {"paper_size": "at == 1", "target": "6"}
#: What is claimed of the kappas 5, 3, 6 and 7 of ReLU, and what is found.
CASES = [
    ({}, WHOLE),
    ({"target": "7"}, {"verdict": FAILS, "measured": 7, "holding": 3}),
    ({"comparison": "<=", "target": "7"}, {"verdict": HOLDS}),
    ({"target": "7", "tolerance": 0.1}, {"verdict": HOLDS}),
    ({"comparison": ">", "target": "3"}, {"verdict": FAILS, "measured": 3}),
    ({"comparison": ">=", "target": "3"}, {"verdict": HOLDS, "measured": 3}),
    ({"comparison": "==", "target": "5", "tolerance": 2}, {"verdict": HOLDS, "measured": 3}),
    ({"comparison": "==", "target": "6", "tolerance": 2.9}, {"verdict": FAILS, "measured": 3}),
    ({"comparison": "==", "target": "kappa"}, {"verdict": HOLDS, "measured": 5}),
    # rows stand beside others, and an unresolved kappa is larger than any number
    (RATIO, {"cases": 3, "undecided": 1, "measured": 0.5}),
    (RATIO | INFINITE, {"verdict": HOLDS, "cases": 4, "low": 0}),
    (INFINITE | {"where": LINEAR.where, "target": "20"}, {"verdict": FAILS, "measured": math.inf}),
    ({"joins": [LINEAR], "where": BESIDE}, {"cases": 1, "measured": 6}),
    ({"target": "kappa / 0"}, {"verdict": HOLDS, "measured": 5, "low": 3}),
    # rows are selected step by step
    ({"where": ("at == 1", LARGEST), "target": "11"}, {"cases": 2}),  # the two linear ones
    ({"where": (LARGEST, "at == 1")}, {"cases": 0}),
    # a condition is met by half of the cases, or is exact
    (on("6", "kappa < 6"), {"verdict": checking.UNDER_A_CONDITION, "condition": "there"}),
    ({"target": "6", "conditions": FEW_AND_HALF}, {"condition": "half", "condition_cases": 2}),
    (on("4", "kappa < 4"), {"verdict": FAILS}),
    (on("4", "kappa < 4", "Theorem 1"), {"verdict": checking.UNDER_A_CONDITION}),
    (on("6", "kappa < 4", "Theorem 1"), {"verdict": FAILS}),  # it holds for 5, too
    # cases of the paper's size decide
    (LARGE, {"verdict": checking.OTHER_SIZE, "at_this_size": HOLDS, "cases": 4}),
    (LARGE | {"target": "5"}, {"verdict": checking.OTHER_SIZE, "at_this_size": FAILS}),
    (SMALL, {"verdict": HOLDS, "at_this_size": None, "cases": 2}),
    ({"where": ("activation == 'gelu'",)}, UNTESTED),
    ({"table": "other"}, UNTESTED),
    ({"joins": [Join("x", ["depth"], table="other")]}, UNTESTED),
    ({"quantity": "kappa / 0 - kappa / 0"}, UNTESTED),
]


@pytest.mark.parametrize(("values", "expected"), CASES)
def test_a_claim_holds_in_every_case_or_it_does_not(values, expected):
    assert asdict(checked(**values)).items() >= expected.items()


def test_no_claim_sees_the_experiments_of_another_paper():
    assert checked(TABLE.assign(paper=["p", "other"] * 4)).cases == 2


def test_mistakes_name_the_claim():
    with pytest.raises(UserError, match=r"p: claim a: 'activation': .*relu"):
        checked(quantity="activation")
    with pytest.raises(UserError, match=r"p: claim a: join 'x': Merge keys are not unique"):
        checked(joins=[Join("x", ["depth"], where=RELU)])


ROWS = pd.DataFrame({"model": [*"aabb"], "depth": [1, 8, 2, 3], "normalized": [True, False] * 2})
ROWS["statement"] = ["pair_kappa", "pair_kappa_step", "pair_kappa_unequal_step", "orthogonal"]
ROWS["value"] = [0.5, np.nan, np.inf, -2.0]
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
def test_expressions_give_a_value_for_each_row(text, expected, texts):
    rows = ROWS.astype({"statement": texts, "model": texts})
    values = evaluate(claim(), rows, text)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert values.dtype == (bool if isinstance(expected[0], bool) else np.float64)
    assert columns(text) <= {*ROWS}


def test_claims_know_where_they_are_written_down(tmp_path):
    keys = ["place: q", "kind: theory", "statement: s", "table: bounds", "quantity: depth"]
    lines = "".join(f"\n    {key}" for key in (*keys, "comparison: <", "target: 1"))
    text = "title: t\ncitation: c\nclaims:\n  # --- a part\n  - name: a"
    (tmp_path / "p.yaml").write_text(f"{text}{lines}\n\n  # --- more\n  - name: b\n{lines}\n")
    first, second = load(tmp_path / "p.yaml").claims
    assert (first.line, second.line) == (5, 15)
    assert first.source == "- name: a" + lines.replace("\n    ", "\n  ")
    assert second.source == "- name: b\n" + lines.replace("\n    ", "\n  ")


@pytest.mark.parametrize("path", sorted(PAPERS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_statement_of_a_paper_has_claims_or_a_reason(path):
    paper = load(path)
    for statement, claims in paper.coverage.items():
        assert bool(claims) != bool(paper.statements[statement]), statement
    placed = {claim.name for claims in paper.coverage.values() for claim in claims}
    assert placed in (set(), {claim.name for claim in paper.claims})


def test_pages_name_verdict_quantity_number_and_case():
    formula = {"printed": r"\frac{1}{m}", "corrected": r"\frac{1}{m^2}"}
    claims = [
        claim(name="a", statement="1 < 2 | all"),
        claim(name="b", where=("activation == 'none'",)),
        claim(name="c", kind="erratum", target="1", figure="p/fig1", formula=formula, note="Why."),
        claim(name="d", paper_size="at > 99"),
        claim(name="e", statistic="mean", target="2 * depth + 9"),
    ]
    claims = [replace(each, line=7, source="- name: <x>") for each in claims]
    results = [described(each, check(each, {"bounds": TABLE})) for each in claims]
    statements = {"Theorem 1": None, "Lemma 2": "is a definition"}
    papers = [(Paper("p", "A <title>", "c", claims, statements, ["e", "c"]), results)]
    text = page("claims.md.j2", "demo", papers)
    assert "| Theorem 1 | 1 < 2 \\| all | ✓ holds | κ = 7; claimed < 8 |" in text
    assert (
        "Holds in 4 of 4 cases. Range 3 to 7, median 5.5. Worst case: depth 2, argument 32." in text
    )
    assert "not tested at the paper's size (here: holds)" in text
    assert "| Theorem 1 | ✓ `a`, – `b`, ≠ `c`, ○ `d`, ✓ `e` |" in text
    before, _, after = text.partition("| its main claims |")
    assert "Theorem 1" not in before
    assert after.index("| ✓ holds |") < after.index("| ≠ misprint confirmed |")
    findings = page("findings.rst.j2", "demo", papers)
    assert findings.startswith("- ")
    assert findings.count("**Holds.**") == 1
    assert "Measured: mean of κ = 6; claimed < 2 · depth + 9 (11)." in text
    assert "(figures/p/fig1.png)" in text
    source = page("claims.html.j2", "demo", papers)
    assert "A &lt;title&gt;" in source
    assert "<pre>- name: &lt;x&gt;</pre>" in source
    assert source.count("<mfrac>") == 2
    shown = html.unescape(source)
    for words in ("misprint confirmed", "activation = ReLU", "papers/p.yaml:7", "is a definition"):
        assert words in shown
    for anchor in ("p.a", "p.b", "p.c", "p-theory", "p-erratum"):
        assert f'id="{anchor}"' in shown
        assert f'href="#{anchor}"' in shown
