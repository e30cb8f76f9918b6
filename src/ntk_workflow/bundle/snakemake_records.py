"""What Snakemake has noted about the jobs of a checkout: who wrote a file, from what, and when."""

from __future__ import annotations

import re
from pathlib import Path

from snakemake.io import IOFile
from snakemake.persistence.file import FilePersistence

from ntk_workflow.bundle.jobs import Record

_DIGEST = re.compile(r"'([0-9a-f]{16})'")


class Records:
    """Snakemake's records of the files of a checkout; nothing is locked or changed."""

    def __init__(self, checkout: Path) -> None:
        folder = checkout / ".snakemake"
        self._persistence = FilePersistence(nolock=True, path=folder) if folder.is_dir() else None

    def __call__(self, path: str) -> Record | None:
        """Return what is known of the job that wrote a file, if anything is."""
        known = self._persistence.metadata(IOFile(path)) if self._persistence else None
        if known is None or not known.rule:
            return None
        return Record(
            rule=known.rule,
            inputs=tuple(known.input or ()),
            log=tuple(known.log or ()),
            code=_code(known.params or [], known.shellcmd or ""),
            start=known.starttime,
            end=known.endtime,
            checksums={
                name: digest.removeprefix("sha256:")
                for name, digest in (known.input_checksums or {}).items()
            },
        )


def _code(parameters: list[str], command: str) -> str | None:
    """Return the digest of a job's code, `params: code`, which no command contains.

    Snakemake notes the values of parameters without their names.
    """
    found = [match[1] for value in parameters if (match := _DIGEST.fullmatch(str(value)))]
    found = [digest for digest in found if digest not in command]
    return found[0] if len(found) == 1 else None
