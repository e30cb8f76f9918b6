"""What differs between two recorded runs, part by part and table by table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ntk_workflow.comparison import differences
from ntk_workflow.comparison.differences import Change, TableDifference
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
    jobs = [run.record("jobs.json") for run in (a, b)]
    by_rule = None not in jobs  # else only the whole workflow's code can be compared
    left, right = _parts(a, jobs[0] if by_rule else None), _parts(b, jobs[1] if by_rule else None)
    changes: dict[str, list[Change]] = {}
    unrecorded: dict[str, list[str]] = {}
    for part in left:
        sides = {"A": left[part], "B": right[part]}
        if missing := [name for name, recorded in sides.items() if recorded is None]:
            unrecorded[part] = missing
        else:
            changes[part] = differences.compare_settings(left[part] or {}, right[part] or {})
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


def _parts(run: RecordedRun, made: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any] | None]:
    """Return a run's config, code, versions and data, each None where it is not recorded.

    Of the code these are the digests of the whole workflow and of each rule in ``made``, the record
    of the jobs; of the data the checksum of every dataset, and of every seed's draw.
    """
    versions = run.record("versions.json")
    project = (versions or {}).get(PROJECT) or {}
    jobs = made.get("jobs") if made is not None else []
    if not isinstance(jobs, list):
        raise RunError(f"{run.path}: record/jobs.json has no list of jobs")
    rules: dict[str, set[str]] = {}
    for job in jobs:
        if job.get("code"):
            rules.setdefault(f"rule {job.get('rule')}", set()).add(str(job["code"]))
    parts: dict[str, Mapping[str, Any] | None] = {"config": run.record("config.yaml")}
    parts |= dict.fromkeys(("code", "versions", "data"))
    if versions is not None or made is not None:
        code = {rule: ", ".join(sorted(digests)) for rule, digests in rules.items()}
        parts["code"] = code | ({"workflow": project["code"]} if project.get("code") else {})
    if versions is not None:
        rest = {key: value for key, value in project.items() if key != "code"}
        parts["versions"] = {**versions, PROJECT: rest}
    if "datasets" in run.tables:
        data: dict[str, Any] = {}
        for row in run.table("datasets").select(["dataset", "seed", "sha256"]).to_pylist():
            seed = "" if row["seed"] is None else f", seed {row['seed']}"
            data[row["dataset"] + seed] = row["sha256"]
        parts["data"] = data
    return parts


def _compare_table(a: RecordedRun, b: RecordedRun, name: str, tolerance: float) -> TableDifference:
    left, right = a.table(name), b.table(name)
    keys = (left.schema.metadata or {}).get(b"keys")
    if not keys:
        advice = "make it again with this version"
        raise RunError(f"{a.path}: table {name} does not name its keys; {advice}")
    names = keys.decode().split(",")
    try:
        return differences.compare_tables(left, right, keys=names, tolerance=tolerance)
    except differences.ComparisonError as error:
        raise RunError(f"table {name}: {error}") from error
