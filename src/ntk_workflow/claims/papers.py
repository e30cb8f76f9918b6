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


@dataclass(frozen=True)
class Join:
    """Other rows that stand beside each row, with columns named ``{prefix}_{column}``."""

    prefix: str
    on: Sequence[str]
    table: str | None = None
    where: Sequence[str] = ()
    previous: str | None = None


@dataclass(frozen=True)
class Condition:
    """A slice of a claim's rows in which it may hold where it does not hold in all."""

    where: str
    words: str
    derived: str | None = None


@dataclass(frozen=True)
class Claim:
    """One statement of a paper: in which rows of a table which quantity compares how with what.

    schemas/papers.schema.yaml describes the fields; ``line`` and ``source`` are where and how it is
    written down.
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
    line: int = 1
    source: str = ""

    @property
    def tables(self) -> list[str]:
        """The tables that it is compared with."""
        return sorted({self.table, *(join.table or self.table for join in self.joins)})


@dataclass(frozen=True)
class Paper:
    """A paper, its claims, and its statements with the reasons why some of them are not tested.

    ``main`` names the claims that it stands on.
    """

    name: str
    title: str
    citation: str
    claims: Sequence[Claim]
    statements: Mapping[str, str | None] = field(default_factory=dict)
    main: Sequence[str] = ()

    @property
    def coverage(self) -> dict[str, list[Claim]]:
        """The claims of each statement: those whose place names it as a whole."""
        names = {s: re.compile(rf"\b{re.escape(s)}(?![\w.(]*\d)") for s in self.statements}
        return {
            statement: [claim for claim in self.claims if name.search(claim.place)]
            for statement, name in names.items()
        }

    @property
    def tables(self) -> list[str]:
        """The tables that the claims are compared with."""
        return sorted({table for claim in self.claims for table in claim.tables})


@cache
def columns(text: str) -> frozenset[str]:
    """Return the columns that an expression names; `SyntaxError` if it is none.

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
        UserError: a line for everything that is not as schemas/papers.schema.yaml says or, if all
            is, for every mistake in the claims; or one if it is no YAML.
    """
    content = read_yaml(path)
    problems = schema_errors(content, read_yaml(SCHEMAS / "papers.schema.yaml"))
    if not problems:
        paper = _paper(path.stem, content, path.read_text(encoding="utf-8"))
        problems = list(_mistakes(paper))
    if problems:
        raise UserError("\n".join(f"{path}: {problem}" for problem in problems))
    return paper


def _paper(name: str, content: Mapping[str, Any], text: str) -> Paper:
    """Return the paper that a file's text and its content describe."""
    written: dict[str, Any] = {}
    for entry in re.finditer(r"^( *)- name: (\S+)\n(\n*\1  .*\n)*", f"{text}\n", re.MULTILINE):
        line = text.count("\n", 0, entry.start()) + 1
        written[entry[2]] = {"line": line, "source": textwrap.dedent(entry[0]).strip()}
    claims = []
    for values in content["claims"]:
        joins = [Join(**join | {"where": _parts(join)}) for join in values.get("joins", ())]
        conditions = [Condition(**condition) for condition in values.get("conditions", ())]
        parsed: dict[str, Any] = {"where": _parts(values), "joins": joins, "conditions": conditions}
        parsed |= {"target": str(values["target"]), **written.get(values["name"], {})}
        parsed |= {key: values[key].strip() for key in ("statement", "note") if key in values}
        claims.append(Claim(name, **values | parsed))
    statements = content.get("statements", {})
    main = content.get("main", [])
    return Paper(name, content["title"], content["citation"], claims, statements, main)


def _parts(values: Mapping[str, Any]) -> Sequence[str]:
    where = values.get("where", ())
    return [where] if isinstance(where, str) else where


def _mistakes(paper: Paper) -> Iterator[str]:
    """Yield a line for each mistake: in names, tables, expressions and columns."""
    counts = Counter(claim.name for claim in paper.claims)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        yield f"claims named twice: {', '.join(repeated)}; give each its own name"
    for name in paper.main:
        if name not in counts:
            yield f"main: there is no claim {name!r}; {did_you_mean(name, counts)}"
    made = {name for name, table in TABLES.items() if table.studies}
    for claim in paper.claims:
        if unknown := {*claim.tables} - made:
            yield f"no run has the table {' and '.join(unknown)} of the claim {claim.name}"
            continue
        known = {name for table in claim.tables for name in TABLES[table].schema.names}
        for join in claim.joins:
            known |= {f"{join.prefix}_{name}" for name in known}
        expressions = [("quantity", claim.quantity), ("target", claim.target)]
        expressions += [("where", part) for part in claim.where]
        expressions += [("joins.on", name) for join in claim.joins for name in join.on]
        expressions += [("joins.where", part) for join in claim.joins for part in join.where]
        expressions += [("joins.previous", join.previous or "0") for join in claim.joins]
        expressions += [("conditions.where", condition.where) for condition in claim.conditions]
        expressions += [("paper_size", claim.paper_size or "0")]
        for key, text in expressions:
            place = f"claim {claim.name}: {key}"
            try:
                missing = columns(text) - known
            except SyntaxError as error:
                yield f"{place}: {text!r}: {error.msg}"
                continue
            for name in sorted(missing):
                near = did_you_mean(name, known)
                yield f"{place}: there is no column {name!r} in {claim.table}; {near}"


def read(
    names: Sequence[str], folder: str, figures: Collection[str]
) -> tuple[dict[str, Paper], list[str]]:
    """Return the papers by name, and lines for the mistakes in all of them."""
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
        except UserError as error:
            problems.append(str(error))
            continue
        for claim in papers[name].claims:
            if claim.figure not in {None, *figures}:
                near = did_you_mean(str(claim.figure), figures)
                problems.append(f"{path}: claim {claim.name}: no figure {claim.figure!r}; {near}")
    return papers, problems
