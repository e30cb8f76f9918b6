"""What differs between two runs: config, code, versions, data, and every number of the tables.

Rows of two tables are matched by their keys. The relative change of two numbers is
|a - b| / max(|a|, |b|), whichever run comes first. That of two lists is the largest difference over
the largest number of both, since the small numbers of a spectrum are rounding noise.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError, one_line

ABSENT = "(absent)"  #: stands for the value of a setting that a run does not have
PROJECT = "ntk-conditioning"
MOST_BYTES = 50_000_000  #: of a record; a table may have so many in memory, or MOST_RATIO packed
MOST_RATIO = 1000
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PARTS = ("config", "code", "versions", "data")


class RunError(UserError):
    """A folder is no run, or a file in it cannot be read."""


def read_record(path: Path) -> dict[str, Any]:
    """Return the content of a recorded YAML or JSON file, which is not trusted.

    Raises `RunError`: if it is large, has aliases, which stand for much more, or has no keys.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"larger than {MOST_BYTES} bytes")
        text = path.read_text(encoding="utf-8")  # YAML, of which JSON is a part
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, LOADER)):
            raise ValueError("it has aliases")
        if not isinstance(content := yaml.load(text, LOADER), dict):
            raise ValueError("it holds no keys")
        return content
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise RunError(f"record/{path.name} cannot be read: {one_line(error)}") from None


def table_facts(path: Path) -> pq.FileMetaData:
    """Return what a table that is not trusted says of itself; `RunError` if it is no table."""
    try:
        facts = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"table {path.stem} is damaged: {one_line(error)}") from None
    if 8 * facts.num_rows * facts.num_columns > MOST_BYTES + MOST_RATIO * path.stat().st_size:
        raise RunError(f"table {path.stem}: {facts.num_rows} rows in so small a file: a bomb?")
    return facts


def read_table(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return a table that is not trusted, and its keys; `RunError` if it cannot be read."""
    keys = (table_facts(path).metadata or {}).get(b"keys", b"").decode().split(",")
    try:
        frame = pq.read_table(path, partitioning=None).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"table {path.stem} is damaged: {one_line(error)}") from None
    if not {*keys} <= {*frame.columns} or frame.duplicated(keys).any():
        raise RunError(f"table {path.stem} does not name its keys, or repeats one; make it again")
    return frame, keys


def compare_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings that differ, in the order of their names; lists are compared whole.

    >>> compare_settings({"training": {"fig3": {"epochs": 5}}}, {"training": {}})
    [{'name': 'training.fig3.epochs', 'a': 5, 'b': '(absent)'}]
    """
    left, right = _flat(a), _flat(b)
    pairs = ((n, left.get(n, ABSENT), right.get(n, ABSENT)) for n in sorted({*left, *right}))
    # not by ==, to which 1, 1.0 and true are the same
    return [{"name": n, "a": x, "b": y} for n, x, y in pairs if repr(x) != repr(y)]


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


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
        raise RunError(f"two versions of a table: {one_line(error)}") from None
    both = rows[rows["_merge"] == "both"]
    columns = []
    for name in [name for name in a.columns if name in b.columns and name not in keys]:
        pairs = both[[*keys, f"{name} A", f"{name} B"]].set_axis([*keys, "a", "b"], axis=1)
        change = _changes(pairs["a"], pairs["b"])
        differs = np.flatnonzero(change > tolerance)
        if not len(differs):
            continue
        column: dict[str, Any] = {"name": name, "rows": len(differs), "largest": None}
        if a[name].dtype.kind in "iuf" or np.isfinite(change[differs]).any():
            column["largest"], differs = float(change.max()), differs[[change[differs].argmax()]]
        columns.append({**column, "examples": pairs.iloc[differs].to_dict("records")})
    only = {side: rows.loc[rows["_merge"] == side, keys] for side in ("left_only", "right_only")}
    difference = {
        "only_a": only["left_only"].to_dict("records"),
        "only_b": only["right_only"].to_dict("records"),
        "columns_a": [*a.columns.difference(b.columns)],
        "columns_b": [*b.columns.difference(a.columns)],
        "columns": columns,
    }
    equal = not any(difference.values())
    return {"equal": equal, "keys": keys, "common": len(both), **difference}


def _changes(x: pd.Series, y: pd.Series) -> NDArray[np.float64]:
    """Return the relative change of each pair of values, infinite for what is no number."""
    if x.dtype.kind in "iuf" and y.dtype.kind in "iuf":
        change = (x - y).abs() / np.maximum(x.abs(), y.abs())
        change = change.mask((x == y) | (x.isna() & y.isna()), 0.0).fillna(np.inf)
    else:
        change = [_change(a, b) for a, b in zip(x, y, strict=True)]
    return np.array(change, dtype=np.float64)


def _change(a: Any, b: Any) -> float:
    if np.shape(a) != np.shape(b):
        return np.inf
    if not isinstance(a, np.ndarray):
        return 0.0 if a == b or (pd.isna(a) and pd.isna(b)) else np.inf
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    change = np.abs(a - b).max() / np.abs([a, b]).max()
    return np.inf if np.isnan(change) else float(change)


def where(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return a row's key in words: texts speak for themselves, numbers have their name.

    >>> where({"dataset": "digits", "depth": 3.0, "seed": None}, ["dataset", "depth", "seed"])
    'digits, depth 3'
    """
    values = [(key, row[key]) for key in keys if not pd.isna(row[key])]
    return ", ".join(
        value if isinstance(value, str) else f"{key} {value:g}" for key, value in values
    )


def compare(a: Path, b: Path, *, tolerance: float) -> dict[str, Any]:
    """Return what differs between the results of two runs, two folders like results/demo."""
    files = [{path.stem: path for path in run.glob("tables/*.parquet")} for run in (a, b)]
    for run, tables in zip((a, b), files, strict=True):
        if not tables:
            raise RunError(f"{run} has no tables/*.parquet; give a folder like results/demo")
    left, right = (_parts(run, tables) for run, tables in zip((a, b), files, strict=True))
    found: dict[str, Any] = {part: compare_settings(left[part], right[part]) for part in PARTS}
    found["tables_a"] = sorted(files[0].keys() - files[1].keys())
    found["tables_b"] = sorted(files[1].keys() - files[0].keys())
    found["tables"] = {
        name: compare_tables(files[0][name], files[1][name], tolerance=tolerance)
        for name in sorted(files[0].keys() & files[1].keys())
    }
    same = all(difference["equal"] for difference in found["tables"].values())
    found["equal"] = same and not any(found[p] for p in (*PARTS, "tables_a", "tables_b"))
    return {**found, "tolerance": tolerance}


def _parts(run: Path, tables: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Return a run's config, code, versions, and checksums of data."""
    missing: dict[str, Any] = {"not recorded": str(run)}
    config, versions = (
        read_record(path) if path.is_file() else missing
        for path in (run / "record/config.yaml", run / "record/versions.json")
    )
    project = dict(versions.get(PROJECT, {}))
    code, data = {"workflow": project.pop("code", ABSENT)}, {}
    if "datasets" in tables:
        frame, _ = read_table(tables["datasets"])
        seeds = ["" if pd.isna(seed) else f", seed {seed:g}" for seed in frame["seed"]]
        data = dict(zip(frame["dataset"] + seeds, frame["sha256"], strict=True))
    return {"config": config, "code": code, "versions": versions | {PROJECT: project}, "data": data}
