"""Comparing a claim with the tables of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ntk_conditioning.errors import one_line
from ntk_conditioning.spectra.unresolved import as_infinite
from ntk_workflow.claims.papers import EXTREME, Claim, ClaimError, Join, columns

HOLDS = "holds"
UNDER_A_CONDITION = "holds under a condition"
UNDECIDED = "undecided"
FAILS = "fails"
OTHER_SIZE = "not tested at the paper's size"
NOT_TESTED = "not tested in this run"

Array = NDArray[np.float64]
#: How far a gap between value and target lies on the wrong side; the largest is worst for a claim.
MISS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("<", "<="), np.positive),
    **dict.fromkeys((">", ">="), np.negative),
    "==": np.abs,
}
#: Columns that tell networks apart.
NETWORK = (
    *("shape", "parameter", "dataset", "model", "architecture", "activation", "depth", "width"),
    *("n", "d", "seed"),
)
#: Columns that tell cases apart, in the order in which a case is named.
KEYS = (
    *("statement", "experiment", "kernel", "shape", "parameter", "dataset", "model"),
    *("architecture", "activation"),
    *("depth", "width", "layer", "label_scale", "radius", "relative_rate", "n", "d", "at", "seed"),
    *("block", "epoch"),
)
#: What is measured of each row.
MEASURED = ("gap", "target", "drawn", "kind", "network")
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
    """Return the verdict on a claim.

    Cases that differ in the seed alone are networks of one kind, and have an interval: of one more
    network or, if the claim is about means, of the mean; none if it is a bound that is proven for
    each network. Of one network alone it is unknown. The claim holds if all intervals are on the
    right side of the target. It fails if the interval of a mean, two networks, or a case that
    depends on none is on the wrong side; it is undecided otherwise.

    If it does not hold, the first of its conditions is named in whose cases it does. It holds under
    that condition if half of the cases meet it, or if the condition is derived and the claim holds
    in none of the others; else its verdict stays.

    If the claim says which cases have the paper's size, they alone are compared. Without any the
    verdict is `OTHER_SIZE`, and what all cases say is the one ``at_this_size``.

    Raises:
        ClaimError: if an expression does not fit the tables.
    """
    rows = rows_of(claim, tables)
    if rows.empty:
        return Finding(NOT_TESTED)
    if claim.paper_size:
        of_paper_size = evaluate(claim, rows, claim.paper_size).astype(bool)
        if not of_paper_size.any():
            finding = _compared(claim, rows)
            return replace(finding, verdict=OTHER_SIZE, at_this_size=finding.verdict)
        rows = rows[of_paper_size]
    return _compared(claim, rows)


def _compared(claim: Claim, rows: pd.DataFrame) -> Finding:
    value, target = evaluate(claim, rows, claim.quantity), evaluate(claim, rows, claim.target)
    with np.errstate(invalid="ignore"):
        gap = np.where(value == target, 0.0, value - target)
    decided = ~np.isnan(gap)
    if not decided.any():
        return Finding(NOT_TESTED, undecided=len(rows))
    if not decided.all():
        rows = rows[decided]
    drawn = np.full(len(rows), np.nan)  # the seed of a row of one network
    if "seeds" in rows:  # means over so many
        drawn = rows["seeds"].where(rows["seeds"] == 1).to_numpy(np.float64)
    elif "seed" in rows and "networks" not in rows:  # not one that draws many networks
        drawn = rows["seed"].to_numpy(np.float64, na_value=np.nan)
    keys = {key: pd.factorize(rows[key], use_na_sentinel=False)[0] for key in KEYS if key in rows}
    keys = {key: numbers for key, numbers in keys.items() if numbers.any()}
    inner = ("seed", "block") if claim.statistic == "mean" else ("seed",)
    outer = [key for key in keys if key not in inner]
    kind, network = _numbered(keys, outer, len(rows)), _numbered(keys, [*outer, "seed"], len(rows))
    columns = (gap[decided], target[decided], drawn, kind, network)
    measured = pd.DataFrame(dict(zip(MEASURED, columns, strict=True)))

    cases = _cases(claim, measured)
    verdict, condition, meeting = _verdict(claim, cases), None, None
    for slice_ in claim.conditions if verdict != HOLDS else ():
        meets = evaluate(claim, rows, slice_.where).astype(bool)
        if not meets.any():
            continue
        inside = _cases(claim, measured[meets])
        if _verdict(claim, inside) == HOLDS:
            condition, meeting = slice_.words, len(inside)
            others = _cases(claim, measured[~meets])
            exact = slice_.derived and not _good(claim, others["gap"]).any()
            if exact or 2 * meeting >= len(cases):
                verdict = UNDER_A_CONDITION
            break
    against = _against(claim, cases)
    candidates = cases[against] if against.any() else cases
    worst = candidates.loc[MISS[claim.comparison](candidates["gap"]).idxmax()]
    named = outer if claim.statistic == "mean" else keys
    values = (cases["gap"] + cases["target"]).to_numpy()
    low, high = worst["low"], worst["high"]
    known = np.isfinite(low) or np.isfinite(high) or low == high
    networks = _numbered(keys, NETWORK, len(rows))[~np.isnan(drawn)]
    return Finding(
        verdict,
        measured=float(worst["gap"] + worst["target"]),
        expected=float(worst["target"]),
        worst=_case_name({key: rows[key].iloc[int(worst["row"])] for key in named}),
        interval_low=float(low + worst["target"]) if known else None,
        interval_high=float(high + worst["target"]) if known else None,
        median=float(np.median(values)),
        low=float(values.min()),
        high=float(values.max()),
        networks=len(np.unique(networks)),
        cases=len(cases),
        holding=int(_good(claim, cases["gap"]).sum()),
        undecided=int((~decided).sum()),
        condition=condition,
        condition_cases=meeting,
        procedure=" ".join(rows["procedure"].unique()) if "procedure" in rows else None,
    )


def _numbered(
    codes: Mapping[str, NDArray[np.intp]], keys: Sequence[str], count: int
) -> NDArray[np.intp]:
    """Return numbers (n,) from 0 on, the same for rows with the same values of the keys."""
    numbers = np.zeros(count, np.intp)
    for key in keys:
        if key in codes:
            pairs = numbers * (codes[key].max() + 1) + codes[key]
            numbers = np.unique(pairs, return_inverse=True)[1]
    return numbers


def _cases(claim: Claim, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the cases: a row each or, if the claim is about means, networks of a kind each.

    ``row`` is the number of a row that says what the case is. ``gap`` is the value less the
    ``target``, for other networks of the same kind from ``low`` to ``high``, which are infinite if
    there is one network. ``network`` is the seed of a case that other networks may contradict.
    """
    gap, target, drawn, kind, network = (measured[name].to_numpy() for name in MEASURED)
    _, first, kind = np.unique(kind, return_index=True, return_inverse=True)
    _, first_of_network, network = np.unique(network, return_index=True, return_inverse=True)
    kind_of_network = kind[first_of_network]
    # of each kind; 0 if it is not random
    networks = np.bincount(kind_of_network, ~np.isnan(drawn[first_of_network]))
    if claim.statistic == "mean":
        # of each network, its blocks' mean; then of the networks of a kind
        means = np.bincount(network, gap) / np.bincount(network)
        groups = [means[kind_of_network == number] for number in range(len(first))]
        low, high = np.transpose([_interval(group) for group in groups])
        low, high = np.where(networks == 1, [[-np.inf], [np.inf]], [low, high])
        row, target, gap = first, target[first], np.array([group.mean() for group in groups])
        contradicted = np.full(len(first), np.nan)
    else:
        least, most = np.full(len(first), np.inf), np.full(len(first), -np.inf)
        np.minimum.at(least, kind, gap)
        np.maximum.at(most, kind, gap)
        low, high, others = least[kind], most[kind], networks[kind] - 1
        with np.errstate(invalid="ignore"):
            beyond = np.nan_to_num((high - low) / np.maximum(others, 1))
        fixed = (others < 0) | (claim.statistic == "bound")
        low = np.select([fixed, others == 0], [gap, -np.inf], low - beyond)
        high = np.select([fixed, others == 0], [gap, np.inf], high + beyond)
        row, contradicted = np.arange(len(gap)), np.where(fixed, np.nan, drawn)
    columns = {"row": row, "gap": gap, "target": target, "low": low, "high": high}
    return pd.DataFrame(columns | {"network": contradicted})


