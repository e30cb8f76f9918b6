"""Comparing a claim with the tables of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.spectra.unresolved import as_infinite
from ntk_workflow.claims.papers import EXTREME, Claim, Join, columns

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
#: Columns that tell cases apart, in the order in which a case is named.
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
    keys = [key for key in KEYS if key in rows and rows[key].nunique(dropna=False) > 1]
    inner = ("seed", "block") if claim.statistic == "mean" else ("seed",)
    outer = [key for key in keys if key not in inner]
    measured = pd.DataFrame({"gap": gap, "target": target}).loc[rows.index]
    measured["kind"] = _numbered(rows, outer)
    measured["network"] = _numbered(rows, [*outer, "seed"])
    measured["seed"] = np.nan  # of one network
    if "seeds" in rows:  # means over so many
        measured["seed"] = rows["seeds"].where(rows["seeds"] == 1).astype(float)
    elif "seed" in rows and "networks" not in rows:  # not one that draws many networks
        measured["seed"] = rows["seed"].astype(float)

    cases = _cases(claim, measured)
    verdict, condition, meeting = _verdict(cases), None, None
    for slice_ in claim.conditions if verdict != HOLDS else ():
        meets = evaluate(claim, rows, slice_.where).astype(bool)
        if meets.any() and _verdict(inside := _cases(claim, measured[meets])) == HOLDS:
            condition, meeting = slice_.words, len(inside)
            exact = slice_.derived and not _cases(claim, measured[~meets])["good"].any()
            if exact or 2 * meeting >= len(cases):
                verdict = UNDER_A_CONDITION
            break
    candidates = cases[cases["against"]] if cases["against"].any() else cases
    worst = candidates.loc[_miss(claim, candidates["gap"]).idxmax()]
    case = []  # its values in the columns that tell the claim's cases apart
    for key in outer if claim.statistic == "mean" else keys:
        value = rows.at[worst.name, key]
        if isinstance(value, str):
            case += [value] if value else []
        elif not pd.isna(value):
            case.append(f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}")
    values = cases["gap"] + cases["target"]
    low, high = worst["low"], worst["high"]
    known = np.isfinite([low, high]).any() or low == high
    return Finding(
        verdict,
        measured=worst["gap"] + worst["target"],
        expected=worst["target"],
        worst=", ".join(case) or "the only case",
        interval_low=low + worst["target"] if known else None,
        interval_high=high + worst["target"] if known else None,
        median=values.median(),
        low=values.min(),
        high=values.max(),
        networks=_numbered(rows, NETWORK)[measured["seed"].notna()].nunique(),
        cases=len(cases),
        holding=int(cases["good"].sum()),
        undecided=undecided,
        condition=condition,
        condition_cases=meeting,
        procedure=" ".join(rows["procedure"].unique()) if "procedure" in rows else None,
    )


def _numbered(rows: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """Return a number for each row, the same where those of the keys that it has are equal."""
    present = [key for key in keys if key in rows]
    if not present:
        return pd.Series(0, rows.index)
    return rows.groupby(present, dropna=False, observed=True, sort=False).ngroup()


def _cases(claim: Claim, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the cases: a row each or, if the claim is about means, networks of a kind each.

    ``gap`` is the value less the ``target``, for other networks of the same kind from ``low`` to
    ``high``, which are infinite if there is one network. ``seed`` is that of a case that other
    networks may contradict. ``good`` is what the claim says, ``against`` what contradicts it: of
    means, the whole interval; ``sure`` is what no other network may contradict.
    """
    networks = measured.dropna(subset="seed").groupby("kind")["network"].nunique()
    if claim.statistic == "mean":
        cases, numbers = measured.drop_duplicates("kind").assign(seed=np.nan), []
        of_networks = measured.groupby(["kind", "network"], sort=False)["gap"].mean()  # of blocks
        of_kinds = {kind: group.to_numpy() for kind, group in of_networks.groupby("kind")}
        for kind in cases["kind"]:
            means, ends = of_kinds[kind], (-np.inf, np.inf)
            if networks.get(kind) != 1:
                draws = np.random.default_rng(0).integers(len(means), size=(BOOTSTRAP, len(means)))
                again = means[draws].mean(axis=1)
                ends = np.quantile(again, QUANTILES, method="inverted_cdf")
            numbers.append((means.mean(), *ends))
        cases[["gap", "low", "high"]] = numbers
        low, high = cases["low"], cases["high"]
        zero = pd.Series(np.clip(0.0, low, high), cases.index)
        nearest = {"<": low, ">": high}.get(claim.comparison[0], zero)
    else:
        count = measured["kind"].map(networks).fillna(0)
        gaps = measured.groupby("kind")["gap"]
        low, high = gaps.transform("min"), gaps.transform("max")
        beyond = ((high - low) / (count - 1).clip(lower=1)).fillna(0)
        fixed = (count == 0) | (claim.statistic == "bound")
        low = (low - beyond).mask(count == 1, -np.inf).mask(fixed, measured["gap"])
        high = (high + beyond).mask(count == 1, np.inf).mask(fixed, measured["gap"])
        cases = measured.assign(low=low, high=high, seed=measured["seed"].mask(fixed))
        nearest = cases["gap"]
    sure = _good(claim, low) & _good(claim, high)
    return cases.assign(good=_good(claim, cases["gap"]), against=~_good(claim, nearest), sure=sure)


def _miss(claim: Claim, gaps: pd.Series) -> pd.Series:
    """Return how far gaps lie on the wrong side; the largest is worst for a claim."""
    return gaps.abs() if claim.comparison == "==" else gaps if "<" in claim.comparison else -gaps


def _good(claim: Claim, gaps: pd.Series) -> pd.Series:
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
        place = f"{claim.paper}: claim {claim.name}: join {join.prefix!r}"
        raise UserError(f"{place}: {one_line(error)}") from None


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
    except Exception as error:  # whatever pandas raises, of an expression of the user's own
        place = f"{claim.paper}: claim {claim.name}: {expression!r}"
        raise UserError(f"{place}: {one_line(error)}") from None
