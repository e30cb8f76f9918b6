"""Comparing a claim with the tables of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.spectra.unresolved import as_infinite
from ntk_conditioning.tables import TABLES
from ntk_workflow.claims.papers import EXTREME, Claim, Join, columns
from ntk_workflow.pages.rendering import where

HOLDS = "holds"
UNDER_A_CONDITION = "holds under a condition"
UNDECIDED = "undecided"
FAILS = "fails"
OTHER_SIZE = "not tested at the paper's size"
NOT_TESTED = "not tested in this run"

#: Columns that tell networks apart.
NETWORK = (
    *("shape", "parameter", "dataset", "model", "architecture", "activation", "depth", "width"),
    *("n", "d", "seed"),
)
#: Columns that tell cases apart, with the table's keys, in the order in which a case is named.
KEYS = (
    *("statement", "experiment", "kernel", "shape", "parameter", "dataset", "model"),
    *("architecture", "activation", "depth", "width", "layer", "label_scale", "radius"),
    *("relative_rate", "n", "d", "at", "seed", "block", "epoch"),
)
#: How many times networks are drawn again for the interval of their mean, and its quantiles.
BOOTSTRAP, QUANTILES = 2000, (0.025, 0.975)


@dataclass(frozen=True)
class Finding:
    """A verdict on a claim, with the numbers; the fields are columns of the table `claims`."""

    verdict: str
    at_this_size: str | None = None
    measured: float | None = None
    expected: float | None = None
    worst: str | None = None
    interval_low: float | None = None
    interval_high: float | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None
    networks: int = 0
    cases: int = 0
    holding: int = 0
    undecided: int = 0
    condition: str | None = None
    condition_cases: int | None = None
    procedure: str | None = None


def check(claim: Claim, tables: Mapping[str, pd.DataFrame]) -> Finding:
    """Return the verdict on a claim; `UserError` if an expression does not fit the tables.

    Cases that differ in the seed alone are networks of one kind, and have an interval: of one more
    network or, if the claim is about means, of the mean; none if it is a bound that is proven for
    each network. Of one network alone it is unknown. The claim holds if all intervals are on the
    right side of the target. It fails if the interval of a mean, two networks, or a case that
    depends on none is on the wrong side; it is undecided otherwise. docs/claims.md has the others.
    """
    rows = rows_of(claim, tables)
    if claim.paper_size and not rows.empty:
        of_paper_size = _selected(claim, rows, [claim.paper_size])
        if of_paper_size.empty:
            finding = _compared(claim, rows)
            return replace(finding, verdict=OTHER_SIZE, at_this_size=finding.verdict)
        rows = of_paper_size
    return Finding(NOT_TESTED) if rows.empty else _compared(claim, rows)


def _compared(claim: Claim, rows: pd.DataFrame) -> Finding:
    value, target = evaluate(claim, rows, claim.quantity), evaluate(claim, rows, claim.target)
    gap = (value - target).mask(value == target, 0.0)  # both may be infinite
    undecided, rows = int(gap.isna().sum()), rows[gap.notna()]
    if rows.empty:
        return Finding(NOT_TESTED, undecided=undecided)
    known = [key for key in dict.fromkeys([*KEYS, *TABLES[claim.table].keys]) if key in rows]
    keys = [key for key in known if rows[key].nunique(dropna=False) > 1]
    inner = ("seed", "block") if claim.statistic == "mean" else ("seed",)
    outer = [key for key in keys if key not in inner]
    seed = pd.Series(np.nan, rows.index)  # of one network
    if "seeds" in rows:  # means over so many
        seed = rows["seeds"].where(rows["seeds"] == 1).astype(float)
    elif "seed" in rows and "networks" not in rows:  # not one that draws many networks
        seed = rows["seed"].astype(float)
    kind = _numbered(rows, outer)
    network = _numbered(rows, [*outer, "seed"] if "seed" in keys else outer)
    columns = {"gap": gap, "value": value, "target": target, "seed": seed, "kind": kind}
    measured = pd.DataFrame({**columns, "network": network}, rows.index)
    cases = _cases(claim, measured)
    verdict, condition, meeting = _verdict(cases), None, None
    for slice_ in claim.conditions if verdict != HOLDS else ():
        meets = evaluate(claim, rows, slice_.where).astype(bool)
        if meets.any() and _verdict(inside := _cases(claim, measured[meets])) == HOLDS:
            exact = slice_.derived and not _cases(claim, measured[~meets])["good"].any()
            if saved := exact or 2 * len(inside) >= len(cases):
                verdict = UNDER_A_CONDITION
            if saved or condition is None:
                condition, meeting = slice_.words, len(inside)
            if saved:
                break
    candidates = cases[cases["against"]] if cases["against"].any() else cases
    worst = candidates.loc[_miss(claim, candidates["gap"]).idxmax()]
    case = where(rows.loc[worst.name], outer if claim.statistic == "mean" else keys)
    low, high = (float(worst[end]) + float(worst["target"]) for end in ("low", "high"))
    ends = np.isfinite([low, high]).any() or low == high
    return Finding(
        verdict,
        measured=worst["value"],
        expected=worst["target"],
        worst=case or "the only case",
        interval_low=low if ends else None,
        interval_high=high if ends else None,
        median=cases["value"].median(),
        low=cases["value"].min(),
        high=cases["value"].max(),
        networks=len(rows[seed.notna()].drop_duplicates([n for n in NETWORK if n in rows] or None)),
        cases=len(cases),
        holding=int(cases["good"].sum()),
        undecided=undecided,
        condition=condition,
        condition_cases=meeting,
        procedure=" ".join(rows["procedure"].unique()) if "procedure" in rows else None,
    )


def _numbered(rows: pd.DataFrame, keys: Sequence[str]) -> Any:
    """Return a number for each row, the same where the keys are."""
    return rows.groupby(list(keys), dropna=False, sort=False).ngroup() if keys else 0


@cache
def _draws(count: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(count, size=(BOOTSTRAP, count))


def _cases(claim: Claim, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the cases: a row each or, if the claim is about means, networks of a kind each.

    ``gap`` is the value less the ``target``, for other networks of the same kind from ``low`` to
    ``high``, which are infinite if there is one network. ``seed`` is that of a case that other
    networks may contradict. ``good`` is what the claim says, ``against`` what contradicts it: of
    means, the whole interval; ``sure`` is what no other network may contradict.
    """
    kind, gap, seed = (measured[name].to_numpy() for name in ("kind", "gap", "seed"))
    drawn = measured[["kind", "network"]][~np.isnan(seed)].drop_duplicates()
    networks = np.bincount(drawn["kind"], minlength=kind.max() + 1)
    if claim.statistic == "mean":
        cases, numbers = measured.drop_duplicates("kind").assign(seed=np.nan), []
        of_networks = measured.groupby(["kind", "network"], sort=False)["gap"].mean()  # of blocks
        of_kinds = {kind: group.to_numpy() for kind, group in of_networks.groupby("kind")}
        for kind in cases["kind"]:
            means, ends = of_kinds[kind], (-np.inf, np.inf)
            if networks[kind] != 1:
                again = means[_draws(len(means))].mean(axis=1)
                ends = np.quantile(again, QUANTILES, method="inverted_cdf")
            numbers.append((means.mean(), *ends))
        gap, low, high = np.transpose(numbers)
        cases["value"] = gap + cases["target"]
        nearest = {"<": low, ">": high}.get(claim.comparison[0], np.clip(0.0, low, high))
    else:
        low, high = np.full(len(networks), np.inf), np.full(len(networks), -np.inf)
        np.minimum.at(low, kind, gap)
        np.maximum.at(high, kind, gap)
        low, high, count = low[kind], high[kind], networks[kind]
        with np.errstate(invalid="ignore"):
            beyond = (high - low) / np.maximum(count - 1, 1)
        beyond[np.isnan(beyond)] = 0.0  # both are infinite
        fixed = (count == 0) | (claim.statistic == "bound")
        low = np.select([fixed, count == 1], [gap, -np.inf], low - beyond)
        high = np.select([fixed, count == 1], [gap, np.inf], high + beyond)
        cases, nearest = measured.assign(seed=np.where(fixed, np.nan, seed)), gap
    sure = _good(claim, low) & _good(claim, high)
    against = ~_good(claim, nearest)
    verdicts = {"good": _good(claim, gap), "against": against, "sure": sure}
    return cases.assign(gap=gap, low=low, high=high, **verdicts)


