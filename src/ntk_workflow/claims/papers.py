"""What a paper claims, as it is written down in papers/{paper}.yaml."""

import re
import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ntk_conditioning.errors import UserError
from ntk_workflow.claims.expressions import ExpressionError, parse
from ntk_workflow.config import LOADER, read_yaml

#: The table of numerical experiments, the only one that is made for the claims' sake.
CLAIM_EXPERIMENTS = "claim_experiments"


class ClaimError(UserError):
    """A claim is written down wrongly, or does not fit the tables."""


@dataclass(frozen=True)
class Join:
    """Other rows that stand beside each row, with columns named ``{prefix}_{column}``.

    They are the rows ``where`` (see `Claim`) of ``table``, by default the claim's own, that are
    equal in the columns ``on``; or, with ``previous``, the row of the next smaller value in that
    column.
    """

    prefix: str
    on: Sequence[str]
    table: str | None = None
    where: Sequence[str] = ()
    previous: str | None = None


@dataclass(frozen=True)
class Condition:
    """A slice of a claim's rows in which it may hold where it does not hold in all.

    ``derived`` names what proves that the claim holds in this slice and in no other case.
    """

    where: str
    words: str
    derived: str | None = None


@dataclass(frozen=True)
class Claim:
    """One statement: in which rows of a table which quantity compares how with what.

    ``where``, ``quantity``, ``target`` and the conditions are expressions of columns, see
    `expressions.parse`; the parts of ``where`` select one after the other. ``unresolved`` names
    columns in which a missing value means larger than any number, as that of a kappa does. The
    ``statistic`` over networks is ``every``, ``mean`` where the statement is about means, or
    ``bound`` where it is proven for each. ``paper_size`` selects the rows of networks as large, and
    trained as long, as the paper's. The ``formula`` of a misprint is LaTeX, ``printed`` and
    ``corrected``.
    """

    name: str
    place: str
    kind: str
    statement: str
    table: str
    quantity: str
    comparison: str
    target: str
    tolerance: float = 0.0
    where: Sequence[str] = ()
    joins: Sequence[Join] = ()
    unresolved: Sequence[str] = ()
    conditions: Sequence[Condition] = ()
    statistic: str = "every"
    paper_size: str | None = None
    formula: Mapping[str, str] | None = None
    figure: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Paper:
    """A paper, its claims, and its statements with the reasons why some of them are not tested."""

    name: str
    title: str
    citation: str
    claims: Sequence[Claim]
    statements: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def coverage(self) -> dict[str, list[Claim]]:
        """The claims of each statement: those whose place names it as a whole."""
        names = {each: re.compile(rf"\b{re.escape(each)}(?![\w.(]*\d)") for each in self.statements}
        return {
            each: [claim for claim in self.claims if name.search(claim.place)]
            for each, name in names.items()
        }

    @property
    def tables(self) -> list[str]:
        """The tables that the claims are compared with, sorted."""
        joined = {join.table for claim in self.claims for join in claim.joins if join.table}
        return sorted({claim.table for claim in self.claims} | joined)


def read_paper(name: str, content: Mapping[str, Any]) -> Paper:
    """Return the paper that a file's ``content`` describes; the schema has been checked.

    Raises:
        ClaimError: if two claims have one name, an expression is not in the grammar, or statements
            and claims do not fit: no claim and no reason, both, or a claim of no statement.
    """
    claims = [_claim(values) for values in content["claims"]]
    counts = Counter(claim.name for claim in claims)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        raise ClaimError(f"claims named twice: {', '.join(repeated)}; give each its own name")
    for claim in claims:
        expressions = [("quantity", claim.quantity), ("target", claim.target)]
        expressions += [("where", part) for part in claim.where]
        expressions += [("joins.where", part) for join in claim.joins for part in join.where]
        expressions += [("conditions.where", condition.where) for condition in claim.conditions]
        expressions += [("paper_size", claim.paper_size)] if claim.paper_size else []
        for key, text in expressions:
            try:
                parse(str(text))  # a number is the schema's to refuse
            except ExpressionError as error:
                raise ClaimError(f"claim {claim.name}: {key}: {error}") from None
    paper = Paper(
        name, content["title"], content["citation"], claims, content.get("statements", {})
    )
    for statement, found in paper.coverage.items():
        if bool(found) == bool(reason := paper.statements[statement]):
            what = f"is tested by {found[0].name}, and not: {reason}" if reason else "has no claim"
            raise ClaimError(f"statements: {statement} {what}")
    placed = {claim.name for found in paper.coverage.values() for claim in found}
    if paper.statements and (lost := [each for each in claims if each.name not in placed]):
        raise ClaimError(f"claim {lost[0].name}: its place, {lost[0].place}, is no statement")
    return paper


def read(names: Sequence[str], *, folder: str, tables: Collection[str]) -> dict[str, Paper]:
    """Return the papers by name; scripts/check_claims.py compares their files with the schema.

    Raises:
        ValueError: a line for every file that is missing, unreadable or has an expression that is
            not allowed, and for every claim about a table that no run has.
    """
    papers: dict[str, Paper] = {}
    problems = []
    for name in names:
        path = Path(folder) / f"{name}.yaml"
        try:
            if not path.exists():
                known = ", ".join(sorted(each.stem for each in path.parent.glob("*.yaml")))
                raise ValueError(f"config key papers: there is no {path}; there are: {known}")
            papers[name] = read_paper(name, read_yaml(path))
            unknown = [table for table in papers[name].tables if table not in tables]
            problems += [f"{path}: no run has the table {table} of a claim" for table in unknown]
        except ClaimError as error:
            problems.append(f"{path}: {error}")
        except (LookupError, TypeError) as error:
            problems.append(f"{path}: not a paper's claims: {error}")
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError("\n".join(problems))
    return papers


@dataclass(frozen=True)
class Entry:
    """Where a claim is written down: the first line in its paper's file, and the text."""

    line: int
    text: str


def entries(text: str) -> dict[str, Entry]:
    """Return the entries of a paper's file, which fits the schema, by the claims' names."""
    root = yaml.compose(text, Loader=LOADER)
    (claims,) = (value for key, value in root.value if key.value == "claims")
    lines = text.splitlines()
    found = {}
    for node in claims.value:
        (name,) = (value.value for key, value in node.value if key.value == "name")
        start, end = node.start_mark.line, node.end_mark.line
        while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
            end -= 1  # comments before the next claim
        entry = textwrap.dedent("\n".join(lines[start:end]))
        found[name] = Entry(start + 1, entry)
    return found


def tables(papers: Mapping[str, Paper]) -> list[str]:
    """Return the tables that the claims are about, sorted."""
    return sorted({table for paper in papers.values() for table in paper.tables})


def with_experiments(papers: Mapping[str, Paper]) -> list[str]:
    """Return the papers that have numerical experiments of their own."""
    return [name for name, paper in papers.items() if CLAIM_EXPERIMENTS in paper.tables]


def _claim(values: Mapping[str, Any]) -> Claim:
    joins = tuple(Join(**{**join, "where": _steps(join)}) for join in values.get("joins", ()))
    conditions = tuple(Condition(**condition) for condition in values.get("conditions", ()))
    changed = {"where": _steps(values), "joins": joins, "conditions": conditions}
    return Claim(**{**values, **changed, "target": str(values["target"])})


def _steps(values: Mapping[str, Any]) -> tuple[str, ...]:
    where = values.get("where", ())
    return (where,) if isinstance(where, str) else tuple(where)
