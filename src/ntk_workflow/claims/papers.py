"""What a paper claims, as it is written down in papers/{paper}.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ntk_conditioning.errors import UserError
from ntk_workflow.claims.expressions import ExpressionError, parse


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
    """A slice of a claim's rows in which it may hold where it does not hold in all."""

    where: str
    words: str


@dataclass(frozen=True)
class Claim:
    """One statement: in which rows of a table which quantity compares how with what.

    ``where``, ``quantity``, ``target`` and the conditions are expressions of columns, see
    `expressions.parse`; the parts of ``where`` select one after the other. ``unresolved`` names
    columns in which a missing value means larger than any number, as that of a kappa does.
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
    figure: str | None = None
    note: str | None = None

    @property
    def expressions(self) -> list[tuple[str, str]]:
        """All expressions, each after the key that has it."""
        return [
            ("quantity", self.quantity),
            ("target", self.target),
            *(("where", part) for part in self.where),
            *(("joins.where", part) for join in self.joins for part in join.where),
            *(("conditions.where", condition.where) for condition in self.conditions),
        ]


@dataclass(frozen=True)
class Paper:
    """A paper and its claims."""

    name: str
    title: str
    citation: str
    claims: Sequence[Claim]

    @property
    def tables(self) -> list[str]:
        """The tables that the claims are compared with."""
        named = [claim.table for claim in self.claims]
        named += [join.table for claim in self.claims for join in claim.joins if join.table]
        return sorted(set(named))


def read_paper(name: str, content: Mapping[str, Any]) -> Paper:
    """Return the paper that a file's ``content`` describes; the schema has been checked.

    Raises:
        ClaimError: if two claims have one name, or an expression is not in the grammar.
    """
    claims = [_claim(values) for values in content["claims"]]
    names = [claim.name for claim in claims]
    twice = sorted({one for one in names if names.count(one) > 1})
    if twice:
        raise ClaimError(f"claims named twice: {', '.join(twice)}; give each its own name")
    for claim in claims:
        for key, text in claim.expressions:
            try:
                parse(str(text))  # a number is the schema's to refuse
            except ExpressionError as error:
                raise ClaimError(f"claim {claim.name}: {key}: {error}") from None
    return Paper(name, content["title"], content["citation"], claims)


def _claim(values: Mapping[str, Any]) -> Claim:
    rest = {**values, "where": _steps(values)}
    joins = tuple(Join(**{**join, "where": _steps(join)}) for join in rest.pop("joins", ()))
    conditions = tuple(Condition(**condition) for condition in rest.pop("conditions", ()))
    target = str(rest.pop("target"))
    return Claim(**rest, target=target, joins=joins, conditions=conditions)


def _steps(values: Mapping[str, Any]) -> tuple[str, ...]:
    where = values.get("where", ())
    return (where,) if isinstance(where, str) else tuple(where)
