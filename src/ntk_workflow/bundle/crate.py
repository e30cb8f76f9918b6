"""The RO-Crate of a bundle: what each file is, and the run that made it from which data.

RO-Crate 1.1 with the profile Workflow Run Crate 0.5 (https://w3id.org/ro/wfrun/workflow/0.5): one
action, the run, with the workflow as its instrument, the config and the data as its objects and the
tables and figures as its results. The jobs within the run are too many for the graph; they are a
file of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocrate.model import ContextEntity, Entity
from rocrate.rocrate import ROCrate

from ntk_conditioning.files import sha256
from ntk_workflow.bundle.archive import files_in

NAME = "ro-crate-metadata.json"
TERMS = "https://w3id.org/ro/terms/workflow-run/context"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
_BIOSCHEMAS = "https://bioschemas.org/profiles"
# Not asked of the system, whose answer depends on what is installed.
_TYPES = {
    "": "text/plain",
    ".cff": "application/yaml",
    ".css": "text/css",
    ".csv": "text/csv",
    ".flac": "audio/flac",
    ".html": "text/html",
    ".in": "text/plain",
    ".ipynb": "application/x-ipynb+json",
    ".json": "application/json",
    ".lock": "text/plain",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".py": "text/x-python",
    ".rst": "text/x-rst",
    ".smk": "text/x-snakemake",
    ".textgrid": "text/plain",
    ".toml": "application/toml",
    ".txt": "text/plain",
    ".yaml": "application/yaml",
}


@dataclass(frozen=True)
class Run:
    """What a crate tells of a run: who made it, with what, when, and from which data.

    ``licence`` and the data's are SPDX names or texts; ``period`` is when the first job began and
    the last one ended. ``data`` are catalogue entries by name, with files as ``name``, ``urls``,
    ``sha256`` and ``bytes``. ``descriptions`` tell of files what they are, and ``folders`` of whole
    folders, whose names end with a slash.
    """

    name: str
    title: str
    authors: tuple[str, ...]
    version: str
    licence: str
    engine: str
    published: str
    period: tuple[str, str] | None
    workflow: str
    config: str
    jobs: str
    results: tuple[str, ...]
    descriptions: Mapping[str, str]
    folders: Mapping[str, str]
    data: Mapping[str, Mapping[str, Any]]


def write(folder: Path, run: Run) -> None:
    """Write the metadata of a crate into its root ``folder``, describing all files in it.

    The files in ``run.folders`` are described as a whole: they may be very many.
    """
    crate = ROCrate(version="1.1")
    crate.metadata.extra_contexts.append(TERMS)
    _describe(crate, run)
    entities: dict[str, Entity] = {}
    for name, description in run.folders.items():
        facts = {"name": name, "description": description}
        entities[name] = crate.add_dataset(dest_path=name, properties=facts)
    for path in files_in(folder):
        name = path.relative_to(folder).as_posix()
        if name.startswith(tuple(run.folders)):
            continue
        facts = _facts(path, run.descriptions.get(name, name))
        if name == run.workflow:
            entities[name] = crate.add_workflow(
                dest_path=name,
                properties=facts,
                main=True,
                lang="snakemake",
                lang_version=run.engine,
            )
        else:
            entities[name] = crate.add_file(dest_path=name, properties=facts)
    _add_run(crate, run, entities)
    text = json.dumps(crate.metadata.generate(), indent=1, sort_keys=True, ensure_ascii=False)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def _describe(crate: ROCrate, run: Run) -> None:
    crate.name = f"{run.title}: the run {run.name}"
    crate.description = (
        f"Tables, figures, executed notebooks and claims of the run {run.name}, with its config, "
        "the provenance of every job and the source of the workflow."
    )
    crate.datePublished = run.published
    crate.license = crate.add(_licence(crate, run.licence))
    authors = [
        crate.add(ContextEntity(crate, f"#{_slug(name)}", {"@type": "Organization", "name": name}))
        for name in run.authors
    ]
    crate.root_dataset["author"] = authors if authors[1:] else authors[0]
    crate.root_dataset["conformsTo"] = [
        crate.add(
            ContextEntity(
                crate, address, {"@type": "CreativeWork", "name": name, "version": version}
            )
        )
        for address, (name, version) in PROFILES.items()
    ]


def _add_run(crate: ROCrate, run: Run, entities: Mapping[str, Entity]) -> None:
    workflow, config = entities[run.workflow], entities[run.config]
    workflow["license"] = crate.license
    workflow["creator"] = crate.root_dataset["author"]
    workflow["version"] = run.version
    workflow["conformsTo"] = {"@id": f"{_BIOSCHEMAS}/ComputationalWorkflow/1.0-RELEASE"}
    engine = {"@type": "SoftwareApplication", "name": "Snakemake", "version": run.engine}
    engine["url"] = "https://snakemake.readthedocs.io"
    crate.add(ContextEntity(crate, "#snakemake", engine))
    parameter = ContextEntity(
        crate,
        "#config",
        {
            "@type": "FormalParameter",
            "conformsTo": {"@id": f"{_BIOSCHEMAS}/FormalParameter/1.0-RELEASE"},
            "additionalType": "File",
            "name": "config",
            "description": "every choice of the run, as an overlay for --configfile",
            "valueRequired": True,
            "encodingFormat": "application/yaml",
        },
    )
    workflow["input"] = crate.add(parameter)
    config["exampleOfWork"] = parameter
    action = {
        "@type": "CreateAction",
        "name": f"The run {run.name}",
        "description": f"All jobs of the run {run.name}; {run.jobs} tells of each",
        "instrument": workflow,
        "object": [config, *_data(crate, run.data)],
        "result": [entities[name] for name in run.results],
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }
    if run.period:
        action |= dict(zip(("startTime", "endTime"), run.period, strict=True))
    crate.root_dataset["mentions"] = crate.add(ContextEntity(crate, "#run", action))
    if "README.md" in entities:
        entities["README.md"]["about"] = crate.root_dataset


def _data(crate: ROCrate, data: Mapping[str, Mapping[str, Any]]) -> list[Entity]:
    """Return the data of a run: referred to by address and checksum, not part of the crate."""
    found: dict[str, Entity] = {}
    for name, entry in sorted(data.items()):
        about = {"name": entry["title"], "description": f"dataset {name}"}
        about |= {key: entry[key] for key in ("citation", "url") if key in entry}
        if "licence" in entry:
            about["license"] = entry["licence"]
        parts = []
        for file in entry.get("files", []):
            urls = file.get("urls", [])
            # a file without an address is the user's own: its name and content are all we tell
            address = urls[0] if urls else f"#file-{file['sha256'][:16]}"
            facts = {"@type": "File" if urls else "MediaObject", "name": file["name"]}
            facts |= {"sha256": file["sha256"]} if "sha256" in file else {}
            facts |= {"contentSize": str(file["bytes"])} if "bytes" in file else {}
            facts |= {"sameAs": urls[1:]} if urls[1:] else {}
            if urls:
                parts.append(crate.add_file(address, properties=facts))
            else:
                parts.append(crate.add(ContextEntity(crate, address, facts)))
        about["@type"] = "Dataset"
        if parts:
            about["hasPart"] = parts
        found[name] = crate.add(ContextEntity(crate, f"#dataset-{name}", about))
    return list(found.values())


def _facts(path: Path, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "contentSize": str(path.stat().st_size),
        "sha256": sha256(path),
        "encodingFormat": _TYPES.get(path.suffix.lower(), "application/octet-stream"),
    }


def _licence(crate: ROCrate, name: str) -> ContextEntity:
    facts = {"@type": "CreativeWork", "name": name, "identifier": name}
    return ContextEntity(crate, f"https://spdx.org/licenses/{name}", facts)


def _slug(name: str) -> str:
    return "-".join(name.lower().split())