def _good(claim: Claim, gaps: pd.Series) -> pd.Series:
    """Return which gaps are as the claim says."""
    miss = MISS[claim.comparison](gaps)
    return miss < claim.tolerance if claim.comparison in ("<", ">") else miss <= claim.tolerance


def _against(claim: Claim, cases: pd.DataFrame) -> pd.Series:
    """Return which cases contradict a claim: of means, the whole interval."""
    nearest = cases["gap"]
    if claim.statistic == "mean":
        ends = {"<": cases["low"], "<=": cases["low"], ">": cases["high"], ">=": cases["high"]}
        zero = pd.Series(np.clip(0.0, cases["low"], cases["high"]), cases.index)
        nearest = ends.get(claim.comparison, zero)
    return ~_good(claim, nearest)


def _verdict(claim: Claim, cases: pd.DataFrame) -> str:
    """Return `HOLDS`, `UNDECIDED` or `FAILS`."""
    networks = cases["network"][_against(claim, cases)].unique()
    if np.isnan(networks).any() or len(networks) > 1:
        return FAILS
    sure = _good(claim, cases["low"]) & _good(claim, cases["high"])
    return HOLDS if sure.all() else UNDECIDED


def _interval(values: Array) -> Array:
    """Return the ends of the bootstrap interval of a mean."""
    means = values[_draws(len(values))].mean(axis=1)
    ends: Array = np.quantile(means, QUANTILES, method="inverted_cdf")
    return ends


