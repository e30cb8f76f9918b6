"""The RO-Crate of a bundle: what each file is, and the run that made it from which data.

RO-Crate 1.1 with the profile Workflow Run Crate 0.5 (https://w3id.org/ro/wfrun/workflow/0.5): one
action, the run, with the workflow as its instrument, the config and the data as its objects and the
tables and figures as its results. The jobs within the run are too many for the graph; they are a
file of their own.
"""

import json
from collections.abc import Mapping, Sequence
from mimetypes import MimeTypes
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rocrate.model import ContextEntity, Entity
from rocrate.rocrate import ROCrate
from rocrate.utils import is_url

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
#: Of Python alone, with what it has not: the answer of the system depends on what is installed.
_TYPES = MimeTypes()
_TYPES.add_type("application/vnd.apache.parquet", ".parquet")
_TYPES.add_type("application/yaml", ".yaml")
_TYPES.add_type("application/x-ipynb+json", ".ipynb")
#: Folders of a run that are described file by file; others have a file for each job.
_DESCRIBED = ("tables", "figures", "notebooks", "record")


def require_crate(folder: Path) -> None:
    """Raise `BundleError` unless files are as a crate's metadata describe them."""
    crate = ROCrate(json.loads((folder / NAME).read_text(encoding="utf-8")))
    conforms = {entity.id for entity in crate.root_dataset["conformsTo"]}
    if missing := sorted(PROFILES.keys() - conforms):
        raise BundleError(f"{NAME}: does not conform to {missing[0]}")
    files = files_by_name(folder)
    for entity in crate.data_entities:
        name = unquote(entity.id)
        if is_url(name) or name.endswith("/"):  # a folder is described as a whole
            continue
        if name not in files or entity.get("sha256") != sha256(files[name]):
            raise BundleError(f"{name}: missing, or not as the RO-Crate describes it")


def write(
    folder: Path,
    run: str,
    *,
    citation: Mapping[str, Any],
    published: str,
    period: tuple[str, str] | None,
    results: Sequence[str],
    data: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write the metadata of a crate into its root ``folder``, describing all files in it.

    ``citation`` is the content of CITATION.cff, ``period`` is when the first job began and the last
    one ended, ``results`` are files that the run made, ``data`` its catalogue entries by name.
    """
    crate = ROCrate(version="1.1")
    crate.metadata.extra_contexts.append(TERMS)
    crate.name = f"{citation['title']}: the run {run}"
    crate.description = (
        f"Tables, figures, executed notebooks and claims of the run {run}, with its config, "
        "the provenance of every job and the source of the workflow."
    )
    crate.datePublished = published
    licence = citation["license"]
    address = f"https://spdx.org/licenses/{licence}"
    crate.license = _add(crate, address, "CreativeWork", name=licence, identifier=licence)
    crate.root_dataset["author"] = [
        _add(crate, f"#author-{number}", "Organization", name=author["name"])
        for number, author in enumerate(citation["authors"], 1)
    ]
    crate.root_dataset["conformsTo"] = [
        _add(crate, address, "CreativeWork", name=name, version=version)
        for address, (name, version) in PROFILES.items()
    ]
    entities = _add_files(crate, folder, f"results/{run}")
    workflow, config = entities[WORKFLOW], entities[f"results/{run}/record/config.yaml"]
    workflow["license"] = crate.license
    workflow["creator"] = crate.root_dataset["author"]
    workflow["version"] = PROJECT
    workflow["conformsTo"] = {"@id": f"{_BIOSCHEMAS}/ComputationalWorkflow/1.0-RELEASE"}
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
        "name": f"The run {run}",
        "description": f"All jobs of the run; results/{run}/record/jobs.json tells of each",
        "instrument": workflow,
        "object": [config, *(_add_data(crate, name, data[name]) for name in sorted(data))],
        "result": [entities[name] for name in results],
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }
    if period:
        action |= {"startTime": period[0], "endTime": period[1]}
    crate.root_dataset["mentions"] = _add(crate, "#run", "CreateAction", **action)
    entities["README.md"]["about"] = crate.root_dataset
    made = json.dumps(crate.metadata.generate(), indent=1, sort_keys=True, ensure_ascii=False)
    (folder / NAME).write_text(made + "\n", encoding="utf-8")


def _add(crate: ROCrate, address: str, kind: str, **facts: Any) -> Entity:
    return crate.add(ContextEntity(crate, address, {"@type": kind, **facts}))


def _add_files(crate: ROCrate, folder: Path, results: str) -> dict[str, Entity]:
    """Describe all files, those of the rows by their folders; return what describes them."""
    entities: dict[str, Entity] = {}
    for place in sorted((folder / results).iterdir()):
        if place.is_dir() and place.name not in _DESCRIBED:
            path = f"{results}/{place.name}/"
            facts = {"name": path, "description": "rows, one file for each job"}
            entities[path] = crate.add_dataset(dest_path=path, properties=facts)
    folders = tuple(entities)
    meanings = {f"{results}/tables/{t.name}.parquet": t.description for t in TABLES.values()}
    for name, file in files_by_name(folder).items():
        if name.startswith(folders):
            continue
        facts = {"name": meanings.get(name, name), "sha256": sha256(file)}
        facts["contentSize"] = str(file.stat().st_size)
        if kind := _TYPES.guess_type(name)[0]:
            facts["encodingFormat"] = kind
        if name == WORKFLOW:
            language = {"main": True, "lang": "snakemake", "lang_version": libraries()["snakemake"]}
            entities[name] = crate.add_workflow(dest_path=name, properties=facts, **language)
        else:
            entities[name] = crate.add_file(dest_path=name, properties=facts)
    return entities


def _add_data(crate: ROCrate, name: str, entry: Mapping[str, Any]) -> Entity:
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
        facts = {"name": file["name"], "sha256": file["sha256"]}
        facts |= {"contentSize": str(file["bytes"])} if "bytes" in file else {}
        if urls := file.get("urls", []):
            facts |= {"sameAs": urls[1:]} if urls[1:] else {}
            parts.append(crate.add_file(urls[0], properties={"@type": "File", **facts}))
        else:
            parts.append(_add(crate, f"#file-{file['sha256'][:16]}", "MediaObject", **facts))
    about |= {"hasPart": parts} if parts else {}
    return _add(crate, f"#dataset-{name}", "Dataset", **about)
