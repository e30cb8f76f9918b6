"""The page of claims, as Markdown and as one HTML file: what a referee would be told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from ntk_workflow.claims.checking import FAILS, HOLDS, NOT_TESTED, UNDER_A_CONDITION, Finding
from ntk_workflow.claims.papers import Claim, Paper
from ntk_workflow.pages.html import shown

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
MARKS = {HOLDS: "✓", UNDER_A_CONDITION: "◐", FAILS: "✗", NOT_TESTED: "–"}

STYLE = """
body { font: 16px/1.5 Georgia, serif; color: #222; max-width: 54rem; margin: 2rem auto;
  padding: 0 1rem; }
h1, h2, h3, table, .verdict { font-family: Helvetica, Arial, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .2rem; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { text-align: left; padding: .2rem .5rem; border-bottom: 1px solid #ddd;
  vertical-align: top; }
p { margin: .3rem 0; } .small { font-size: .85rem; color: #555; }
.target { white-space: nowrap; }
code { font-size: .8rem; overflow-wrap: anywhere; }
.holds { color: #117733; } .condition { color: #996600; } .fails { color: #aa2222; }
.untested { color: #777; }
"""
CLASSES = {HOLDS: "holds", UNDER_A_CONDITION: "condition", FAILS: "fails", NOT_TESTED: "untested"}


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
        """What was compared."""
        claim = self.claim
        miss = f" ± {claim.tolerance:g}" if claim.tolerance else ""
        return f"{claim.quantity} {self.target}{miss}"

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


def sections(checked: Sequence[Checked]) -> Iterator[tuple[str, str, list[Checked]]]:
    """Yield heading, introduction and claims of every kind that there is."""
    for kind, (heading, words) in KINDS.items():
        of_kind = [each for each in checked if each.claim.kind == kind]
        if of_kind:
            yield heading, words, of_kind


def counted(checked: Iterable[Checked]) -> list[tuple[str, str]]:
    """Return how many claims of every kind have which verdict, in words."""
    lines = []
    for heading, _, group in sections(list(checked)):
        counts = Counter(each.finding.verdict for each in group)
        lines.append((heading, ", ".join(f"{counts[key]} {key}" for key in MARKS if counts[key])))
    return lines


def markdown(run: str, papers: Sequence[tuple[Paper, Sequence[Checked]]]) -> str:
    """Return the page as Markdown."""
    lines = [f"# Claims: run `{run}`", ""]
    for paper, checked in papers:
        lines += [f"## {paper.title}", "", f"{paper.citation}. {len(checked)} claims.", ""]
        lines += [f"- {heading}: {counts}." for heading, counts in counted(checked)]
        lines += [
            "",
            "| place | claim | verdict | measured | target |",
            "| --- | --- | --- | --- | --- |",
        ]
        for each in checked:
            cells = (
                each.claim.place,
                each.claim.statement,
                f"{MARKS[each.finding.verdict]} {each.verdict}",
                shown(each.finding.measured),
                f"`{each.target}`",
            )
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        for heading, words, group in sections(checked):
            lines += ["", f"### {heading}", "", words]
            for each in group:
                claim = each.claim
                lines += ["", f"**{claim.place}** (`{claim.name}`): {each.verdict}", ""]
                lines += [f"> {claim.statement}".replace("|", "\\|"), "", each.numbers]
                lines += [f"Compared: `{each.comparison}`, rows of `{claim.table}`{_slice(claim)}."]
                if claim.figure:
                    lines.append(f"Figure: [{claim.figure}](figures/{claim.figure}.png).")
                if claim.note:
                    lines.append(claim.note.strip())
        lines.append("")
    return "\n".join(lines)


def html(run: str, papers: Sequence[tuple[Paper, Sequence[Checked]]]) -> str:
    """Return the page as HTML without any resource of its own but the figures it links to."""
    out = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>Claims: {escape(run)}</title><style>{STYLE}</style></head><body>",
        f"<h1>Claims: run {escape(run)}</h1>",
    ]
    for paper, checked in papers:
        out += [f"<h1>{escape(paper.title)}</h1>"]
        out += [f"<p>{escape(paper.citation)}. {len(checked)} claims.</p><table>"]
        out += [
            f"<tr><th>{escape(heading)}</th><td>{escape(counts)}</td></tr>"
            for heading, counts in counted(checked)
        ]
        out += ["</table>"]
        for heading, words, group in sections(checked):
            out += [f"<h2>{escape(heading)}</h2><p>{escape(words)}</p><table>"]
            out += [
                "<tr><th></th><th>claim</th><th>verdict</th><th>measured</th><th>target</th></tr>"
            ]
            out += [_html_row(each) for each in group]
            out += ["</table>"]
            out += [line for each in group for line in _html_claim(each)]
    return "\n".join([*out, "</body></html>", ""])


def _html_row(each: Checked) -> str:
    claim, found = each.claim, each.finding
    kind = CLASSES[found.verdict]
    cells = [
        f'<td class="{kind}">{MARKS[found.verdict]}</td>',
        f'<td><a href="#{claim.name}">{escape(claim.place)}</a><br>{escape(claim.statement)}</td>',
        f'<td class="{kind}">{escape(each.verdict)}</td>',
        f"<td>{shown(found.measured)}</td>",
        f'<td class="target">{escape(each.target)}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _html_claim(each: Checked) -> Iterator[str]:
    claim = each.claim
    kind = CLASSES[each.finding.verdict]
    yield f'<h3 id="{claim.name}">{escape(claim.place)}</h3>'
    yield f"<p>{escape(claim.statement)}</p>"
    mark = MARKS[each.finding.verdict]
    yield f'<p class="verdict {kind}">{mark} {escape(each.verdict)}</p>'
    yield f"<p>{escape(each.numbers)}</p>"
    compared = f"<code>{escape(each.comparison)}</code>"
    where = escape(_slice(claim)).replace("`", "")
    yield f'<p class="small">Compared: {compared}, rows of {escape(claim.table)}{where}.</p>'
    if claim.note:
        yield f'<p class="small">{escape(claim.note.strip())}</p>'
    if claim.figure:
        name = escape(claim.figure)
        yield f'<p class="small">Figure: <a href="figures/{name}.png">{name}</a></p>'


def _slice(claim: Claim) -> str:
    return f" where `{slice_of(claim)}`" if claim.where else ""


def slice_of(claim: Claim) -> str:
    """Return in one line which rows a claim is about, and what is joined to them."""
    joined = "; ".join(
        f"{join.prefix}: previous {join.previous}"
        if join.previous
        else f"{join.prefix}: {' and '.join(join.where) or join.table}"
        for join in claim.joins
    )
    return " and ".join(claim.where) + (f"; {joined}" if joined else "")
