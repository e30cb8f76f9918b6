"""What a paper claims, as it is written down in papers/{paper}.yaml."""

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ntk_conditioning.errors import UserError
from ntk_conditioning.tables import TABLES
from ntk_workflow.config import SCHEMAS, did_you_mean, read_yaml, schema_errors

#: The largest or least value of a column in the rows that are equal in others: depth.max('model').
EXTREME = re.compile(r"(\w+)\.(min|max)\(('[^)]+')\)")


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
    """One statement of a paper: in which rows of a table which quantity compares how with what.

    ``where``, ``quantity``, ``target`` and the conditions are expressions of columns, as
    `pandas.DataFrame.eval` has them, with ``depth.max('model')`` beside; the parts of ``where``
    select one after the other. ``unresolved`` names columns in which a missing value means larger
    than any number, as that of a kappa does. The ``statistic`` over networks is ``every``, ``mean``
    where the statement is about means, or ``bound`` where it is proven for each. ``paper_size``
    selects the rows of networks as large, and trained as long, as the paper's. The ``formula`` of a
    misprint is LaTeX, ``printed`` and ``corrected``.
    """

    paper: str
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

    @property
    def expressions(self) -> Iterator[tuple[str, str]]:
        """Its expressions, with their keys."""
        yield "quantity", self.quantity
        yield "target", self.target
        yield from (("where", part) for part in self.where)
        yield from (("joins.where", part) for join in self.joins for part in join.where)
        yield from (("conditions.where", condition.where) for condition in self.conditions)
        if self.paper_size:
            yield "paper_size", self.paper_size


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
        ClaimError: if two claims have one name, an expression has a mistake, or statements and
            claims do not fit: no claim and no reason, both, or a claim of no statement.
    """

    def steps(values: Mapping[str, Any]) -> Sequence[str]:
        where = values.get("where", ())
        return (where,) if isinstance(where, str) else tuple(where)

    claims = []
    for values in content["claims"]:
        joins = [Join(**{**join, "where": steps(join)}) for join in values.get("joins", ())]
        conditions = [Condition(**condition) for condition in values.get("conditions", ())]
        parts = {"where": steps(values), "joins": joins, "conditions": conditions}
        claims.append(Claim(name, **{**values, **parts, "target": str(values["target"])}))
    counts = Counter(claim.name for claim in claims)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        raise ClaimError(f"claims named twice: {', '.join(repeated)}; give each its own name")
    for claim in claims:
        for key, text in claim.expressions:
            try:
                columns(text)
            except SyntaxError as error:
                raise ClaimError(f"claim {claim.name}: {key}: {text!r}: {error.msg}") from None
    statements = content.get("statements", {})
    paper = Paper(name, content["title"], content["citation"], claims, statements)
    for statement, tested in paper.coverage.items():
        reason = statements[statement]
        if reason and tested:
            names = f"is tested by {tested[0].name}, and not: {reason}"
            raise ClaimError(f"statements: {statement} {names}")
        if not reason and not tested:
            raise ClaimError(f"statements: {statement} has no claim")
    placed = {claim.name for tested in paper.coverage.values() for claim in tested}
    for claim in claims if statements else ():
        if claim.name not in placed:
            raise ClaimError(f"claim {claim.name}: its place, {claim.place}, is no statement")
    return paper


@cache
def columns(text: str) -> frozenset[str]:
    """Return the columns that an expression names.

    Raises:
        SyntaxError: if it is none.

    >>> sorted(columns("log(kappa) > n and depth == depth.max('model')"))
    ['depth', 'kappa', 'model', 'n']
    """
    nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    functions = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = {node.id for node in nodes if isinstance(node, ast.Name) and node not in functions}
    alike = re.findall(r"\w+", " ".join(match[2] for match in EXTREME.findall(text)))
    return frozenset({*names, *alike})


def load(path: Path) -> Paper:
    """Return what a file says that a paper claims.

    Raises:
        ClaimError: if it is not as schemas/papers.schema.yaml says, or as `read_paper`.
        ValueError: if it is no YAML.
    """
    content, schema = read_yaml(path), read_yaml(SCHEMAS / "papers.schema.yaml")
    if problems := schema_errors(content, schema):
        raise ClaimError("\n".join(f"{path}: {problem}" for problem in problems))
    try:
        return read_paper(path.stem, content)
    except ClaimError as error:
        raise ClaimError(f"{path}: {error}") from None


def read(
    names: Sequence[str],
    *,
    folder: str,
    tables: Collection[str],
    figures: Collection[str] | None = None,
) -> dict[str, Paper]:
    """Return the papers by name.

    Raises:
        ValueError: a line for every file that is missing or that `load` cannot read, and for every
            claim about a table that no run has, a column that the table has not, or a figure.
    """
    papers: dict[str, Paper] = {}
    problems = []
    for name in names:
        path = Path(folder) / f"{name}.yaml"
        if not path.exists():
            known = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml")))
            problems.append(f"config key papers: there is no {path}; there are: {known}")
            continue
        try:
            papers[name] = load(path)
        except ValueError as error:
            problems.append(str(error))
            continue
        if unknown := sorted({*papers[name].tables} - {*tables}):
            problems += [f"{path}: no run has the table {table} of a claim" for table in unknown]
            continue
        for claim in papers[name].claims:
            mistakes = _unknown_columns(claim)
            if figures is not None and claim.figure not in {None, *figures}:
                similar = did_you_mean(str(claim.figure), figures)
                mistakes.append(f"no figure {claim.figure!r}; {similar}")
            problems += [f"{path}: claim {claim.name}: {mistake}" for mistake in mistakes]
    if problems:
        raise ValueError("\n".join(problems))
    return papers


def _unknown_columns(claim: Claim) -> list[str]:
    """Return a line for each column that a claim names and that none of its tables has."""
    tables = {claim.table, *(join.table or claim.table for join in claim.joins)}
    known = {name for table in tables for name in TABLES[table].schema.names}
    named = [("joins.on", name) for join in claim.joins for name in join.on]
    for join in claim.joins:
        known |= {f"{join.prefix}_{name}" for name in known}
        named += [("joins.previous", join.previous)] if join.previous else []
    named += [(key, name) for key, text in claim.expressions for name in sorted(columns(text))]
    return [
        f"{key}: there is no column {name!r} in {claim.table}; {did_you_mean(name, known)}"
        for key, name in named
        if name not in known
    ]


@dataclass(frozen=True)
class Entry:
    """Where a claim is written down: the first line in its paper's file, and the text."""

    line: int = 1
    text: str = ""


def entries(text: str) -> dict[str, Entry]:
    """Return the entries of a paper's file that begin with their claims' names, by these."""
    found = {}
    for entry in re.finditer(r"^( *)- name: (\S+)\n(\n*\1  .*\n)*", f"{text}\n", re.MULTILINE):
        line = text.count("\n", 0, entry.start()) + 1
        found[entry[2]] = Entry(line, textwrap.dedent(entry[0]).strip())
    return found


def tables(papers: Mapping[str, Paper]) -> list[str]:
    """Return the tables that the claims are about, sorted."""
    return sorted({table for paper in papers.values() for table in paper.tables})
