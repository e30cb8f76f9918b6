"""The RO-Crate of a bundle: what each file is, and the run that made it from which data.

RO-Crate 1.1 with the profile Workflow Run Crate 0.5 (https://w3id.org/ro/wfrun/workflow/0.5): one
action, the run, with the workflow as its instrument, the config and the data as its objects and the
tables and figures as its results. The jobs within the run are too many for the graph; they are a
file of their own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rocrate.model import ContextEntity, Entity
from rocrate.rocrate import ROCrate
from rocrate.utils import is_url

from ntk_conditioning.errors import one_line
from ntk_conditioning.files import sha256
from ntk_conditioning.tables import TABLES
from ntk_workflow.bundle import BundleError
from ntk_workflow.bundle.archive import files_by_name
from ntk_workflow.provenance.versions import PROJECT, libraries

NAME = "ro-crate-metadata.json"
WORKFLOW = "workflow/Snakefile"
TERMS = "https://w3id.org/ro/terms/workflow-run/context"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
_BIOSCHEMAS = "https://bioschemas.org/profiles"
# Not asked of the system, whose answer depends on what is installed.
_TYPES = {
    **dict.fromkeys(("", ".in", ".lock", ".textgrid", ".txt"), "text/plain"),
    **dict.fromkeys((".cff", ".yaml"), "application/yaml"),
    **{f".{kind}": f"application/{kind}" for kind in ("json", "pdf", "toml")},
    **{f".{kind}": f"text/{kind}" for kind in ("css", "csv", "html")},
    ".py": "text/x-python",
    ".rst": "text/x-rst",
    ".smk": "text/x-snakemake",
    ".md": "text/markdown",
    ".flac": "audio/flac",
    ".png": "image/png",
    ".ipynb": "application/x-ipynb+json",
    ".parquet": "application/vnd.apache.parquet",
}
#: What a run's folders hold that have a file for each job and are described as a whole.
ROWS = "rows, one file for each job"
#: Folders and files of a run that are described one by one.
_RESULTS = ("tables", "figures", "notebooks", "record")


@dataclass(frozen=True)
class Run:
    """What a crate tells of a run: who made it, when, with which results and from which data.

    ``citation`` is the content of CITATION.cff, ``data`` are catalogue entries by name; ``period``
    is when the first job began and the last one ended.
    """

    name: str
    citation: Mapping[str, Any]
    published: str
    period: tuple[str, str] | None
    results: Sequence[str]
    data: Mapping[str, Mapping[str, Any]]


def bag_info(run: Run) -> dict[str, str]:
    """Return what the bag of a run says of itself."""
    info = {"Bagging-Date": run.published[:10], "External-Identifier": run.name}
    return {**info, "Bag-Software-Agent": f"ntk-conditioning {PROJECT}"}


def require_crate(folder: Path) -> None:
    """Raise `BundleError` unless a crate's metadata describe its files, all of them and rightly.

    The files of a folder that is described as a whole are described with it.
    """
    try:
        read = ROCrate(json.loads((folder / NAME).read_text(encoding="utf-8")))
        profiles = {entity.id for entity in read.root_dataset["conformsTo"]}
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise BundleError(f"{NAME}: no readable RO-Crate ({one_line(error)})") from None
    if missing := sorted(PROFILES.keys() - profiles):
        raise BundleError(f"{NAME}: does not conform to {missing[0]}")
    described = {unquote(e.id): e for e in read.data_entities if not is_url(e.id)}
    files = files_by_name(folder)
    for name, entity in sorted(described.items()):
        if name not in files and not any(file.startswith(name) for file in files):
            raise BundleError(f"{name}: missing, though the RO-Crate describes it")
        if name in files and entity.get("sha256") != sha256(files[name]):
            raise BundleError(f"{name}: changed, its sha256 is not the one in the RO-Crate")
    folders = tuple(name for name in described if name.endswith("/"))
    for name in files:
        if name not in described and not name.startswith(folders) and name != NAME:
            raise BundleError(f"{name}: an extra file that the RO-Crate does not describe")


def write(folder: Path, run: Run) -> None:
    """Write the metadata of a crate into its root ``folder``, describing all files in it."""
    crate = ROCrate(version="1.1")
    crate.metadata.extra_contexts.append(TERMS)
    _describe(crate, run)
    entities: dict[str, Entity] = {}
    results, engine = f"results/{run.name}", libraries()["snakemake"]
    for place in sorted((folder / results).iterdir()):
        if place.is_dir() and place.name not in _RESULTS:
            path = f"{results}/{place.name}/"
            facts = {"name": path, "description": ROWS}
            entities[path] = crate.add_dataset(dest_path=path, properties=facts)
    folders = tuple(entities)
    meanings = {f"{results}/tables/{t.name}.parquet": t.description for t in TABLES.values()}
    for name, file in files_by_name(folder).items():
        if name.startswith(folders):
            continue
        facts = {"name": meanings.get(name, name), "sha256": sha256(file)}
        facts["contentSize"] = str(file.stat().st_size)
        facts["encodingFormat"] = _TYPES.get(file.suffix.lower(), "application/octet-stream")
        if name == WORKFLOW:
            language = {"main": True, "lang": "snakemake", "lang_version": engine}
            entities[name] = crate.add_workflow(dest_path=name, properties=facts, **language)
        else:
            entities[name] = crate.add_file(dest_path=name, properties=facts)
    _add_run(crate, run, entities)
    made = crate.metadata.generate()
    text = json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def _add(crate: ROCrate, address: str, kind: str, **facts: Any) -> Entity:
    return crate.add(ContextEntity(crate, address, {"@type": kind, **facts}))


def _describe(crate: ROCrate, run: Run) -> None:
    crate.name = f"{run.citation['title']}: the run {run.name}"
    crate.description = (
        f"Tables, figures, executed notebooks and claims of the run {run.name}, with its config, "
        "the provenance of every job and the source of the workflow."
    )
    crate.datePublished = run.published
    licence, work = run.citation["license"], "CreativeWork"
    address = f"https://spdx.org/licenses/{licence}"
    crate.license = _add(crate, address, work, name=licence, identifier=licence)
    crate.root_dataset["author"] = [
        _add(crate, f"#author-{number}", "Organization", name=author["name"])
        for number, author in enumerate(run.citation["authors"], 1)
    ]
    crate.root_dataset["conformsTo"] = [
        _add(crate, address, work, name=name, version=version)
        for address, (name, version) in PROFILES.items()
    ]


def _add_run(crate: ROCrate, run: Run, entities: Mapping[str, Entity]) -> None:
    record = f"results/{run.name}/record"
    workflow, config = entities[WORKFLOW], entities[f"{record}/config.yaml"]
    workflow["license"] = crate.license
    workflow["creator"] = crate.root_dataset["author"]
    workflow["version"] = PROJECT
    workflow["conformsTo"] = {"@id": f"{_BIOSCHEMAS}/ComputationalWorkflow/1.0-RELEASE"}
    engine = {"version": libraries()["snakemake"], "url": "https://snakemake.readthedocs.io"}
    _add(crate, "#snakemake", "SoftwareApplication", name="Snakemake", **engine)
    parameter = {
        "conformsTo": {"@id": f"{_BIOSCHEMAS}/FormalParameter/1.0-RELEASE"},
        "additionalType": "File",
        "name": "config",
        "description": "every choice of the run, as an overlay for --configfile",
        "valueRequired": True,
        "encodingFormat": "application/yaml",
    }
    workflow["input"] = _add(crate, "#config", "FormalParameter", **parameter)
    config["exampleOfWork"] = workflow["input"]
    action = {
        "name": f"The run {run.name}",
        "description": f"All jobs of the run {run.name}; {record}/jobs.json tells of each",
        "instrument": workflow,
        "object": [config, *(_dataset(crate, *item) for item in sorted(run.data.items()))],
        "result": [entities[name] for name in run.results],
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }
    if run.period:
        action |= {"startTime": run.period[0], "endTime": run.period[1]}
    crate.root_dataset["mentions"] = _add(crate, "#run", "CreateAction", **action)
    entities["README.md"]["about"] = crate.root_dataset


def _dataset(crate: ROCrate, name: str, entry: Mapping[str, Any]) -> Entity:
    """Add a dataset, which is referred to by address and checksum, not part of the crate."""
    about = {"name": entry.get("title", name), "description": f"dataset {name}"}
    keys = {"citation": "citation", "homepage": "url", "licence": "license"}
    about |= {keys[key]: entry[key] for key in keys if key in entry}
    files = entry.get("files", {}).values()
    path = Path(entry.get("path", ""))
    if path.is_file():  # the user's own: its name and content are all that is published
        files = [{"name": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)}]
    parts = []
    for file in files:
        facts = {"name": file["name"]}
        facts |= {"sha256": file["sha256"]} if "sha256" in file else {}
        facts |= {"contentSize": str(file["bytes"])} if "bytes" in file else {}
        if urls := file.get("urls", []):
            facts |= {"sameAs": urls[1:]} if urls[1:] else {}
            parts.append(crate.add_file(urls[0], properties={"@type": "File", **facts}))
        else:
            parts.append(_add(crate, f"#file-{file['sha256'][:16]}", "MediaObject", **facts))
    about |= {"hasPart": parts} if parts else {}
    return _add(crate, f"#dataset-{name}", "Dataset", **about)
