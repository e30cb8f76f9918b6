"""Who made what: the jobs behind a set of files, and the sha256 of all that they read and wrote.

What is not known is left out. No user, machine or folder outside the checkout is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from ntk_conditioning.files import sha256
from ntk_workflow.provenance.digests import path_digest

_DEVICE = re.compile(r"^\d\d:\d\d:\d\d device (?P<device>cpu|cuda)\b(?P<rest>.*)$", re.MULTILINE)
_DTYPE = re.compile(r", (float32|float64|bfloat16|float16),")
_HOST = re.compile(r"^\d\d:\d\d:\d\d host (?P<host>.+)$", re.MULTILINE)


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
    of a module may begin, is left out.

    Raises:
        MissingFileError: if one of ``outputs`` is not there.
    """
    files = _Files(root)
    for path in outputs:
        files.add(path, required=True)
    jobs: dict[tuple[str, ...], dict[str, Record]] = {}  # files of one rule with one log
    queue, seen = list(outputs), set(outputs)
    while queue:
        path = queue.pop()
        if known := record(path):
            jobs.setdefault((known.rule, *(known.log or known.inputs)), {})[path] = known
            new = [name for name in known.inputs if name not in seen]
            seen.update(new)
            queue += new
    described = [_described(job, files) for job in jobs.values()]
    described.sort(key=lambda job: (job["rule"], job["outputs"]))
    return {"files": dict(sorted(files.known.items())), "jobs": described}


def period(jobs: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return when the first of jobs began and the last one ended; None if no job tells."""
    timed = [job for job in jobs if "start" in job and "end" in job]
    if not timed:
        return None
    return min(job["start"] for job in timed), max(job["end"] for job in timed)


def iso(seconds: float) -> str:
    """Return seconds since 1970 as a time, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()


def _described(job: Mapping[str, Record], files: _Files) -> dict[str, Any]:
    record = next(iter(job.values()))
    log = [path.removeprefix(files.root) for path in record.log]
    facts: dict[str, Any] = {"rule": record.rule, "place": _place(record.rule, log)}
    if record.code:
        facts["code"] = record.code
    facts["inputs"] = sorted(files.add(path) for path in record.inputs)
    facts["outputs"] = sorted(files.add(path) for path in job)
    facts |= _stated(_text(record.log))
    starts = [each.start for each in job.values() if each.start is not None]
    ends = [each.end for each in job.values() if each.end is not None]
    if starts and ends:
        facts |= {"start": iso(min(starts)), "end": iso(max(ends))}
    return facts


def _place(rule: str, log: Sequence[str]) -> str:
    """Return which of its rule's jobs this is, such as ``digits/relu``, from where its log is."""
    if not log:
        return ""
    parts = PurePosixPath(log[0]).with_suffix("").parts[2:]  # after logs/{run}/
    return "/".join(parts[1:] if parts[:1] == (rule,) else parts)


def _text(log: Iterable[str]) -> str:
    files = (path for path in map(Path, log) if path.is_file())
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def _stated(text: str) -> dict[str, str]:
    """Return device, precision and class of host as far as a job's log states them."""
    stated = {}
    if device := _DEVICE.search(text):
        stated["device"] = device["device"]
        if dtype := _DTYPE.search(f"{device['rest']},"):
            stated["dtype"] = dtype[1]
    if host := _HOST.search(text):
        stated["host"] = host["host"]
    return stated


class _Files:
    """The files that jobs read and wrote, each hashed once."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.known: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}

    def add(self, path: str, *, required: bool = False) -> str:
        """Note a file and return its name here.

        A file outside the working folder is known by its name and content alone.
        """
        if path not in self._names:
            facts = _facts(Path(path), required=required)
            outside = Path(path).is_absolute() or ".." in Path(path).parts
            name = f"elsewhere/{Path(path).name}" if outside else path.removeprefix(self.root)
            if self.known.setdefault(name, facts) != facts and facts:
                name = f"elsewhere/{str(next(iter(facts.values())))[:12]}/{Path(path).name}"
                self.known[name] = facts
            self._names[path] = name
        return self._names[path]


def _facts(path: Path, *, required: bool) -> dict[str, Any]:
    """Return sha256 and size of a file, or the digest of a folder; nothing of a file not there."""
    if path.is_dir():
        return {"folder": path_digest(path)}
    known = required or path.is_file()
    return {"sha256": sha256(path), "bytes": path.stat().st_size} if known else {}
