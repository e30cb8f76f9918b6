"""Comparing a claim with the tables of a run."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ntk_conditioning.errors import one_line
from ntk_conditioning.files import require_file
from ntk_conditioning.spectra.unresolved import as_infinite
from ntk_conditioning.tables import TableError
from ntk_workflow.claims.expressions import ExpressionError, columns, evaluate
from ntk_workflow.claims.papers import CLAIM_EXPERIMENTS, Claim, ClaimError, Join

HOLDS = "holds"
UNDER_A_CONDITION = "holds under a condition"
UNDECIDED = "undecided"
FAILS = "fails"
OTHER_SIZE = "not tested at the paper's size"
NOT_TESTED = "not tested in this run"

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.intp]
#: How far a gap between value and target lies on the wrong side; the largest is worst for a claim.
MISS: Mapping[str, Callable[[Array], Array]] = {
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


@dataclass(frozen=True)
class Cases:
    """The cases of a claim: how far each lies from its target, and how sure that is.

    ``rows`` (n,) are numbers of rows that say what each case is, in the columns ``names``.
    ``gap`` (n,) is the value less the ``target`` (n,), for other networks of the same kind from
    ``low`` to ``high`` (n,), which are infinite if there is one network. ``network`` (n,) is the
    seed of a case that other networks may contradict, and missing for others.
    """

    rows: Numbers
    names: Sequence[str]
    target: Array
    gap: Array
    low: Array
    high: Array
    network: Array

    def good(self, claim: Claim, gap: Array | None = None) -> Mask:
        """Return whether gaps (n,), by default these, are as the claim says."""
        miss = MISS[claim.comparison](self.gap if gap is None else gap)
        return miss < claim.tolerance if claim.comparison in ("<", ">") else miss <= claim.tolerance

    def against(self, claim: Claim) -> Mask:
        """Return which cases (n,) contradict a claim: of means, the whole interval."""
        nearest = {"<": self.low, "<=": self.low, ">": self.high, ">=": self.high}
        zero = np.clip(0.0, self.low, self.high)
        mean = claim.statistic == "mean"
        return ~self.good(claim, nearest.get(claim.comparison, zero) if mean else self.gap)

    def verdict(self, claim: Claim) -> str:
        """Return `HOLDS`, `UNDECIDED` or `FAILS`."""
        networks = np.unique(self.network[self.against(claim)])
        if np.isnan(networks).any() or len(networks) > 1:
            return FAILS
        sure = self.good(claim, self.low) & self.good(claim, self.high)
        return HOLDS if sure.all() else UNDECIDED


def read_frame(path: Path, *, lists: bool = True) -> pd.DataFrame:
    """Return a table of a run, with its columns of lists or without.

    Raises:
        MissingFileError: if there is no such file.
        TableError: if it cannot be read.
    """
    require_file(path)
    try:
        schema = pq.read_schema(path)
        names = [field.name for field in schema if lists or not pa.types.is_nested(field.type)]
        return pd.read_parquet(path, columns=names)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TableError(f"{path}: not a readable Parquet file ({one_line(error)})") from None


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
        of_the_papers = _evaluated(claim, rows, claim.paper_size).astype(bool)
        if not of_the_papers.any():
            finding = _compared(claim, rows)
            return replace(finding, verdict=OTHER_SIZE, at_this_size=finding.verdict)
        rows = rows[of_the_papers]
    return _compared(claim, rows)


def _compared(claim: Claim, rows: pd.DataFrame) -> Finding:
    value, target = (_evaluated(claim, rows, each) for each in (claim.quantity, claim.target))
    with np.errstate(invalid="ignore"):
        gap = np.where(value == target, 0.0, value - target)
    decided = ~np.isnan(gap)
    if not decided.any():
        return Finding(NOT_TESTED, undecided=len(rows))
    if not decided.all():
        rows, gap, target = rows[decided], gap[decided], target[decided]
    measured = _measured(rows, gap, target)
    cases = _cases(claim, measured)
    verdict, condition, meeting = cases.verdict(claim), None, None
    for each in claim.conditions if verdict != HOLDS else ():
        meets = _evaluated(claim, rows, each.where).astype(bool)
        if meets.any() and (inside := _cases(claim, measured.of(meets))).verdict(claim) == HOLDS:
            condition, meeting = each.words, len(inside.gap)
            others = measured.of(~meets)
            exact = each.derived and not _cases(claim, others).good(claim).any()
            if exact or 2 * meeting >= len(cases.gap):
                verdict = UNDER_A_CONDITION
            break
    miss, against = MISS[claim.comparison](cases.gap), cases.against(claim)
    worst = int(np.argmax(np.where(against | ~against.any(), miss, -np.inf)))
    values = cases.gap + cases.target
    low, high = cases.low[worst], cases.high[worst]
    known = np.isfinite(low) or np.isfinite(high) or low == high
    return Finding(
        verdict,
        measured=float(values[worst]),
        expected=float(cases.target[worst]),
        worst=_named(rows, cases.rows[worst], cases.names),
        interval_low=float(low + cases.target[worst]) if known else None,
        interval_high=float(high + cases.target[worst]) if known else None,
        median=float(np.median(values)),
        low=float(values.min()),
        high=float(values.max()),
        networks=len(np.unique(measured.numbered(NETWORK)[~np.isnan(measured.seed)])),
        cases=len(values),
        holding=int(cases.good(claim).sum()),
        undecided=int((~decided).sum()),
        condition=condition,
        condition_cases=meeting,
        procedure=" ".join(rows["procedure"].unique()) if "procedure" in rows else None,
    )


@dataclass(frozen=True)
class _Measured:
    """What the n rows of a claim say: arrays (n,).

    ``varying`` has the keys whose values differ, and of each numbers that tell its values apart.
    """

    gap: Array
    target: Array
    seed: Array
    varying: Mapping[str, Numbers]

    def of(self, rows: Mask) -> "_Measured":
        """Return the same of some of the rows."""
        varying = {key: values[rows] for key, values in self.varying.items()}
        return _Measured(self.gap[rows], self.target[rows], self.seed[rows], varying)

    def numbered(self, keys: Iterable[str]) -> Numbers:
        """Return numbers (n,) from 0 on, the same for rows with the same values of the keys."""
        numbers = np.zeros(len(self.gap), np.intp)
        for values in (self.varying[key] for key in keys if key in self.varying):
            numbers = _joint(numbers, values)
        return numbers


def _measured(rows: pd.DataFrame, gap: Array, target: Array) -> _Measured:
    varying = {}
    for key in KEYS:
        if key not in rows:
            continue
        column = rows[key]
        values = column.to_numpy() if column.dtype != "category" else column.cat.codes.to_numpy()
        if not np.array_equal(values[1:], values[:-1]):
            varying[key], _ = pd.factorize(values, use_na_sentinel=False)
    return _Measured(gap, target, _seeds(rows), varying)


def _seeds(rows: pd.DataFrame) -> Array:
    """Return the seeds (n,) of rows that are of one network each; missing of others."""
    seeds = pd.Series(np.nan, rows.index)
    if "seeds" in rows:  # means over so many
        seeds = rows["seeds"].where(rows["seeds"] == 1)
    elif "seed" in rows and "networks" not in rows:  # not one that draws many networks
        seeds = rows["seed"]
    found: Array = seeds.to_numpy(np.float64, na_value=np.nan)
    return found


def _cases(claim: Claim, of: _Measured) -> Cases:
    """Return the cases: a row each or, if the claim is about means, networks of a kind each."""
    gap, target, seed = of.gap, of.target, of.seed
    mean = claim.statistic == "mean"
    inner = ("seed", "block") if mean else ("seed",)
    kind = of.numbered([key for key in KEYS if key not in inner])
    # of each network, the first of its rows
    network = _joint(kind, of.varying["seed"]) if "seed" in of.varying else kind
    _, of_network = np.unique(network, return_index=True)
    networks = kind[of_network]
    drawn = np.bincount(networks, ~np.isnan(seed[of_network]))  # of each kind; 0 if not random
    names = [key for key in KEYS if key in of.varying and not (mean and key in inner)]
    if mean:
        _, first = np.unique(kind, return_index=True)
        # of each network, its blocks' mean; then of the networks of a kind
        means = np.bincount(network, gap) / np.bincount(network)
        values = [means[networks == number] for number in range(len(first))]
        gap = np.array([each.mean() for each in values])
        low, high = np.transpose([_interval(each) for each in values])
        low, high = np.where(drawn == 1, -np.inf, low), np.where(drawn == 1, np.inf, high)
        return Cases(first, names, target[first], gap, low, high, np.full(len(gap), np.nan))
    low, high = np.full((2, len(gap)), np.nan)
    np.fmin.at(low, kind, gap)
    np.fmax.at(high, kind, gap)
    low, high = low[kind], high[kind]
    others = drawn[kind] - 1
    with np.errstate(invalid="ignore"):
        beyond = np.nan_to_num((high - low) / np.maximum(others, 1))
    fixed = (others < 0) | (claim.statistic == "bound")
    low = np.select([fixed, others == 0], [gap, -np.inf], low - beyond)
    high = np.select([fixed, others == 0], [gap, np.inf], high + beyond)
    contradicted = np.where(fixed, np.nan, seed)
    return Cases(np.arange(len(gap)), names, target, gap, low, high, contradicted)


def _joint(a: Numbers, b: Numbers) -> Numbers:
    """Return numbers (n,) from 0 on that tell pairs of two numbers (n,) apart, in their order."""
    numbers: Numbers = np.unique(a * (1 + b.max(initial=0)) + b, return_inverse=True)[1]
    return numbers


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
    needed = {claim.table, *(join.table for join in claim.joins if join.table)}
    if not needed <= set(tables):
        return pd.DataFrame()
    filled = {}
    for name in needed:
        table = tables[name]
        unresolved = table.columns.intersection(list(claim.unresolved))
        filled[name] = table.assign(**{each: as_infinite(table[each]) for each in unresolved})
    if CLAIM_EXPERIMENTS in filled:  # two papers may have the same equation number
        experiments = filled[CLAIM_EXPERIMENTS]
        filled[CLAIM_EXPERIMENTS] = experiments[experiments["paper"] == claim.paper]
    joined = [part for part in claim.where if not columns(part) <= {*filled[claim.table]}]
    rows = _selected(claim, filled[claim.table], [p for p in claim.where if p not in joined])
    for join in claim.joins:
        if not rows.empty:
            rows = _joined(claim, rows, join, filled[join.table or claim.table])
    return (rows if rows.empty else _selected(claim, rows, joined)).reset_index(drop=True)


def _joined(claim: Claim, rows: pd.DataFrame, join: Join, table: pd.DataFrame) -> pd.DataFrame:
    on, told = list(join.on), _names(claim)
    try:
        if join.previous:
            ordered = rows.sort_values([*on, join.previous], kind="stable")
            names = [name for name in rows if f"{join.prefix}_{name}" in told]
            before = ordered.groupby(on, dropna=False)[[*dict.fromkeys([join.previous, *names])]]
            other = before.shift(1).add_prefix(f"{join.prefix}_")
            return ordered.join(other)[other[f"{join.prefix}_{join.previous}"].notna()]
        names = [name for name in table if name in on or f"{join.prefix}_{name}" in told]
        other = _selected(claim, table, join.where)[names].add_prefix(f"{join.prefix}_")
        right = [f"{join.prefix}_{column}" for column in on]
        return rows.merge(other, left_on=on, right_on=right, how="inner", validate="m:1")
    except (KeyError, pd.errors.MergeError) as error:
        raise ClaimError(f"{claim.name}: join {join.prefix!r}: {one_line(error)}") from None


def _names(claim: Claim) -> set[str]:
    """Return the words of a claim's expressions, the names of the columns that it asks for."""
    texts = [*claim.where, claim.quantity, claim.target, claim.paper_size or ""]
    texts += [condition.where for condition in claim.conditions]
    texts += [name for join in claim.joins for name in (*join.on, join.previous or "")]
    return {*re.findall(r"\w+", " ".join(texts))}


def _selected(claim: Claim, table: pd.DataFrame, where: Sequence[str]) -> pd.DataFrame:
    for part in where:
        table = table[_evaluated(claim, table, part).astype(bool)]
    return table


def _evaluated(claim: Claim, rows: pd.DataFrame, expression: str) -> NDArray[Any]:
    try:
        return evaluate(expression, rows)
    except ExpressionError as error:
        raise ClaimError(f"{claim.name}: {error}") from None


def _named(rows: pd.DataFrame, number: int, keys: Iterable[str]) -> str:
    """Return a case in words: its values in the columns that tell the claim's cases apart."""
    names = []
    for key in keys:
        value = rows[key].iloc[number]
        if pd.isna(value) or value == "":
            continue
        text = f"{value:g}" if isinstance(value, float) else str(value)
        names.append(text if isinstance(value, str) else f"{key} {text}")
    return ", ".join(names) or "the only case"
