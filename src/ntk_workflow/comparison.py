"""What differs between two runs: config, code, versions, data, and every number of the tables.

Rows of two tables are matched by their keys. The relative change of two numbers is
|a - b| / max(|a|, |b|), whichever run comes first. That of two lists is the largest difference over
the largest number of both, since the small numbers of a spectrum are rounding noise.
"""

import json
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
SHOWN = 20  #: rows that are listed of those that differ in the same way; of verdicts all are
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
    name = f"record/{path.name}"
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"larger than {MOST_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            content = json.loads(text)
        elif any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, LOADER)):
            raise ValueError("it has aliases")
        else:
            content = yaml.load(text, LOADER)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise RunError(f"{name} cannot be read: {one_line(error)}") from None
    if not isinstance(content, dict):
        raise RunError(f"{name} holds no keys")
    return content


def table_facts(path: Path) -> dict[bytes, bytes]:
    """Return what a table that is not trusted says of itself; `RunError` if it is no table."""
    try:
        facts = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"table {path.stem} is damaged: {one_line(error)}") from None
    if 8 * facts.num_rows * facts.num_columns > MOST_BYTES + MOST_RATIO * path.stat().st_size:
        raise RunError(f"table {path.stem}: {facts.num_rows} rows in so small a file: a bomb?")
    return dict(facts.metadata or {})


