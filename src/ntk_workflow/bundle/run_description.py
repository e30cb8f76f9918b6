"""What the crate of a bundle tells of a run: from its record, its jobs and CITATION.cff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ntk_conditioning.files import sha256
from ntk_workflow.bundle import crate, jobs
from ntk_workflow.provenance.versions import PROJECT, libraries


def described(
    name: str, files: Sequence[Path], made: Sequence[Mapping[str, Any]], data: Mapping[str, Any]
) -> crate.Run:
    """Return what the crate tells of a run from its files, jobs and catalogue entries."""
    citation = yaml.safe_load(Path("CITATION.cff").read_text(encoding="utf-8"))
    period = jobs.period(made)
    # where no job states a time, the run is as old as its newest file
    newest = jobs.iso(max(path.stat().st_mtime for path in files))
    return crate.Run(
        name=name,
        title=citation["title"],
        authors=tuple(author["name"] for author in citation["authors"]),
        version=PROJECT,
        licence=citation["license"],
        engine=libraries()["snakemake"],
        published=period[1] if period else newest,
        period=period,
        results=tuple(path.as_posix() for path in files if "record" not in path.parts),
        data={name: _published(entry) for name, entry in data.items()},
    )


def _published(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is published of a catalogue entry; a user's own file by name and sha256 alone."""
    keys = {"title": "title", "licence": "licence", "citation": "citation", "homepage": "url"}
    facts = {keys[key]: entry[key] for key in keys if key in entry}
    path = Path(entry.get("path", ""))
    if path.is_file():
        own = {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)}
        return facts | {"files": [own]}
    return facts | ({"files": list(entry["files"].values())} if "files" in entry else {})
