"""What differs between two recorded runs, part by part and table by table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ntk_workflow.comparison.differences import (
    Change,
    ComparisonError,
    TableDifference,
    compare_settings,
    compare_tables,
)
from ntk_workflow.provenance.recorded_run import RecordedRun, RunError

PROJECT = "ntk-conditioning"


@dataclass(frozen=True)
class Comparison:
    """Everything that was compared; ``unrecorded`` says by part which run has no record of it."""

    a: str
    b: str
    tolerance: float
    config: list[Change] = field(default_factory=list)
    code: list[Change] = field(default_factory=list)
    versions: list[Change] = field(default_factory=list)
    data: list[Change] = field(default_factory=list)
    unrecorded: dict[str, list[str]] = field(default_factory=dict)
    tables_a: list[str] = field(default_factory=list)
    tables_b: list[str] = field(default_factory=list)
    tables: dict[str, TableDifference] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether nothing differs; what neither run has recorded is no difference."""
        settings = self.config or self.code or self.versions or self.data
        tables = self.tables_a or self.tables_b
        one_record = any(len(runs) == 1 for runs in self.unrecorded.values())
        same = all(difference.equal for difference in self.tables.values())
        return same and not (settings or tables or one_record)


def compare(a: RecordedRun, b: RecordedRun, *, tolerance: float) -> Comparison:
    """Return what differs between two runs."""
    by_rule = a.jobs() is not None and b.jobs() is not None
    parts = {
        "config": (a.config(), b.config()),
        "code": (code(a, by_rule=by_rule), code(b, by_rule=by_rule)),
        "versions": (libraries(a), libraries(b)),
        "data": (samples(a), samples(b)),
    }
    changes: dict[str, list[Change]] = {}
    unrecorded: dict[str, list[str]] = {}
    for part, (left, right) in parts.items():
        if left is None or right is None:
            runs = {"A": left, "B": right}
            unrecorded[part] = [name for name, recorded in runs.items() if recorded is None]
        else:
            changes[part] = compare_settings(left, right)
    common = [name for name in a.tables if name in b.tables]
    return Comparison(
        a=str(a.path),
        b=str(b.path),
        tolerance=tolerance,
        **changes,
        unrecorded=unrecorded,
        tables_a=[name for name in a.tables if name not in b.tables],
        tables_b=[name for name in b.tables if name not in a.tables],
        tables={name: _compare_table(a, b, name, tolerance) for name in common},
    )


def code(run: RecordedRun, *, by_rule: bool) -> Mapping[str, Any] | None:
    """Return the digests of a run's code: of the whole workflow and, if asked for, of each rule.

    A rule's digests are known only where a run's jobs are recorded.
    """
    versions = run.versions()
    if versions is None and not by_rule:
        return None
    rules: dict[str, set[str]] = {}
    for job in (run.jobs() or ()) if by_rule else ():
        if job.get("code"):
            rules.setdefault(f"rule {job.get('rule')}", set()).add(str(job["code"]))
    whole = ((versions or {}).get(PROJECT) or {}).get("code")
    digests = {rule: ", ".join(sorted(each)) for rule, each in rules.items()}
    return digests | ({"workflow": whole} if whole else {})


def libraries(run: RecordedRun) -> Mapping[str, Any] | None:
    """Return the versions of a run, without the digest of its code."""
    versions = run.versions()
    if versions is None:
        return None
    project = versions.get(PROJECT) or {}
    return {**versions, PROJECT: {key: project[key] for key in project if key != "code"}}


def samples(run: RecordedRun) -> Mapping[str, Any] | None:
    """Return the checksum of every dataset, and of every seed's draw, of a run."""
    if "datasets" not in run.tables:
        return None
    rows = run.table("datasets").select(["dataset", "seed", "sha256"]).to_pylist()
    return {
        row["dataset"] + ("" if row["seed"] is None else f", seed {row['seed']}"): row["sha256"]
        for row in rows
    }


def _compare_table(a: RecordedRun, b: RecordedRun, name: str, tolerance: float) -> TableDifference:
    left, right = a.table(name), b.table(name)
    keys = keys_of(left, f"{a.path}: table {name}")
    try:
        return compare_tables(left, right, keys=keys, tolerance=tolerance)
    except ComparisonError as error:
        raise RunError(f"table {name}: {error}") from error


def keys_of(table: pa.Table, where: str) -> list[str]:
    """Return the keys of a table as its file names them."""
    keys = (table.schema.metadata or {}).get(b"keys")
    if not keys:
        raise RunError(f"{where} does not name its keys; make it again with this version")
    return str(keys, "utf-8").split(",")
