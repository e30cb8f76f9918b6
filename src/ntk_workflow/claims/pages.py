"""The page of claims, as Markdown and as one HTML file: what a referee needs."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ntk_conditioning.tables import TABLES
from ntk_workflow.claims import wording
from ntk_workflow.claims.checking import (
    FAILS,
    HOLDS,
    NOT_TESTED,
    OTHER_SIZE,
    UNDECIDED,
    UNDER_A_CONDITION,
    Finding,
)
from ntk_workflow.claims.papers import Claim, Entry, Paper
from ntk_workflow.pages.rendering import render, shown

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
SIGNS = {"==": "=", "<=": "≤", ">=": "≥"}
MISPRINT, NO_MISPRINT = "misprint confirmed", "right as printed"
#: What a verdict on a formula as printed says of the formula.
ERRATA = {FAILS: MISPRINT, UNDER_A_CONDITION: MISPRINT, HOLDS: NO_MISPRINT}
#: Of every outcome, in the order in which they are counted: a sign, a class of the page's style and
#: the words after a number.
MARKS = {
    HOLDS: ("✓", "holds", "hold"),
    UNDER_A_CONDITION: ("◐", "condition", "hold under a condition"),
    UNDECIDED: ("?", "undecided", "undecided"),
    FAILS: ("✗", "fails", "fail"),
    MISPRINT: ("≠", "misprint", "misprints confirmed"),
    NO_MISPRINT: ("✓", "holds", "right as printed"),
    OTHER_SIZE: ("○", "untested", "not tested at the paper's size"),
    NOT_TESTED: ("–", "untested", "not tested in this run"),
}


@dataclass(frozen=True)
class Checked:
    """A claim with what was found, as the pages show it."""

    claim: Claim
    finding: Finding
    entry: Entry

    @property
    def outcome(self) -> str:
        """The verdict, which of a formula as printed says whether it is a misprint."""
        verdict = self.finding.verdict
        return ERRATA.get(verdict, verdict) if self.claim.kind == "erratum" else verdict

    @property
    def mark(self) -> tuple[str, str, str]:
        """A sign for the outcome, its class in the style of the HTML page, and words."""
        return MARKS[self.outcome]

    @property
    def verdict(self) -> str:
        finding, outcome = self.finding, self.outcome
        if finding.verdict == UNDER_A_CONDITION:
            head = f"{MISPRINT}; right" if outcome == MISPRINT else "holds"
            return f"{head} {finding.condition}"
        return f"{outcome} (here: {finding.at_this_size})" if finding.at_this_size else outcome

    @property
    def quantity(self) -> str:
        """What is compared, in words or symbols."""
        words = wording.in_words(self.claim.quantity, self._columns)
        return f"mean of {words}" if self.claim.statistic == "mean" else words

    @property
    def target(self) -> str:
        """How the quantity was to compare with what."""
        claim = self.claim
        sign = SIGNS.get(claim.comparison, claim.comparison)
        room = {"==": "±", "<": "+", "<=": "+"}.get(claim.comparison, "−")
        text = f"{sign} {wording.in_words(claim.target, self._columns)}"
        expected = self.finding.expected
        if expected is not None and not re.fullmatch(r"-?[\d.]+", claim.target):
            text += f" ({_number(expected)})"
        return f"{text} {room} {_number(claim.tolerance)}" if claim.tolerance else text

    @property
    def _columns(self) -> dict[str, str]:
        """Words for the columns of numerical experiments, which only their names tell apart."""
        claim = self.claim
        measured = _measured(claim.where)
        words = {"value": measured, "corrected": "correct value", "printed": "printed value"}
        for join in claim.joins:
            words[f"{join.prefix}_value"] = f"{join.prefix} {_measured(join.where) or measured}"
        return words if measured else {}

    @property
    def slice(self) -> str:
        """Which rows the claim is about, and what is joined to them, in one line."""
        parts = [" and ".join(self.claim.where)]
        for join in self.claim.joins:
            rows = f"previous {join.previous}" if join.previous else " and ".join(join.where)
            parts.append(f"{join.prefix}: {rows or join.table}")
        return "; ".join(parts)

    @property
    def rows(self) -> str:
        """The same in words, where it says more than the quantity does."""
        parts = [_others(self.claim.where)]
        for join in self.claim.joins:
            rows = _others(join.where) or ", ".join(map(wording.name, join.on))
            previous = f"the next smaller {wording.name(join.previous or '')}"
            parts.append(f"{join.prefix}: {previous if join.previous else rows}")
        return "; ".join(filter(None, parts))

    @property
    def origin(self) -> tuple[str, str]:
        """Where the numbers come from: the experiment in a sentence, or the table of the run."""
        if self.finding.procedure:
            return "Experiment", self.finding.procedure
        table = TABLES.get(self.claim.table)
        described = f": {table.description.partition('. ')[0].rstrip('.')}" if table else ""
        return "Table", f"{self.claim.table}{described}."

    @property
    def measured(self) -> str:
        """The quantity with its number, and what it was to be."""
        finding = self.finding
        if finding.measured is None:
            return "no case can be decided" if finding.undecided else "no row of this run"
        return f"{self.quantity} = {_number(finding.measured)}; claimed {self.target}"

    @property
    def interval(self) -> str:
        """The interval of the number over networks or, where there are none, draws of data."""
        finding, claim = self.finding, self.claim
        low, high, target = finding.interval_low, finding.interval_high, finding.expected
        if low is None or high is None or target is None:
            return "one draw has no interval" if finding.cases else ""
        of = "the mean (95 %, bootstrap)" if claim.statistic == "mean" else "another draw"
        text = "" if low == high else f"{_number(low)} to {_number(high)} for {of}"
        excluded = {"==": not low <= target <= high, "<=": low > target, ">=": high < target}
        if text and finding.verdict == HOLDS and excluded.get(claim.comparison):
            text += f", which excludes {_number(target)}: only the tolerance allows it"
        return text

    @property
    def support(self) -> str:
        """In how many cases, of how many networks or draws of data."""
        finding = self.finding
        holds = "Right as printed" if self.claim.kind == "erratum" else "Holds"
        text = f"{holds} in {finding.holding} of {finding.cases} cases."
        if finding.networks:
            text += f" Independent draws: {finding.networks}."
        if finding.holding == finding.cases and finding.verdict in (UNDECIDED, UNDER_A_CONDITION):
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

    @property
    def worst(self) -> str:
        return wording.name(self.finding.worst or "")

    @property
    def paper_size(self) -> str:
        return wording.in_words(self.claim.paper_size or "")


#: The names in a selection of numerical experiments.
_STATEMENTS = re.compile(
    r"statement(?: ==| in|(?:\.str)?\.\w+)[ ([]*((?:'[^']+'(?:,\s*)?)+)[])]*(?: and )?"
)


def page(template: str, run: str, papers: Sequence[tuple[Paper, Sequence[Checked]]]) -> str:
    """Return the page by a template: Markdown, or HTML that loads nothing and links to figures."""
    values = []
    for paper, checked in papers:
        sections = []
        for kind, (heading, words) in KINDS.items():
            if group := [each for each in checked if each.claim.kind == kind]:
                section = {"kind": kind, "heading": heading, "words": words}
                sections.append(section | {"checked": group, "counts": counts(group)})
        by_name = {each.claim.name: each for each in checked}
        coverage = [
            (statement, [by_name[claim.name] for claim in claims], paper.statements[statement])
            for statement, claims in paper.coverage.items()
        ]
        values.append((paper, checked, sections, coverage))
    outcomes = counts([each for _, checked in papers for each in checked])
    texts = {"title": f"Claims: run {run}", "kinds": KINDS, "marks": MARKS, "outcomes": outcomes}
    return render(template, papers=values, **texts)


def counts(checked: Sequence[Checked]) -> dict[str, tuple[int, str]]:
    """Return how often every outcome is there, and the words for it."""
    found = Counter(each.outcome for each in checked)
    words = {key: key if found[key] == 1 else MARKS[key][2] for key in MARKS}
    return {key: (found[key], words[key]) for key in MARKS if found[key]}


def _measured(where: Sequence[str]) -> str:
    """Return in words which measurements of numerical experiments are selected."""
    names = re.findall(r"'([^']+)'", " ".join(_STATEMENTS.findall(" and ".join(where))))
    alike = os.path.commonprefix([f"{name}_" for name in names])  # noqa: RUF071, these are no paths
    alike = alike.rpartition("_")[0]
    return wording.name(alike) if alike else " or ".join(map(wording.name, names))


def _others(where: Sequence[str]) -> str:
    """Return in words what else selects rows than the statements that the quantity names."""
    others = [_STATEMENTS.sub("", part) for part in where]
    return ", ".join(wording.in_words(part) for part in others if part)


def _number(value: float | None) -> str:
    return shown(value).replace("-", "−")
