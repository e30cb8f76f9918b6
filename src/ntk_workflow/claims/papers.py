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

import yaml

from ntk_conditioning.errors import UserError
from ntk_conditioning.tables import TABLES
from ntk_workflow.config import LOADER, SCHEMAS, did_you_mean, read_yaml, schema_errors

#: The table of numerical experiments, the only one that is made for the claims' sake.
CLAIM_EXPERIMENTS = "claim_experiments"
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
    claims = [_claim(name, values) for values in content["claims"]]
    counts = Counter(claim.name for claim in claims)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        raise ClaimError(f"claims named twice: {', '.join(repeated)}; give each its own name")
    for claim in claims:
        for key, text in _expressions(claim):
            try:
                columns(text)
            except SyntaxError as error:
                raise ClaimError(f"claim {claim.name}: {key}: {text!r}: {error.msg}") from None
    statements = content.get("statements", {})
    paper = Paper(name, content["title"], content["citation"], claims, statements)
    placed = set()
    for statement, of_statement in paper.coverage.items():
        reason = statements[statement]
        if reason and of_statement:
            tested = f"is tested by {of_statement[0].name}, and not: {reason}"
            raise ClaimError(f"statements: {statement} {tested}")
        if not reason and not of_statement:
            raise ClaimError(f"statements: {statement} has no claim")
        placed |= {claim.name for claim in of_statement}
    for claim in claims if statements else ():
        if claim.name not in placed:
            raise ClaimError(f"claim {claim.name}: its place, {claim.place}, is no statement")
    return paper


def columns(text: str) -> set[str]:
    """Return the columns that an expression names.

    Raises:
        SyntaxError: if it is none.

    >>> sorted(columns("log(kappa) > n and depth == depth.max('model')"))
    ['depth', 'kappa', 'model', 'n']
    """
    nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    names = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in functions}
    for _, _, alike in EXTREME.findall(text):
        names |= {*re.findall(r"\w+", alike)}
    return names


def _expressions(claim: Claim) -> Iterator[tuple[str, str]]:
    """Yield the expressions of a claim's rows, with their keys."""
    yield "quantity", claim.quantity
    yield "target", claim.target
    yield from (("where", part) for part in claim.where)
    yield from (("joins.where", part) for join in claim.joins for part in join.where)
    yield from (("conditions.where", condition.where) for condition in claim.conditions)
    if claim.paper_size:
        yield "paper_size", claim.paper_size


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
        unknown = [table for table in papers[name].tables if table not in tables]
        problems += [f"{path}: no run has the table {table} of a claim" for table in unknown]
        for claim in papers[name].claims if not unknown else ():
            problems += [f"{path}: claim {claim.name}: {line}" for line in _unknown_columns(claim)]
            if figures is not None and claim.figure not in {None, *figures}:
                similar = did_you_mean(str(claim.figure), figures)
                problems.append(
                    f"{path}: claim {claim.name}: no figure {claim.figure!r}; {similar}"
                )
    if problems:
        raise ValueError("\n".join(problems))
    return papers


@cache
def _declared(table: str) -> frozenset[str]:
    kind = "conditioning" if table == "activation_study" else table
    return frozenset(TABLES[kind].schema.names)


def _unknown_columns(claim: Claim) -> Iterator[str]:
    """Yield a line for each column that a claim names and that its rows will not have."""
    known = {*_declared(claim.table)}
    named: list[tuple[str, set[str], Collection[str]]] = []
    for join in claim.joins:
        joined = _declared(join.table or claim.table)
        on = {*join.on, *([join.previous] if join.previous else [])}
        named += [("joins.on", on, joined & known)]
        named += [("joins.where", columns(part), joined) for part in join.where]
        known |= {f"{join.prefix}_{name}" for name in (known if join.previous else joined)}
    for key, text in _expressions(claim):
        if key != "joins.where":
            named += [(key, columns(text), known)]
    for key, names, allowed in named:
        for name in sorted(names - {*allowed}):
            similar = did_you_mean(name, allowed)
            yield f"{key}: there is no column {name!r} in {claim.table}; {similar}"


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


def _claim(paper: str, values: Mapping[str, Any]) -> Claim:
    joins = tuple(Join(**{**join, "where": _steps(join)}) for join in values.get("joins", ()))
    conditions = tuple(Condition(**condition) for condition in values.get("conditions", ()))
    changed = {"where": _steps(values), "joins": joins, "conditions": conditions}
    return Claim(paper, **{**values, **changed, "target": str(values["target"])})


def _steps(values: Mapping[str, Any]) -> tuple[str, ...]:
    where = values.get("where", ())
    return (where,) if isinstance(where, str) else tuple(where)