def read_table(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return a table that is not trusted, and its keys; `RunError` if it cannot be read."""
    keys = table_facts(path).get(b"keys", b"").decode().split(",")
    try:
        frame = pq.read_table(path, partitioning=None).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"table {path.stem} is damaged: {one_line(error)}") from None
    if not {*keys} <= {*frame.columns}:
        raise RunError(f"table {path.stem} does not name its keys; make it again")
    if frame.duplicated(keys).any():
        raise RunError(f"table {path.stem}: rows repeat the key ({', '.join(keys)})")
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
    a: pd.DataFrame, b: pd.DataFrame, keys: Sequence[str], *, tolerance: float = 0.0
) -> dict[str, Any]:
    """Return how two tables differ: rows and columns of only one, and columns whose values differ.

    Numbers are equal whose relative change is at most ``tolerance``. A column that differs has
    ``rows``, their number, and ``examples``: of numbers the largest change, of texts all rows.
    """
    if a.empty or b.empty:  # pandas cannot merge columns of texts without a row
        a, b = a.astype(object), b.astype(object)
    sides = [
        frame.rename(columns={name: f"{name} {side}" for name in frame if name not in keys})
        for side, frame in (("A", a), ("B", b))
    ]
    try:
        rows = sides[0].merge(*sides[1:], on=list(keys), how="outer", indicator=True)
    except (KeyError, ValueError) as error:
        raise RunError(f"two versions of a table: {one_line(error)}") from None
    both = rows[rows["_merge"] == "both"]
    only_a, only_b = (rows[rows["_merge"] == side] for side in ("left_only", "right_only"))
    shared = [name for name in a.columns if name in b.columns and name not in keys]
    columns = []
    for name in shared:
        change = _changes(both[f"{name} A"], both[f"{name} B"])
        differs = np.flatnonzero(change > tolerance)
        if not len(differs):
            continue
        numeric = a[name].dtype.kind in "iuf" or np.isfinite(change[differs]).any()
        chosen = [int(change.argmax())] if numeric else differs.tolist()
        examples = [
            {
                "where": _where(both.iloc[row], keys),
                "a": _plain(both[f"{name} A"].iloc[row]),
                "b": _plain(both[f"{name} B"].iloc[row]),
            }
            for row in chosen
        ]
        largest = float(change.max()) if numeric else None
        columns.append(
            {"name": name, "rows": len(differs), "largest": largest, "examples": examples}
        )
    return {
        "common": len(both),
        "only_a": [_where(row, keys) for _, row in only_a.iterrows()],
        "only_b": [_where(row, keys) for _, row in only_b.iterrows()],
        "columns_a": [name for name in a.columns if name not in b.columns],
        "columns_b": [name for name in b.columns if name not in a.columns],
        "columns": columns,
    }


def equal(difference: Mapping[str, Any]) -> bool:
    """Return whether `compare_tables` has found no difference."""
    return not any(value for key, value in difference.items() if key != "common")


def _changes(x: pd.Series, y: pd.Series) -> NDArray[np.float64]:
    """Return the relative change of each pair of values, infinite for what is no number."""
    if x.dtype.kind in "iuf" and y.dtype.kind in "iuf":
        return _relative(x.to_numpy(np.float64), y.to_numpy(np.float64))
    return np.array([_change(a, b) for a, b in zip(x, y, strict=True)], dtype=np.float64)


def _change(a: Any, b: Any) -> float:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if np.shape(a) != np.shape(b):
            return np.inf
        numbers = np.abs(np.concatenate([a, b]))
        largest = numbers[np.isfinite(numbers)].max(initial=0.0)
        return float(_relative(a, b, scale=largest).max(initial=0.0))
    return 0.0 if a == b or (pd.isna(a) and pd.isna(b)) else np.inf


def _relative(
    x: NDArray[np.float64], y: NDArray[np.float64], scale: float | None = None
) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        sizes = np.maximum(np.abs(x), np.abs(y)) if scale is None else scale
        change = np.abs(x / sizes - y / sizes)  # in this order x - y cannot overflow
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(same, 0.0, np.where(np.isfinite(change), change, np.inf))


def _where(row: pd.Series, keys: Sequence[str]) -> str:
    """Return a row's key in words: texts speak for themselves, numbers have their name."""
    values = ((name, _plain(row[name])) for name in keys)
    return ", ".join(v if isinstance(v, str) else f"{n} {v}" for n, v in values if v is not None)


def _plain(value: Any) -> Any:
    """Return a value of a table as one of Python's, for a message and for JSON."""
    if isinstance(value, np.ndarray):
        return f"list of {len(value)}"
    if pd.isna(value):
        return None
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return int(value)  # a whole number that pandas holds as a float, as others are missing
    return str(value) if isinstance(value, float) and np.isinf(value) else value


def compare(a: Path, b: Path, *, tolerance: float) -> dict[str, Any]:
    """Return what differs between the results of two runs, two folders like results/demo."""
    files = [{p.stem: p for p in sorted(run.glob("tables/*.parquet"))} for run in (a, b)]
    for run, tables in zip((a, b), files, strict=True):
        if not tables:
            raise RunError(f"{run} has no tables/*.parquet; give a folder like results/demo")
    left, right = (_parts(run, tables) for run, tables in zip((a, b), files, strict=True))
    found: dict[str, Any] = {"tolerance": tolerance, "unrecorded": {}, "tables": {}}
    for part in PARTS:
        missing = [run for run, parts in (("A", left), ("B", right)) if part not in parts]
        found[part] = [] if missing else compare_settings(left[part], right[part])
        if missing:
            found["unrecorded"][part] = missing
    for name in sorted(files[0].keys() & files[1].keys()):
        (x, keys), (y, _) = (read_table(tables[name]) for tables in files)
        found["tables"][name] = compare_tables(x, y, keys, tolerance=tolerance)
    found["tables_a"] = sorted(files[0].keys() - files[1].keys())
    found["tables_b"] = sorted(files[1].keys() - files[0].keys())
    found["equal"] = not (
        any(found[part] for part in (*PARTS, "tables_a", "tables_b"))
        or any(len(runs) == 1 for runs in found["unrecorded"].values())
        or not all(equal(difference) for difference in found["tables"].values())
    )
    return found


def _parts(run: Path, tables: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Return a run's config, code, versions, and checksums of data, if they are recorded."""
    parts: dict[str, dict[str, Any]] = {}
    config, versions = (
        read_record(path) if (path := run / "record" / name).is_file() else None
        for name in ("config.yaml", "versions.json")
    )
    if config is not None:
        parts["config"] = config
    if versions is not None:
        project = dict(versions.get(PROJECT, {}))
        parts["code"] = {"workflow": project.pop("code", None)}
        parts["versions"] = {**versions, PROJECT: project}
    if "datasets" in tables:
        frame, _ = read_table(tables["datasets"])
        seeds = ["" if pd.isna(seed) else f", seed {seed:g}" for seed in frame["seed"]]
        parts["data"] = dict(zip(frame["dataset"] + seeds, frame["sha256"], strict=True))
    return parts