def _miss(claim: Claim, gaps: Any) -> Any:
    """Return how far gaps lie on the wrong side; the largest is worst for a claim."""
    return np.abs(gaps) if claim.comparison == "==" else gaps if "<" in claim.comparison else -gaps


def _good(claim: Claim, gaps: Any) -> Any:
    """Return which gaps are as the claim says."""
    miss = _miss(claim, gaps)
    return miss < claim.tolerance if claim.comparison in ("<", ">") else miss <= claim.tolerance


def _verdict(cases: pd.DataFrame) -> str:
    """Return `HOLDS`, `UNDECIDED` or `FAILS`."""
    seeds = cases["seed"][cases["against"]].unique()
    if np.isnan(seeds).any() or len(seeds) > 1:
        return FAILS
    return HOLDS if cases["sure"].all() else UNDECIDED


def rows_of(claim: Claim, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the claim's rows with what is joined to them; none if a table is not in the run."""
    filled = {}
    for name in claim.tables:
        if name not in tables:
            return pd.DataFrame()
        table = tables[name]
        if "paper" in table:  # two papers may have the same equation number
            table = table[table["paper"] == claim.paper]
        unresolved = {key: as_infinite(table[key]) for key in claim.unresolved if key in table}
        filled[name] = table.assign(**unresolved)
    rows = filled[claim.table]
    of_joins = [part for part in claim.where if not columns(part) <= {*rows}]
    rows = _selected(claim, rows, [part for part in claim.where if part not in of_joins])
    for join in claim.joins:
        rows = _joined(claim, rows, join, filled[join.table or claim.table])
    return _selected(claim, rows, of_joins).reset_index(drop=True)


def _joined(claim: Claim, rows: pd.DataFrame, join: Join, table: pd.DataFrame) -> pd.DataFrame:
    on, prefix = list(join.on), f"{join.prefix}_"
    if join.previous:
        rows = rows.sort_values([*on, join.previous], kind="stable")
        before = rows.groupby(on, dropna=False, observed=True)[[*rows]].shift().add_prefix(prefix)
        return rows.join(before)[before[f"{prefix}{join.previous}"].notna()]
    other = _selected(claim, table, join.where).add_prefix(prefix)
    right = [f"{prefix}{column}" for column in on]
    try:
        return rows.merge(other, left_on=on, right_on=right, validate="m:1")
    except pd.errors.MergeError as error:
        where = f"{claim.paper}: claim {claim.name}: join {join.prefix!r}"
        raise UserError(f"{where}: {one_line(error)}") from None


def _selected(claim: Claim, table: pd.DataFrame, where: Sequence[str]) -> pd.DataFrame:
    for part in where:
        table = table[evaluate(claim, table, part).astype(bool)]
    return table


def evaluate(claim: Claim, rows: pd.DataFrame, expression: str) -> pd.Series:
    """Return what an expression of a claim gives for each row: booleans or numbers.

    It is evaluated as by `pandas.DataFrame.eval`, with ``.max('model')`` beside: the largest value
    in the rows with the same model. `UserError` if it does not fit the rows.
    """

    def extreme(column: pd.Series, method: str, *keys: str) -> pd.Series:
        groups = column.groupby([rows[key] for key in keys], dropna=False, observed=True)
        return groups.transform(method)

    text = EXTREME.sub(r"extreme(\1, '\2', \3)", expression.strip())
    names = {name: rows[name] for name in columns(expression) if name in rows}
    names["extreme"] = extreme
    try:
        with np.errstate(all="ignore"):
            result = pd.eval(text, engine="python", local_dict=names, global_dict={})
            values = pd.Series(result, rows.index)
        return values if values.dtype == bool else pd.to_numeric(values).astype(float)
    except Exception as error:  # whatever pandas raises, of a user's expression
        where = f"{claim.paper}: claim {claim.name}: {expression!r}"
        raise UserError(f"{where}: {one_line(error)}") from None
