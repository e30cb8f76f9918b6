"""What differs between two recorded runs, part by part and table by table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
        changes = self.config or self.code or self.versions or self.data
        one_sided = self.tables_a or self.tables_b
        one_record = any(len(runs) == 1 for runs in self.unrecorded.values())
        same = all(difference.equal for difference in self.tables.values())
        return same and not (changes or one_sided or one_record)


def compare(a: RecordedRun, b: RecordedRun, *, tolerance: float) -> Comparison:
    """Return what differs between two runs."""
    by_rule = a.jobs() is not None and b.jobs() is not None
    left, right = (_parts(run, by_rule=by_rule) for run in (a, b))
    changes: dict[str, list[Change]] = {}
    unrecorded: dict[str, list[str]] = {}
    for part in left:
        sides = {"A": left[part], "B": right[part]}
        if missing := [name for name, recorded in sides.items() if recorded is None]:
            unrecorded[part] = missing
        else:
            changes[part] = compare_settings(left[part] or {}, right[part] or {})
    return Comparison(
        a=str(a.path),
        b=str(b.path),
        tolerance=tolerance,
        **changes,
        unrecorded=unrecorded,
        tables_a=[name for name in a.tables if name not in b.tables],
        tables_b=[name for name in b.tables if name not in a.tables],
        tables={n: _compare_table(a, b, n, tolerance) for n in a.tables if n in b.tables},
    )


def _parts(run: RecordedRun, *, by_rule: bool) -> dict[str, Mapping[str, Any] | None]:
    """Return a run's config, code, versions and data, each None where it is not recorded.

    Of the code these are the digests of the whole workflow and, if asked for, of each rule; of the
    data the checksum of every dataset, and of every seed's draw.
    """
    versions = run.record("versions.json")
    project = (versions or {}).get(PROJECT) or {}
    code: dict[str, Any] | None = None if versions is None and not by_rule else {}
    if code is not None:
        rules: dict[str, set[str]] = {}
        for job in (run.jobs() or ()) if by_rule else ():
            if job.get("code"):
                rules.setdefault(f"rule {job.get('rule')}", set()).add(str(job["code"]))
        code = {rule: ", ".join(sorted(digests)) for rule, digests in rules.items()}
        code |= {"workflow": project["code"]} if project.get("code") else {}
    data = None
    if "datasets" in run.tables:
        data = {
            row["dataset"] + ("" if row["seed"] is None else f", seed {row['seed']}"): row["sha256"]
            for row in run.table("datasets").select(["dataset", "seed", "sha256"]).to_pylist()
        }
    if versions is not None:  # the digest in it is one of code
        rest = {key: value for key, value in project.items() if key != "code"}
        versions = {**versions, PROJECT: rest}
    return {"config": run.record("config.yaml"), "code": code, "versions": versions, "data": data}


def _compare_table(a: RecordedRun, b: RecordedRun, name: str, tolerance: float) -> TableDifference:
    left, right = a.table(name), b.table(name)
    keys = (left.schema.metadata or {}).get(b"keys")
    if not keys:
        advice = "make it again with this version"
        raise RunError(f"{a.path}: table {name} does not name its keys; {advice}")
    try:
        return compare_tables(left, right, keys=keys.decode().split(","), tolerance=tolerance)
    except ComparisonError as error:
        raise RunError(f"table {name}: {error}") from error
