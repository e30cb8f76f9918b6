"""What differs between two runs: config, code, versions, data, and every number of the tables.

Rows of two tables are matched by their keys. The relative change of two numbers is
|a - b| / max(|a|, |b|), whichever run comes first. That of two lists is the largest difference over
the largest number of both, since the small numbers of a spectrum are rounding noise.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ntk_conditioning.errors import UserError, one_line
from ntk_workflow.yaml_files import read_yaml

ABSENT = "(absent)"  #: stands for the value of a setting that a run does not have
PROJECT = "ntk-conditioning"
MOST_BYTES = 50_000_000  #: so many a table may have in memory, or MOST_RATIO for each in its file
MOST_RATIO = 1000
PARTS = ("config", "code", "versions", "data")


def read_table(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return a table that is not trusted, and its keys; `UserError` if it cannot be read."""
    try:
        facts = pq.read_metadata(path)
        if 8 * facts.num_rows * facts.num_columns > MOST_BYTES + MOST_RATIO * path.stat().st_size:
            raise UserError(f"table {path.stem}: {facts.num_rows} rows in so small a file: a bomb?")
        frame = pq.read_table(path, partitioning=None).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"table {path.stem} is damaged: {one_line(error)}") from None
    keys = (facts.metadata or {}).get(b"keys", b"").decode().split(",")
    if not {*keys} <= {*frame.columns} or frame.duplicated(keys).any():
        raise UserError(f"table {path.stem} does not name its keys, or repeats one; make it again")
    return frame, keys


def compare_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings that differ, in the order of their names; lists are compared whole.

    >>> compare_settings({"training": {"fig3": {"epochs": 5}}}, {"training": {}})
    [{'name': 'training.fig3.epochs', 'a': 5, 'b': '(absent)'}]
    """
    left, right = (pd.json_normalize(dict(it), sep=".").to_dict("records")[0] for it in (a, b))
    pairs = ((n, left.get(n, ABSENT), right.get(n, ABSENT)) for n in sorted({*left, *right}))
    # not by ==, to which 1, 1.0 and true are the same
    return [{"name": n, "a": x, "b": y} for n, x, y in pairs if repr(x) != repr(y)]


def compare_tables(
    first: Path, second: Path, *, tolerance: float = 0.0, without: str = "^$"
) -> dict[str, Any]:
    """Return how two tables differ: rows and columns of only one, and columns whose values differ.

    Numbers are equal whose relative change is at most ``tolerance``. A column that differs has
    ``rows``, their number, and ``examples``: of numbers the largest change, of texts all rows.
    Columns are left out whose names ``without`` describes.
    """
    (a, keys), (b, _) = read_table(first), read_table(second)
    left_out = [name for name in a if re.search(without, name) and name not in keys]
    a, b = (frame.drop(columns=left_out, errors="ignore") for frame in (a, b))
    if a.empty or b.empty:  # pandas cannot merge columns of texts without a row
        a, b = a.astype(object), b.astype(object)
    try:
        rows = a.merge(b, "outer", keys, suffixes=(" A", " B"), indicator=True)
    except (KeyError, ValueError) as error:
        raise UserError(f"two versions of a table: {one_line(error)}") from None
    both = rows[rows["_merge"] == "both"]
    columns = []
    for name in [name for name in a.columns if name in b.columns and name not in keys]:
        pairs = both[[*keys, f"{name} A", f"{name} B"]].set_axis([*keys, "a", "b"], axis=1)
        if pairs["a"].equals(pairs["b"]):
            continue
        change = np.array([_change(x, y) for x, y in zip(pairs["a"], pairs["b"], strict=True)])
        differs = np.flatnonzero(change > tolerance)
        if not len(differs):
            continue
        column: dict[str, Any] = {"name": name, "rows": len(differs), "largest": None}
        if a[name].dtype.kind in "iuf" or np.isfinite(change[differs]).any():
            column["largest"], differs = float(change.max()), differs[[change[differs].argmax()]]
        columns.append({**column, "examples": pairs.iloc[differs].to_dict("records")})
    difference = {
        "only_a": rows.loc[rows["_merge"] == "left_only", keys].to_dict("records"),
        "only_b": rows.loc[rows["_merge"] == "right_only", keys].to_dict("records"),
        "columns_a": [*a.columns.difference(b.columns)],
        "columns_b": [*b.columns.difference(a.columns)],
        "columns": columns,
    }
    equal = not any(difference.values())
    return {"equal": equal, "keys": keys, "common": len(both), **difference}


def _change(a: Any, b: Any) -> float:
    """Return the relative change of two numbers, or lists; infinite for what is no number."""
    if np.shape(a) != np.shape(b):
        return np.inf
    x, y = np.asarray(a), np.asarray(b)
    if x.dtype.kind not in "iuf" or y.dtype.kind not in "iuf":
        return 0.0 if a == b or (pd.isna(a) and pd.isna(b)) else np.inf
    if np.array_equal(x, y, equal_nan=True):
        return 0.0
    with np.errstate(invalid="ignore"):
        change = float(np.abs(x - y).max() / np.abs([x, y]).max())
    return np.inf if np.isnan(change) else change


def compare(a: Path, b: Path, *, tolerance: float) -> dict[str, Any]:
    """Return what differs between the results of two runs, two folders like results/demo."""
    left, right = ({path.stem: path for path in run.glob("tables/*.parquet")} for run in (a, b))
    for run, tables in ((a, left), (b, right)):
        if not tables:
            raise UserError(f"{run} has no tables/*.parquet; give a folder like results/demo")
    parts = zip(PARTS, _parts(a, left), _parts(b, right), strict=True)
    found: dict[str, Any] = {part: compare_settings(x, y) for part, x, y in parts}
    found["tables_a"] = sorted(left.keys() - right.keys())
    found["tables_b"] = sorted(right.keys() - left.keys())
    found["tables"] = {
        name: compare_tables(left[name], right[name], tolerance=tolerance)
        for name in sorted(left.keys() & right.keys())
    }
    same = all(difference["equal"] for difference in found["tables"].values())
    found["equal"] = same and not any(found[p] for p in (*PARTS, "tables_a", "tables_b"))
    return {**found, "tolerance": tolerance}


def _parts(run: Path, tables: Mapping[str, Path]) -> tuple[Mapping[str, Any], ...]:
    """Return a run's config, code, versions, and checksums of data."""
    missing: dict[str, Any] = {"not recorded": str(run)}
    config, versions = (
        read_yaml(path, trusted=False) if path.is_file() else missing
        for path in (run / "record/config.yaml", run / "record/versions.json")
    )
    project = dict(versions.get(PROJECT, {}))
    code, data = {"workflow": project.pop("code", ABSENT)}, {}
    if "datasets" in tables:
        frame, _ = read_table(tables["datasets"])
        seeds = ["" if pd.isna(seed) else f", seed {seed:.0f}" for seed in frame["seed"]]
        data = dict(zip(frame["dataset"] + seeds, frame["sha256"], strict=True))
    return config, code, versions | {PROJECT: project}, data
