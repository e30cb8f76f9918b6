"""Who made what: the jobs behind a set of files, and the sha256 of all that they read and wrote.

What is not known is left out. No user, machine or folder outside the checkout is named.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ntk_conditioning.files import sha256
from ntk_workflow.provenance.digests import path_digest


def provenance(
    outputs: Sequence[str], record: Callable[[str], Any], *, root: str = ""
) -> dict[str, Any]:
    """Return the jobs behind ``outputs``, followed back to where no record is known.

    The result has ``files``, by path relative to the working folder, each with ``sha256`` and
    ``bytes``, and ``jobs``, which name their files by these paths; ``root``, with which the files
    of a module may begin, is left out.
    """
    jobs: dict[tuple[str, ...], dict[str, Any]] = {}  # one for all files with the same rule and log
    queue, files = [*outputs], dict.fromkeys(outputs)
    while queue:
        output = queue.pop()
        if not (known := record(output)):
            continue
        inputs, logs = known.input or [], known.log or []
        queue += [path for path in inputs if path not in files]
        files |= dict.fromkeys(inputs)
        job = jobs.setdefault((known.rule, *(logs or inputs)), {"outputs": []})
        job["outputs"] = sorted([*job["outputs"], _name(output, root)])
        job |= {"rule": known.rule, "inputs": sorted(_name(path, root) for path in inputs)}
        job |= _code(known.params or [], known.shellcmd or "")
        if known.starttime and known.endtime:
            times = (datetime.fromtimestamp(int(s), UTC) for s in (known.starttime, known.endtime))
            start, end = (time.isoformat() for time in times)
            job["start"], job["end"] = (
                min(start, job.get("start", start)),
                max(end, job.get("end", end)),
            )
        log = Path(logs[0]) if logs else Path()
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        if stated := re.search(r"(?m)^\d\d:\d\d:\d\d device (cpu|cuda)\b", text):
            job["device"] = stated[1]
    return {
        "files": {_name(path, root): _facts(Path(path)) for path in sorted(files)},
        "jobs": sorted(jobs.values(), key=lambda job: (job["rule"], job["outputs"])),
    }


def _code(parameters: Sequence[str], command: str) -> dict[str, str]:
    """Return the digest of a job's code, `params: code`, which commands contain after --code.

    Snakemake notes the values of parameters without their names.
    """
    digests = [d for text in parameters for d in re.findall(r"^'([0-9a-f]{16})'$", str(text))]
    digests = [d for d in digests if d not in command or f"--code {d}" in command]
    return {"code": digests[0]} if len(digests) == 1 else {}


def _name(path: str, root: str) -> str:
    """Return what a file is called in the record."""
    outside = Path(path).is_absolute() or ".." in Path(path).parts
    return f"elsewhere/{Path(path).name}" if outside else path.removeprefix(root)


def _facts(path: Path) -> dict[str, Any]:
    if path.is_dir():
        return {"folder": path_digest(path)}
    return {"sha256": sha256(path), "bytes": path.stat().st_size} if path.is_file() else {}
