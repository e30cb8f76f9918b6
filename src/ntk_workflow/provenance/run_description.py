"""What the crate of a bundle tells of a run: from its record, its jobs and CITATION.cff."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from ntk_conditioning.files import sha256
from ntk_workflow.bundle import checks, crate, jobs
from ntk_workflow.provenance.versions import PROJECT

CELLS = {
    "spectra": "cells: spectra of kernels",
    "angles": "cells: smallest angles",
    "training": "cells: training curves",
    "training_kernels": "cells: kernels where trainings begin",
}


def described(args: argparse.Namespace, known: Mapping[str, Any]) -> crate.Run:
    """Return what the crate tells of the run."""
    citation = yaml.safe_load(Path("CITATION.cff").read_text(encoding="utf-8"))
    results = f"results/{args.run}"
    tables = checks.declared_tables().values()
    period = jobs.period(known["jobs"])
    return crate.Run(
        name=args.run,
        title=citation["title"],
        authors=tuple(author["name"] for author in citation["authors"]),
        version=PROJECT,
        licence=citation["license"],
        engine=args.engine,
        published=period[1] if period else newest(args.files),
        period=period,
        workflow="workflow/Snakefile",
        config=f"{results}/record/config.yaml",
        jobs=args.jobs.as_posix(),
        results=tuple(path.as_posix() for path in args.files if "record" not in path.parts),
        descriptions={f"{results}/tables/{t.name}.parquet": t.description for t in tables},
        folders=folders_of_cells(known, results) if args.include_cells else {},
        data={name: own_data(entry) for name, entry in args.data.items()},
    )


def folders_of_cells(known: Mapping[str, Any], results: str) -> dict[str, str]:
    """Return the folders of a run that have cells, with what these are."""
    named = {f"{results}/{folder}/": told for folder, told in CELLS.items()}
    return {
        folder: told
        for folder, told in named.items()
        if any(name.startswith(folder) for name in known["files"])
    }


def newest(paths: Iterable[Path]) -> str:
    """Return when the last of some files was written, where no job tells."""
    seconds = max(path.stat().st_mtime for path in paths)
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()


def own_data(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a catalogue entry with a user's own file by name, size and sha256 alone."""
    kept = {key: value for key, value in entry.items() if key != "path"}
    path = Path(entry.get("path", ""))
    if "path" in entry and path.is_file():
        facts = {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)}
        kept["files"] = [facts]
    return kept