@cache
def _draws(count: int) -> NDArray[np.intp]:
    return np.random.default_rng(0).integers(count, size=(BOOTSTRAP, count))


def rows_of(claim: Claim, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the claim's rows with what is joined to them; none if a table is not in the run."""
    filled = {}
    for name in {claim.table, *(join.table for join in claim.joins if join.table)}:
        if name not in tables:
            return pd.DataFrame()
        table = tables[name]
        if "paper" in table:  # two papers may have the same equation number
            table = table[table["paper"] == claim.paper]
        unresolved = {key: as_infinite(table[key]) for key in claim.unresolved if key in table}
        filled[name] = table.assign(**unresolved) if unresolved else table
    rows = filled[claim.table]
    of_joins = [part for part in claim.where if not columns(part) <= {*rows}]
    rows = _selected(claim, rows, [part for part in claim.where if part not in of_joins])
    for join in claim.joins:
        if not rows.empty:
            rows = _joined(claim, rows, join, filled[join.table or claim.table])
    return (rows if rows.empty else _selected(claim, rows, of_joins)).reset_index(drop=True)


def _joined(claim: Claim, rows: pd.DataFrame, join: Join, table: pd.DataFrame) -> pd.DataFrame:
    on, prefix = list(join.on), f"{join.prefix}_"
    try:
        if join.previous:
            rows = rows.sort_values([*on, join.previous], kind="stable")
            before = (
                rows.groupby(on, dropna=False, observed=True)[[*rows]].shift().add_prefix(prefix)
            )
            return rows.join(before)[before[f"{prefix}{join.previous}"].notna()]
        other = _selected(claim, table, join.where).add_prefix(prefix)
        right = [f"{prefix}{column}" for column in on]
        return rows.merge(other, left_on=on, right_on=right, how="inner", validate="m:1")
    except (KeyError, pd.errors.MergeError) as error:
        raise ClaimError(
            f"{claim.paper}: claim {claim.name}: join {join.prefix!r}: {one_line(error)}"
        ) from None


def _selected(claim: Claim, table: pd.DataFrame, where: Sequence[str]) -> pd.DataFrame:
    for part in where:
        table = table[evaluate(claim, table, part).astype(bool)]
    return table


def evaluate(claim: Claim, rows: pd.DataFrame, expression: str) -> NDArray[Any]:
    """Return what an expression of a claim gives for each row: booleans or numbers.

    It is evaluated as by `pandas.DataFrame.eval`, with ``.max('model')`` beside: the largest value
    in the rows with the same model.

    Raises:
        ClaimError: if it does not fit the rows, in one line.
    """

    def extreme(column: pd.Series, method: str, *keys: str) -> pd.Series:
        groups = column.groupby([rows[key] for key in keys], dropna=False, observed=True)
        return groups.transform(method)

    text = EXTREME.sub(r"extreme(\1, '\2', \3)", expression.strip())
    names = {name: rows[name] for name in columns(expression) if name in rows}
    try:
        with np.errstate(all="ignore"):
            values = pd.eval(
                text, engine="python", local_dict={**names, "extreme": extreme}, global_dict={}
            )
            values = np.asarray(values)
        if values.dtype != bool:
            numbers = pd.to_numeric(pd.Series(values.ravel()))
            values = numbers.to_numpy(np.float64, na_value=np.nan)
    except Exception as error:  # whatever pandas raises, of an expression of the user's own
        short = expression if len(expression) <= 60 else f"{expression[:57]}..."
        raise ClaimError(
            f"{claim.paper}: claim {claim.name}: {short!r}: {one_line(error)}"
        ) from None
    return np.broadcast_to(values, (len(rows),)).copy()


def _case_name(values: Mapping[str, Any]) -> str:
    """Return a case in words: its values in the columns that tell the claim's cases apart."""
    names = []
    for key, value in values.items():
        if pd.isna(value) or value == "":
            continue
        text = f"{value:g}" if isinstance(value, float) else str(value)
        names.append(text if isinstance(value, str) else f"{key} {text}")
    return ", ".join(names) or "the only case"
