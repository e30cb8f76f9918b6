"""Who made what: the jobs behind a set of files, and the sha256 of all that they read and wrote.

What is not known is left out. No user, machine or folder outside the checkout is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from ntk_conditioning.files import sha256
from ntk_workflow.bundle import BundleError
from ntk_workflow.provenance.digests import path_digest

_DEVICE = re.compile(r"^\d\d:\d\d:\d\d device (?P<device>cpu|cuda)\b(?P<rest>.*)$", re.MULTILINE)
_DTYPE = re.compile(r", (float32|float64|bfloat16|float16),")
_HOST = re.compile(r"^\d\d:\d\d:\d\d host (?P<host>.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Record:
    """What a workflow engine noted about the job that wrote a file; times are seconds since 1970.

    ``checksums`` are the sha256 (hex) of inputs when the job had read them, as far as known.
    """

    rule: str
    inputs: tuple[str, ...]
    log: tuple[str, ...]
    code: str | None = None
    start: float | None = None
    end: float | None = None
    checksums: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Job:
    record: Record
    outputs: list[str]
    starts: list[float]
    ends: list[float]


def provenance(
    outputs: Iterable[str],
    record: Callable[[str], Record | None],
) -> dict[str, Any]:
    """Return the jobs behind ``outputs``, followed back to where no record is known.

    Paths are relative to the working folder. The result has ``files``, by path, each
    with ``sha256`` and ``bytes``, and ``jobs``, which name their files by these paths.

    Raises:
        MissingFileError: if one of ``outputs`` is not there.
        BundleError: if an input is no longer what the job had read.
    """
    targets = list(outputs)
    jobs = _jobs(targets, record)
    files = _Files()
    for path in targets:
        files.add(path, required=True)
    described = [_described(job, files) for job in jobs]
    described.sort(key=lambda job: (job["rule"], job["outputs"]))
    return {"files": dict(sorted(files.known.items())), "jobs": described}


def period(jobs: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return when the first of jobs began and the last one ended; None if no job tells."""
    timed = [job for job in jobs if "start" in job and "end" in job]
    if not timed:
        return None
    return min(job["start"] for job in timed), max(job["end"] for job in timed)


def _jobs(targets: list[str], record: Callable[[str], Record | None]) -> list[_Job]:
    """Return the jobs; files of one rule with one log are one job's."""
    found: dict[tuple[str, ...], _Job] = {}
    queue, seen = list(targets), set(targets)
    while queue:
        path = queue.pop()
        known = record(path)
        if known is None:
            continue
        identity = (known.rule, *(known.log or known.inputs))
        job = found.setdefault(identity, _Job(known, [], [], []))
        job.outputs.append(path)
        job.starts += [] if known.start is None else [known.start]
        job.ends += [] if known.end is None else [known.end]
        new = [name for name in known.inputs if name not in seen]
        seen.update(new)
        queue += new
    return list(found.values())


def _described(job: _Job, files: _Files) -> dict[str, Any]:
    record = job.record
    facts: dict[str, Any] = {"rule": record.rule, "place": _place(record)}
    if record.code:
        facts["code"] = record.code
    facts["inputs"] = sorted(files.add(path, record.checksums.get(path)) for path in record.inputs)
    facts["outputs"] = sorted(files.add(path) for path in job.outputs)
    facts |= _stated(record.log)
    if job.starts and job.ends:
        facts |= {"start": _iso(min(job.starts)), "end": _iso(max(job.ends))}
    return facts


def _place(record: Record) -> str:
    """Return which of its rule's jobs this is, such as ``digits/relu``, from where its log is."""
    if not record.log:
        return ""
    parts = PurePosixPath(record.log[0]).with_suffix("").parts[2:]  # after logs/{run}/
    return "/".join(parts[1:] if parts[:1] == (record.rule,) else parts)


def _stated(log: Iterable[str]) -> dict[str, str]:
    """Return device, precision and class of host as far as a job's log states them."""
    files = (path for path in map(Path, log) if path.is_file())
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
    stated = {}
    if device := _DEVICE.search(text):
        stated["device"] = device["device"]
        if dtype := _DTYPE.search(f"{device['rest']},"):
            stated["dtype"] = dtype[1]
    if host := _HOST.search(text):
        stated["host"] = host["host"]
    return stated


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()


class _Files:
    """The files that jobs read and wrote, each hashed once."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}

    def add(self, path: str, expected: str | None = None, *, required: bool = False) -> str:
        """Note a file and return its name here; ``expected`` is the sha256 that it once had.

        A file outside the working folder is known by its name and content alone.
        """
        if path not in self._names:
            found = facts(path, required=required)
            name = path if _inside(path) else f"elsewhere/{Path(path).name}"
            if self.known.setdefault(name, found) != found and found:
                name = f"elsewhere/{str(next(iter(found.values())))[:12]}/{Path(path).name}"
                self.known[name] = found
            self._names[path] = name
        name = self._names[path]
        if expected and not self.known[name]:
            self.known[name] = {"sha256": expected}  # it was temporary
        if expected and self.known[name].get("sha256", expected) != expected:
            raise BundleError(
                f"{path} is not the file that a job has read; let snakemake run again, then bundle"
            )
        return name


def facts(path: str | Path, *, required: bool = True) -> dict[str, Any]:
    """Return sha256 and size of a file, or the digest of a folder; nothing of a file not there."""
    place = Path(path)
    if place.is_dir():
        return {"folder": path_digest(place)}
    if not required and not place.is_file():
        return {}
    return {"sha256": sha256(place), "bytes": place.stat().st_size}


def _inside(path: str) -> bool:
    return not Path(path).is_absolute() and ".." not in Path(path).parts
