"""Comparing a claim with the tables of a run."""

from collections.abc import Callable, Mapping, Sequence
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
from ntk_workflow.claims.papers import CLAIM_EXPERIMENTS, EXTREME, Claim, ClaimError, Join, columns

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
    rows = rows[decided]
    measured = _measured(rows, gap[decided], target[decided])
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
    values = (cases["gap"] + cases["target"]).to_numpy()
    low, high = worst["low"], worst["high"]
    known = np.isfinite(low) or np.isfinite(high) or low == high
    random = measured["drawn"].notna()
    networks = _numbered(measured, NETWORK)[random]
    return Finding(
        verdict,
        measured=float(worst["gap"] + worst["target"]),
        expected=float(worst["target"]),
        worst=_case_name(claim, rows, int(worst["row"]), measured),
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


def _measured(rows: pd.DataFrame, gap: Array, target: Array) -> pd.DataFrame:
    """Return what the rows of a claim say: a frame with their gaps and targets.

    ``drawn`` is the seed of a row of one network, and missing for others. The other columns are
    the keys whose values differ, as numbers that tell the values apart.
    """
    measured = pd.DataFrame({"gap": gap, "target": target, "drawn": np.nan})
    if "seeds" in rows:  # means over so many
        measured["drawn"] = rows["seeds"].where(rows["seeds"] == 1).to_numpy(np.float64)
    elif "seed" in rows and "networks" not in rows:  # not one that draws many networks
        measured["drawn"] = rows["seed"].to_numpy(np.float64, na_value=np.nan)
    for key in KEYS:
        if key in rows:
            numbers, _ = pd.factorize(rows[key], use_na_sentinel=False)
            if numbers.any():
                measured[key] = numbers
    return measured


def _numbered(measured: pd.DataFrame, keys: Sequence[str]) -> NDArray[np.intp]:
    """Return numbers (n,) from 0 on, the same for rows with the same values of the keys."""
    varying = [key for key in keys if key in measured]
    if not varying:
        return np.zeros(len(measured), np.intp)
    numbers: NDArray[np.intp] = measured.groupby(varying).ngroup().to_numpy(np.intp)
    return numbers


def _inner(claim: Claim) -> tuple[str, ...]:
    """Return the keys whose values are of one kind: networks, of means also their blocks."""
    return ("seed", "block") if claim.statistic == "mean" else ("seed",)


def _cases(claim: Claim, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the cases: a row each or, if the claim is about means, networks of a kind each.

    ``row`` is the number of a row that says what the case is. ``gap`` is the value less the
    ``target``, for other networks of the same kind from ``low`` to ``high``, which are infinite if
    there is one network. ``network`` is the seed of a case that other networks may contradict.
    """
    gap, drawn = measured["gap"].to_numpy(), measured["drawn"].to_numpy()
    keys = [key for key in KEYS if key not in _inner(claim)]
    kind, network = _numbered(measured, keys), _numbered(measured, [*keys, "seed"])
    _, first_of_network = np.unique(network, return_index=True)
    kind_of_network = kind[first_of_network]
    # of each kind; 0 if it is not random
    networks = np.bincount(kind_of_network, ~np.isnan(drawn[first_of_network]))
    cases = pd.DataFrame({"row": np.arange(len(gap)), "target": measured["target"].to_numpy()})
    if claim.statistic == "mean":
        _, first = np.unique(kind, return_index=True)
        # of each network, its blocks' mean; then of the networks of a kind
        means = np.bincount(network, gap) / np.bincount(network)
        groups = [means[kind_of_network == number] for number in range(len(first))]
        low, high = np.transpose([_interval(group) for group in groups])
        return cases.iloc[first].assign(
            gap=[group.mean() for group in groups],
            low=np.where(networks == 1, -np.inf, low),
            high=np.where(networks == 1, np.inf, high),
            network=np.nan,
        )
    of_kind = pd.Series(gap).groupby(kind)
    low, high = of_kind.transform("min").to_numpy(), of_kind.transform("max").to_numpy()
    others = networks[kind] - 1
    with np.errstate(invalid="ignore"):
        beyond = np.nan_to_num((high - low) / np.maximum(others, 1))
    fixed = (others < 0) | (claim.statistic == "bound")
    return cases.assign(
        gap=gap,
        low=np.select([fixed, others == 0], [gap, -np.inf], low - beyond),
        high=np.select([fixed, others == 0], [gap, np.inf], high + beyond),
        network=np.where(fixed, np.nan, drawn),
    )


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
        if name == CLAIM_EXPERIMENTS:  # two papers may have the same equation number
            table = table[table["paper"] == claim.paper]
        unresolved = table.columns.intersection(list(claim.unresolved))
        filled[name] = table.assign(**{key: as_infinite(table[key]) for key in unresolved})
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

    It is evaluated by `pandas.DataFrame.eval`, which is given ``.max('model')``, too: the largest
    value in the rows with the same model.

    Raises:
        ClaimError: if it does not fit the rows, in one line.
    """

    def extreme(column: pd.Series, method: str, *keys: str) -> pd.Series:
        groups = column.groupby([rows[key] for key in keys], dropna=False, observed=True)
        return groups.transform(method)

    text = EXTREME.sub(r"@extreme(\1, '\2', \3)", expression.strip())
    named = rows[[name for name in columns(expression) if name in rows]]
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(named.eval(text, engine="python", local_dict={"extreme": extreme}))
        if values.dtype != bool:
            numbers = pd.to_numeric(pd.Series(values.ravel()))
            values = numbers.to_numpy(np.float64, na_value=np.nan)
    except Exception as error:  # whatever pandas raises, of an expression of the user's own
        short = expression if len(expression) <= 60 else f"{expression[:57]}..."
        raise ClaimError(
            f"{claim.paper}: claim {claim.name}: {short!r}: {one_line(error)}"
        ) from None
    return np.broadcast_to(values, (len(rows),)).copy()


def _case_name(claim: Claim, rows: pd.DataFrame, number: int, measured: pd.DataFrame) -> str:
    """Return a case in words: its values in the columns that tell the claim's cases apart."""
    mean = claim.statistic == "mean"
    names = []
    for key in KEYS:
        if key not in measured or (mean and key in _inner(claim)):
            continue
        value = rows[key].iloc[number]
        if pd.isna(value) or value == "":
            continue
        text = f"{value:g}" if isinstance(value, float) else str(value)
        names.append(text if isinstance(value, str) else f"{key} {text}")
    return ", ".join(names) or "the only case"
