"""The page of claims, as Markdown and as one HTML file: what a referee would be told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ntk_workflow.claims.checking import FAILS, HOLDS, NOT_TESTED, UNDER_A_CONDITION, Finding
from ntk_workflow.claims.papers import Claim, Paper
from ntk_workflow.pages.rendering import render, shown

KINDS = {
    "theory": (
        "Theorems, corollaries, propositions and lemmas",
        "Put to numbers: by networks of growing width, by eigenvalue solvers, by the limits that "
        "expansions approach.",
    ),
    "experiment": (
        "Experiments",
        "The published experiments' statements, compared with this run's own cells and trainings. "
        "“Always” is taken at its word.",
    ),
    "erratum": (
        "Misprints",
        "Formulas as they are printed, where the paper contradicts itself or errs. A verdict "
        "“fails” says that it is a misprint; the corrected formula is a claim of its own above.",
    ),
    "limit": (
        "Where the statements end",
        "What the paper does not say, or only hopes: how far its statements reach.",
    ),
}
SIGNS = {"==": "=", "<=": "≤", ">=": "≥"}
#: Of every verdict, in the order in which they are counted: a sign and a class of the page's style.
MARKS = {
    HOLDS: ("✓", "holds"),
    UNDER_A_CONDITION: ("◐", "condition"),
    FAILS: ("✗", "fails"),
    NOT_TESTED: ("–", "untested"),
}


@dataclass(frozen=True)
class Checked:
    """A claim with its finding."""

    claim: Claim
    finding: Finding

    @property
    def verdict(self) -> str:
        """The verdict, with the condition if there is one."""
        condition = self.finding.condition
        return f"holds {condition}" if condition else self.finding.verdict

    @property
    def comparison(self) -> str:
        """The quantity and its target."""
        claim = self.claim
        miss = f" ± {claim.tolerance:g}" if claim.tolerance else ""
        return f"{claim.quantity} {self.target}{miss}"

    @property
    def mark(self) -> str:
        """A sign for the verdict."""
        return MARKS[self.finding.verdict][0]

    @property
    def css(self) -> str:
        """The verdict's class in the style of the HTML page."""
        return MARKS[self.finding.verdict][1]

    @property
    def slice(self) -> str:
        """Which rows the claim is about, and what is joined to them, in one line."""
        joined = "; ".join(
            f"{join.prefix}: previous {join.previous}"
            if join.previous
            else f"{join.prefix}: {' and '.join(join.where) or join.table}"
            for join in self.claim.joins
        )
        return " and ".join(self.claim.where) + (f"; {joined}" if joined else "")

    @property
    def target(self) -> str:
        """How the quantity was to compare with what."""
        sign = self.claim.comparison
        return f"{SIGNS.get(sign, sign)} {self.claim.target}"

    @property
    def numbers(self) -> str:
        """The numbers in a sentence or two."""
        found = self.finding
        if found.measured is None:
            reason = "no row of this run" if not found.undecided else "no case can be decided"
            return f"Not tested: {reason}."
        many = found.cases > 1
        text = f"Measured {shown(found.measured)}"
        text += f" in the worst of {found.cases} cases ({found.worst})" if many else ""
        if many:
            text += f"; range {shown(found.low)} to {shown(found.high)}"
            text += f", median {shown(found.median)}"
        if found.seed_spread is not None:
            text += f"; spread over seeds up to {shown(found.seed_spread)}"
        text += f". Holds in {found.holding} of {found.cases}."
        if found.condition:
            text += f" Meeting the condition: {found.condition_cases}, all of which hold."
        if found.undecided:
            text += f" Undecided: {found.undecided}."
        return text


def markdown(run: str, papers: Sequence[tuple[Paper, Sequence[Checked]]]) -> str:
    """Return the page as Markdown."""
    return _page("claims.md.j2", run, papers)


def html(run: str, papers: Sequence[tuple[Paper, Sequence[Checked]]]) -> str:
    """Return the page as HTML, which loads nothing and links to the run's figures."""
    return _page("claims.html.j2", run, papers)


def _page(template: str, run: str, papers: Sequence[tuple[Paper, Sequence[Checked]]]) -> str:
    values = [
        {
            "name": paper.name,
            "title": paper.title,
            "citation": paper.citation,
            "count": len(checked),
            "checked": checked,
            "sections": _sections(checked),
        }
        for paper, checked in papers
    ]
    return render(template, title=f"Claims: run {run}", papers=values)


def _sections(checked: Sequence[Checked]) -> list[dict[str, Any]]:
    """Return the claims of every kind that there is, with a heading and counts of verdicts."""
    sections = []
    for kind, (heading, words) in KINDS.items():
        group = [each for each in checked if each.claim.kind == kind]
        verdicts = Counter(each.finding.verdict for each in group)
        counts = ", ".join(f"{verdicts[key]} {key}" for key in MARKS if verdicts[key])
        section = {"kind": kind, "heading": heading, "words": words}
        sections += [section | {"counts": counts, "checked": group}] if group else []
    return sections
