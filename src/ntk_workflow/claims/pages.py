"""The page of claims, as Markdown and as one HTML file: what a referee needs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ntk_workflow.claims.checking import (
    FAILS,
    HOLDS,
    NOT_TESTED,
    UNDECIDED,
    UNDER_A_CONDITION,
    Finding,
)
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
    UNDECIDED: ("?", "undecided"),
    FAILS: ("✗", "fails"),
    NOT_TESTED: ("–", "untested"),
}
#: What a verdict on a formula as printed says of the formula.
ERRATA = {FAILS: "misprint confirmed", HOLDS: "right as printed"}


@dataclass(frozen=True)
class Checked:
    """A claim with what was found, as the pages show it."""

    claim: Claim
    finding: Finding

    @property
    def verdict(self) -> str:
        verdict = self.finding.verdict
        if self.claim.kind == "erratum":
            return ERRATA.get(verdict, verdict)
        return f"holds {self.finding.condition}" if verdict == UNDER_A_CONDITION else verdict

    @property
    def mark(self) -> tuple[str, str]:
        """A sign for the verdict, and its class in the style of the HTML page."""
        return MARKS[self.finding.verdict]

    @property
    def target(self) -> str:
        """How the quantity was to compare with what."""
        return f"{SIGNS.get(self.claim.comparison, self.claim.comparison)} {self.claim.target}"

    @property
    def comparison(self) -> str:
        miss = f" ± {self.claim.tolerance:g}" if self.claim.tolerance else ""
        return f"{self.claim.quantity} {self.target}{miss}"

    @property
    def slice(self) -> str:
        """Which rows the claim is about, and what is joined to them, in one line."""
        parts = [" and ".join(self.claim.where)]
        for join in self.claim.joins:
            rows = " and ".join(join.where) or join.table
            parts.append(f"{join.prefix}: {f'previous {join.previous}' if join.previous else rows}")
        return "; ".join(parts)

    @property
    def numbers(self) -> str:
        """The numbers in a sentence or two."""
        finding = self.finding
        if finding.measured is None:
            reason = "no case can be decided" if finding.undecided else "no row of this run"
            return f"Not tested: {reason}."
        text = f"Measured {shown(finding.measured)}"
        if finding.interval_low != finding.interval_high:
            ends = f"{shown(finding.interval_low)} to {shown(finding.interval_high)}"
            of = "their mean" if self.claim.statistic == "mean" else "another network"
            text += f" ({ends} for {of})"
        if finding.cases > 1:
            text += f" in the worst of {finding.cases} cases ({finding.worst}); range "
            text += f"{shown(finding.low)} to {shown(finding.high)}, median {shown(finding.median)}"
        text += f". Holds in {finding.holding} of {finding.cases}."
        if finding.networks:
            text += f" Networks: {finding.networks}."
        if finding.condition:
            share = f"{finding.condition_cases} of {finding.cases}"
            text += f" It holds {finding.condition}: {share} cases."
        return f"{text} Without a number: {finding.undecided}." if finding.undecided else text


def page(template: str, run: str, papers: Sequence[tuple[Paper, Sequence[Checked]]]) -> str:
    """Return the page by a template: Markdown, or HTML that loads nothing and links to figures."""
    values = []
    for paper, checked in papers:
        sections = []
        for kind, (heading, words) in KINDS.items():
            if group := [each for each in checked if each.claim.kind == kind]:
                verdicts = Counter(each.finding.verdict for each in group)
                counts = ", ".join(f"{verdicts[key]} {key}" for key in MARKS if verdicts[key])
                section = {"kind": kind, "heading": heading, "words": words, "counts": counts}
                sections.append(section | {"checked": group})
        values.append((paper, checked, sections))
    return render(template, title=f"Claims: run {run}", papers=values)
