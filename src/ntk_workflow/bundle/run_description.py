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
from ntk_workflow.provenance.versions import PROJECT, libraries

ROWS = {
    "spectra": "rows: spectra of kernels",
    "angles": "rows: smallest angles",
    "activation_study": "rows: spectra of the activation study",
    "bounds": "rows: kernels beside their bounds",
    "orthogonality": "rows: angles between neurons' gradients",
    "linearity": "rows: Hessians and quadratic terms",
    "training": "training curves",
    "training_kernels": "kernels where trainings begin",
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
        engine=libraries()["snakemake"],
        published=period[1] if period else newest(args.files),
        period=period,
        workflow="workflow/Snakefile",
        config=f"{results}/record/config.yaml",
        jobs=args.jobs.as_posix(),
        results=tuple(path.as_posix() for path in args.files if "record" not in path.parts),
        descriptions={f"{results}/tables/{t.name}.parquet": t.description for t in tables},
        folders=folders_of_rows(known, results) if args.include_rows else {},
        data=catalogued_data(args.catalogues, args.datasets),
    )


def folders_of_rows(known: Mapping[str, Any], results: str) -> dict[str, str]:
    """Return the folders of a run that have rows, with what these are."""
    named = {f"{results}/{folder}/": meaning for folder, meaning in ROWS.items()}
    return {f: named[f] for f in named if any(name.startswith(f) for name in known["files"])}


def newest(paths: Iterable[Path]) -> str:
    """Return when the last of some files was written: the run's date where no job states it."""
    seconds = max(path.stat().st_mtime for path in paths)
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()


def catalogued_data(catalogues: Iterable[str], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what the catalogues say of datasets: addresses, checksums, whom to cite."""
    entries: dict[str, Any] = {}
    for path in catalogues:
        entries |= yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    return {name: _entry(entries[name]) for name in names}


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is published of a catalogue entry; a user's own file by name and sha256 alone."""
    kept = {key: entry[key] for key in ("title", "licence", "citation") if key in entry}
    kept |= {"url": entry["homepage"]} if "homepage" in entry else {}
    kept |= {"files": list(entry["files"].values())} if "files" in entry else {}
    path = Path(entry.get("path", ""))
    if path.is_file():
        facts = {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)}
        kept["files"] = [facts]
    return kept
