"""Who made what: the jobs behind a set of files, and the sha256 of all that they read and wrote.

What is not known is left out. No user, machine or folder outside the checkout is named.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ntk_conditioning.files import require_file, sha256
from ntk_workflow.provenance.digests import path_digest

#: What lines of a job's log state.
_STATED = {
    "device": r"(?m)^\d\d:\d\d:\d\d device (cpu|cuda)\b",
    "dtype": r"(?m)^\d\d:\d\d:\d\d device (?:cpu|cuda)\b.*?, (b?float(?:16|32|64))(?:,|$)",
    "host": r"(?m)^\d\d:\d\d:\d\d host (.+)$",
}


@dataclass(frozen=True)
class Record:
    """What Snakemake noted about the job that wrote a file; times are seconds since 1970."""

    rule: str
    inputs: tuple[str, ...]
    log: tuple[str, ...]
    code: str | None = None
    start: float | None = None
    end: float | None = None


def provenance(
    outputs: Sequence[str], record: Callable[[str], Record | None], *, root: str = ""
) -> dict[str, Any]:
    """Return the jobs behind ``outputs``, followed back to where no record is known.

    The result has ``files``, by path relative to the working folder, each with ``sha256`` and
    ``bytes``, and ``jobs``, which name their files by these paths; ``root``, with which the files
    of a module may begin, is left out. Raises `MissingFileError` if an output is not there.
    """
    records: dict[tuple[str, ...], dict[str, Record]] = {}  # files of one rule with one log
    queue, paths = [*outputs], {*outputs}
    for output in outputs:
        require_file(Path(output))
    while queue:
        output = queue.pop()
        if known := record(output):
            records.setdefault((known.rule, *(known.log or known.inputs)), {})[output] = known
            queue += {*known.inputs} - paths
            paths.update(known.inputs)
    files: dict[str, dict[str, Any]] = {}
    names: dict[str, str] = {}
    for name in sorted(paths):
        path, names[name] = Path(name), name.removeprefix(root)
        facts: dict[str, Any] = {}
        if path.is_dir():
            facts = {"folder": path_digest(path)}
        elif path.is_file():
            facts = {"sha256": sha256(path), "bytes": path.stat().st_size}
        if path.is_absolute() or ".." in path.parts:
            names[name] = f"elsewhere/{path.name}"
            if files.get(names[name], facts) != facts:  # another file of this name
                names[name] = f"elsewhere/{str([*facts.values()])[2:14]}/{path.name}"
        files[names[name]] = facts
    jobs = [_job(job, names) for job in records.values()]
    jobs.sort(key=lambda job: (job["rule"], job["outputs"]))
    return {"files": dict(sorted(files.items())), "jobs": jobs}


def _job(outputs: Mapping[str, Record], names: Mapping[str, str]) -> dict[str, Any]:
    """Return what is known of the job that wrote ``outputs``."""
    record = next(iter(outputs.values()))
    place, text = "", ""
    for log in map(Path, record.log[:1]):
        # logs/{run}/{rule}/digits/relu.log, perhaps in the folder of a module
        parts = log.with_suffix("").parts
        place = "/".join(parts[parts.index("logs") + 2 :])
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    place = place.removeprefix(record.rule).removeprefix("/")
    job: dict[str, Any] = {"rule": record.rule, "place": place}
    job |= {"code": record.code} if record.code else {}
    job["inputs"] = sorted(names[path] for path in record.inputs)
    job["outputs"] = sorted(names[path] for path in outputs)
    job |= {key: said[1] for key, line in _STATED.items() if (said := re.search(line, text))}
    starts = [known.start for known in outputs.values() if known.start is not None]
    ends = [known.end for known in outputs.values() if known.end is not None]
    return {**job, "start": iso(min(starts)), "end": iso(max(ends))} if starts and ends else job


def period(jobs: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return when the first of jobs began and the last one ended; None if no job tells."""
    timed = [job for job in jobs if "start" in job and "end" in job]
    if not timed:
        return None
    return min(job["start"] for job in timed), max(job["end"] for job in timed)


def iso(seconds: float) -> str:
    """Return seconds since 1970 as a time, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()
