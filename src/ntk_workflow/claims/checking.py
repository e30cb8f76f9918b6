"""Comparing a claim with the tables of a run."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ntk_conditioning.errors import one_line
from ntk_workflow.claims.expressions import ExpressionError, evaluate
from ntk_workflow.claims.papers import Claim, ClaimError, Join

HOLDS = "holds"
UNDER_A_CONDITION = "holds under a condition"
FAILS = "fails"
NOT_TESTED = "not tested in this run"
VERDICTS = (HOLDS, UNDER_A_CONDITION, FAILS, NOT_TESTED)

Array = NDArray[np.float64]
#: How far a value lies on the wrong side of its target; the largest is worst for the claim.
MISS: Mapping[str, Callable[[Array, Array], Array]] = {
    "<": operator.sub,
    "<=": operator.sub,
    ">": lambda value, target: target - value,
    ">=": lambda value, target: target - value,
    "==": lambda value, target: np.abs(value - target),
}
#: Columns that tell cases apart, in the order in which a case is named.
KEYS = (
    *("statement", "experiment", "kernel", "dataset", "model", "activation", "depth", "width"),
    *("learning_rate", "n", "d", "at", "seed", "block", "epoch"),
)


@dataclass(frozen=True)
class Finding:
    """A verdict on a claim, with the numbers; the fields are columns of the table `claims`."""

    verdict: str
    measured: float | None = None
    worst: str | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None
    seed_spread: float | None = None
    cases: int = 0
    holding: int = 0
    undecided: int = 0
    condition: str | None = None
    condition_cases: int | None = None


def check(claim: Claim, tables: Mapping[str, pd.DataFrame]) -> Finding:
    """Return the verdict on a claim.

    A claim holds if its comparison does in every case that can be decided. If not, the first of its
    conditions that some cases meet, in all of which it does, is named.

    Raises:
        ClaimError: if an expression does not fit the tables.
    """
    rows = _rows(claim, tables)
    if rows.empty:
        return Finding(NOT_TESTED)
    value, target = (_evaluated(claim, rows, each) for each in (claim.quantity, claim.target))
    with np.errstate(invalid="ignore"):
        miss = MISS[claim.comparison](value, target)
    decided = ~np.isnan(miss)
    if not decided.any():
        return Finding(NOT_TESTED, undecided=len(rows))
    inside = operator.lt if claim.comparison in ("<", ">") else operator.le
    good = inside(miss, claim.tolerance)[decided]
    worst = int(np.argmax(np.where(decided, miss, -np.inf)))
    values, cases = value[decided], rows[decided]
    verdict, condition, meeting = (HOLDS if good.all() else FAILS), None, None
    for each in claim.conditions if verdict == FAILS else ():
        meets = _evaluated(claim, cases, each.where).astype(bool)
        if meets.any() and good[meets].all():
            verdict, condition, meeting = UNDER_A_CONDITION, each.words, int(meets.sum())
            break
    return Finding(
        verdict,
        measured=float(value[worst]),
        worst=_named(rows, worst),
        median=float(np.median(values)),
        low=float(values.min()),
        high=float(values.max()),
        seed_spread=_seed_spread(cases, values),
        cases=len(values),
        holding=int(good.sum()),
        undecided=len(rows) - len(values),
        condition=condition,
        condition_cases=meeting,
    )


def _rows(claim: Claim, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the claim's rows with what is joined to them; none if a table is not in the run."""
    needed = {claim.table, *(join.table for join in claim.joins if join.table)}
    if not needed <= set(tables):
        return pd.DataFrame()
    filled = {}
    for name in needed:
        unresolved = tables[name].columns.intersection(list(claim.unresolved))
        filled[name] = tables[name].fillna(dict.fromkeys(unresolved, np.inf))
    rows = _selected(claim, filled[claim.table], claim.where)
    for join in claim.joins:
        if not rows.empty:
            rows = _joined(claim, rows, join, filled[join.table or claim.table])
    return rows.reset_index(drop=True)


def _joined(claim: Claim, rows: pd.DataFrame, join: Join, table: pd.DataFrame) -> pd.DataFrame:
    on = list(join.on)
    try:
        if join.previous:
            ordered = rows.sort_values([*on, join.previous], kind="stable")
            other = ordered.groupby(on, dropna=False).shift(1).add_prefix(f"{join.prefix}_")
            return ordered.join(other)[other[f"{join.prefix}_{join.previous}"].notna()]
        other = _selected(claim, table, join.where).add_prefix(f"{join.prefix}_")
        right = [f"{join.prefix}_{column}" for column in on]
        return rows.merge(other, left_on=on, right_on=right, how="inner", validate="m:1")
    except (KeyError, pd.errors.MergeError) as error:
        raise ClaimError(f"{claim.name}: join {join.prefix!r}: {one_line(error)}") from None


def _selected(claim: Claim, table: pd.DataFrame, where: Sequence[str]) -> pd.DataFrame:
    for part in where:
        table = table[_evaluated(claim, table, part).astype(bool)]
    return table


def _evaluated(claim: Claim, rows: pd.DataFrame, expression: str) -> NDArray[Any]:
    try:
        return evaluate(expression, rows)
    except ExpressionError as error:
        raise ClaimError(f"{claim.name}: {error}") from None


def _seed_spread(rows: pd.DataFrame, values: Array) -> float | None:
    """Return the largest range over seeds of rows that differ in no other key."""
    if "seed" not in rows or rows["seed"].nunique() < 2:
        return None
    keys = [rows[key] for key in KEYS if key in rows and key != "seed"]
    grouped = pd.Series(values, index=rows.index).groupby(keys, dropna=False)
    ranges = (grouped.max() - grouped.min())[grouped.count() > 1]
    return float(ranges.max()) if len(ranges) else None


def _named(rows: pd.DataFrame, number: int) -> str:
    """Return a case in words: its values in the columns that tell the claim's cases apart."""
    row = rows.iloc[number]
    names = []
    for key in KEYS:
        if key not in rows or pd.isna(row[key]) or rows[key].nunique(dropna=False) == 1:
            continue
        value = row[key]
        text = f"{value:g}" if isinstance(value, float) else str(value)
        names.append(text if isinstance(value, str) else f"{key} {text}")
    return ", ".join(names) or "the only case"
