"""The page of claims, as Markdown and as one HTML file: what a referee needs."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ntk_conditioning.tables import TABLES
from ntk_workflow.claims import checking
from ntk_workflow.claims.checking import Finding
from ntk_workflow.claims.papers import Claim, Paper
from ntk_workflow.claims.wording import in_words, name
from ntk_workflow.pages.rendering import mathml, render, shown

#: Headings of the kinds of claims, and what they are.
KINDS = {
    "theory": (
        "Theorems, corollaries, propositions and lemmas",
        "Put to numbers: networks of growing width, eigenvalue solvers, limits of expansions.",
    ),
    "experiment": ("Experiments", "What the published experiments show, compared with this run."),
    "erratum": ("Misprints", "Formulas as they are printed. The corrected one is another claim."),
    "limit": ("Where the statements end", "What the paper does not say, or only hopes."),
}
MISPRINT, NO_MISPRINT = "misprint confirmed", "right as printed"
#: What a verdict on a formula as printed says of the formula.
ERRATA = {
    checking.FAILS: MISPRINT,
    checking.UNDER_A_CONDITION: MISPRINT,
    checking.HOLDS: NO_MISPRINT,
}
#: Of every outcome, in the order in which they are counted: a sign, a class of the page's style and
#: the words after a number.
MARKS = {
    checking.HOLDS: ("✓", "holds", "hold"),
    checking.UNDER_A_CONDITION: ("◐", "condition", "hold under a condition"),
    checking.UNDECIDED: ("?", "undecided", "undecided"),
    checking.FAILS: ("✗", "fails", "fail"),
    MISPRINT: ("≠", "misprint", "misprints confirmed"),
    NO_MISPRINT: ("✓", "holds", "right as printed"),
    checking.OTHER_SIZE: ("○", "untested", "not tested at the paper's size"),
    checking.NOT_TESTED: ("–", "untested", "not tested in this run"),
}
#: The names in a selection of numerical experiments.
STATEMENTS = re.compile(
    r"statement(?: ==| in|(?:\.str)?\.\w+)[ ([]*((?:'[^']+'(?:,\s*)?)+)[])]*(?: and )?"
)
#: A claim and its finding as the pages show them: texts by name.
Described = Mapping[str, Any]


def described(claim: Claim, finding: Finding) -> Described:
    """Return a claim and what was found in words; `UserError` if a formula is no LaTeX."""
    outcome = verdict = finding.verdict
    if claim.kind == "erratum":
        outcome = verdict = ERRATA.get(outcome, outcome)
    if finding.at_this_size:
        verdict = f"{outcome} (here: {finding.at_this_size})"
    elif finding.condition and finding.verdict == checking.UNDER_A_CONDITION:
        verdict = f"{MISPRINT}; right" if outcome == MISPRINT else "holds"
        verdict += f" {finding.condition}"

    words = {}  # for the columns of numerical experiments, which only their names tell apart
    if experiment := _experiment(claim.where):
        words = {"value": experiment, "corrected": "correct value", "printed": "printed value"}
        for join in claim.joins:
            other = _experiment(join.where) or experiment
            words[f"{join.prefix}_value"] = f"{join.prefix} {other}"
    quantity, target = (in_words(text, words) for text in (claim.quantity, claim.target))
    if claim.statistic == "mean":
        quantity = f"mean of {quantity}"
    if finding.expected is not None and not re.fullmatch(r"-?[\d.]+", claim.target):
        target += f" ({_number(finding.expected)})"
    if claim.tolerance:
        room = "±" if claim.comparison == "==" else "+" if "<" in claim.comparison else "−"
        target += f" {room} {_number(claim.tolerance)}"
    measured = "no case can be decided" if finding.undecided else "no row of this run"
    if finding.measured is not None:
        sign = {"==": "=", "<=": "≤", ">=": "≥"}.get(claim.comparison, claim.comparison)
        measured = f"{quantity} = {_number(finding.measured)}; claimed {sign} {target}"

    rows, expressions = _rows(claim)
    origin = ("Experiment", finding.procedure)
    if not finding.procedure:
        about = TABLES[claim.table].description.partition(". ")[0].rstrip(".")
        origin = ("Table", f"{claim.table}: {about}.")
    formula = {
        key: mathml(latex, place=f"{claim.paper}: claim {claim.name}: formula.{key}")
        for key, latex in (claim.formula or {}).items()
    }
    return {
        "claim": claim,
        "finding": finding,
        "outcome": outcome,
        "mark": MARKS[outcome],
        "verdict": verdict,
        "measured": measured,
        "interval": _interval(claim, finding),
        "support": _support(claim, finding),
        "worst": name(finding.worst or ""),
        "rows": rows,
        "slice": expressions,
        "origin": origin,
        "paper_size": in_words(claim.paper_size or ""),
        "formula": formula,
    }


def _rows(claim: Claim) -> tuple[str, str]:
    """Return which rows a claim is about, in words and as expressions."""
    rows, expressions = [_others(claim.where)], [" and ".join(claim.where)]
    for join in claim.joins:
        if join.previous:
            rows.append(f"{join.prefix}: the next smaller {name(join.previous)}")
            expressions.append(f"{join.prefix}: previous {join.previous}")
        else:
            rows.append(f"{join.prefix}: {_others(join.where) or ', '.join(map(name, join.on))}")
            expressions.append(f"{join.prefix}: {' and '.join(join.where) or join.table}")
    return "; ".join(filter(None, rows)), "; ".join(expressions)


def _interval(claim: Claim, finding: Finding) -> str:
    """Return the interval of the number over networks or, where there are none, draws of data."""
    low, high, target = finding.interval_low, finding.interval_high, finding.expected
    if low is None or high is None or target is None:
        return "one draw has no interval" if finding.cases else ""
    if low == high:
        return ""
    spread = "the mean (95 %, bootstrap)" if claim.statistic == "mean" else "another draw"
    text = f"{_number(low)} to {_number(high)} for {spread}"
    excluded = {"==": not low <= target <= high, "<=": low > target, ">=": high < target}
    if finding.verdict == checking.HOLDS and excluded.get(claim.comparison):
        text += f", which excludes {_number(target)}: only the tolerance allows it"
    return text


def _support(claim: Claim, finding: Finding) -> str:
    """Return in how many cases, of how many networks or draws of data."""
    holds = "Right as printed" if claim.kind == "erratum" else "Holds"
    text = f"{holds} in {finding.holding} of {finding.cases} cases."
    if finding.networks:
        text += f" Independent draws: {finding.networks}."
    if finding.holding == finding.cases and finding.verdict in (
        checking.UNDECIDED,
        checking.UNDER_A_CONDITION,
    ):
        text += " Intervals of some reach beyond the target, or are missing."
    if finding.condition:
        share = f"{finding.condition_cases} of {finding.cases}"
        text += f" {holds} {finding.condition}: {share} cases."
    if finding.undecided:
        text += f" Without a number: {finding.undecided}."
    if finding.cases > 1:
        text += f" Range {_number(finding.low)} to {_number(finding.high)}, "
        text += f"median {_number(finding.median)}."
    return text


def page(template: str, run: str, papers: Sequence[tuple[Paper, Sequence[Described]]]) -> str:
    """Return the page by a template: Markdown, or HTML that loads nothing and links to figures."""
    values = []
    for paper, checked in papers:
        sections = []
        for kind, (heading, words) in KINDS.items():
            if group := [result for result in checked if result["claim"].kind == kind]:
                section = {"kind": kind, "heading": heading, "words": words}
                sections.append(section | {"checked": group, "counts": counts(group)})
        by_name = {result["claim"].name: result for result in checked}
        coverage = [
            (statement, [by_name[claim.name] for claim in claims], paper.statements[statement])
            for statement, claims in paper.coverage.items()
        ]
        main = [by_name[name] for name in paper.main]
        values.append((paper, checked, sections, coverage, main))
    outcomes = counts([result for _, checked in papers for result in checked])
    texts = {"title": f"Claims: run {run}", "kinds": KINDS, "marks": MARKS, "outcomes": outcomes}
    return render(template, papers=values, counts=counts, **texts)


def counts(checked: Sequence[Described]) -> dict[str, tuple[int, str]]:
    """Return how often every outcome is there, and the words for it."""
    numbers = Counter(result["outcome"] for result in checked)
    return {
        key: (numbers[key], key if numbers[key] == 1 else words)
        for key, (_, _, words) in MARKS.items()
        if numbers[key]
    }


def _experiment(where: Sequence[str]) -> str:
    """Return in words which measurements of numerical experiments are selected."""
    names = re.findall(r"'([^']+)'", " ".join(STATEMENTS.findall(" and ".join(where))))
    alike = os.path.commonprefix([f"{text}_" for text in names])  # noqa: RUF071, these are no paths
    alike = alike.rpartition("_")[0]
    return name(alike) if alike else " or ".join(map(name, names))


def _others(where: Sequence[str]) -> str:
    """Return in words what else selects rows than the statements that the quantity names."""
    others = [STATEMENTS.sub("", part) for part in where]
    return ", ".join(in_words(part) for part in others if part)


def _number(value: float | None) -> str:
    return shown(value).replace("-", "−")
