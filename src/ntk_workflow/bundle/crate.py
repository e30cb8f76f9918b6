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

from ntk_conditioning.errors import UserError
from ntk_conditioning.files import sha256
from ntk_conditioning.tables import TABLES
from ntk_workflow.bundle.archive import files_by_name
from ntk_workflow.provenance.versions import PROJECT, libraries

NAME = "ro-crate-metadata.json"
WORKFLOW = "workflow/Snakefile"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
#: Of Python alone, with what it has not: the answer of the system depends on what is installed.
_TYPES = MimeTypes()
_TYPES.add_type("application/vnd.apache.parquet", ".parquet")
_TYPES.add_type("application/yaml", ".yaml")
_TYPES.add_type("application/x-ipynb+json", ".ipynb")


def require_crate(folder: Path) -> None:
    """Raise `UserError` unless files are as a crate's metadata describe them."""
    crate = ROCrate(json.loads((folder / NAME).read_text(encoding="utf-8")))
    for name, entity in ((unquote(entity.id), entity) for entity in crate.data_entities):
        path = folder / name
        if not is_url(name) and not (path.is_file() and entity.get("sha256") == sha256(path)):
            raise UserError(f"{name}: missing, or not as the RO-Crate describes it")


def write(
    folder: Path,
    run: str,
    *,
    citation: Mapping[str, Any],
    times: Sequence[str],
    results: Sequence[str],
    data: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write the metadata of a crate into its root ``folder``, describing all files in it.

    ``citation`` is the content of CITATION.cff, ``times`` are when jobs began and ended, sorted,
    ``results`` are files that the run made, ``data`` its catalogue entries by name.
    """
    crate = ROCrate(version="1.1")
    crate.metadata.extra_contexts.append("https://w3id.org/ro/terms/workflow-run/context")
    crate.name = f"{citation['title']}: the run {run}"
    crate.description = f"Results of the run {run}, with its config, jobs and workflow."
    crate.datePublished = times[-1]
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
    profile = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
    workflow["conformsTo"] = {"@id": profile}
    meaning = "every choice of the run, as an overlay for --configfile"
    facts = {"description": meaning, "encodingFormat": "application/yaml"}
    workflow["input"] = config["exampleOfWork"] = crate.add_formal_parameter(
        "config", "File", "#config", valueRequired=True, properties=facts
    )
    crate.root_dataset["mentions"] = crate.add_action(
        workflow,
        "#run",
        object=[config, *(_add_data(crate, name, data[name]) for name in sorted(data))],
        result=[entities[name] for name in results],
        properties={
            "name": f"The run {run}",
            "description": f"All jobs of the run; results/{run}/record/jobs.json tells of each",
            "actionStatus": "http://schema.org/CompletedActionStatus",
            **({"startTime": times[0]} if len(times) > 1 else {}),
            "endTime": times[-1],
        },
    )
    entities["README.md"]["about"] = crate.root_dataset
    made = json.dumps(crate.metadata.generate(), indent=1, sort_keys=True, ensure_ascii=False)
    (folder / NAME).write_text(made + "\n", encoding="utf-8")


def _add(crate: ROCrate, address: str, kind: str, **facts: Any) -> Entity:
    return crate.add(ContextEntity(crate, address, {"@type": kind, **facts}))


def _add_files(crate: ROCrate, folder: Path, results: str) -> dict[str, Entity]:
    """Describe all files; return what describes them, by their names."""
    entities = {}
    meanings = {f"{results}/tables/{t.name}.parquet": t.description for t in TABLES.values()}
    for name, file in files_by_name(folder).items():
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
    if path.is_file():  # the user's: its name and content are all that is published
        files = [{"name": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)}]
    parts = []
    for file in files:
        facts = {"name": file["name"], "sha256": file["sha256"]}
        facts |= {"contentSize": str(file["bytes"])} if "bytes" in file else {}
        if urls := file.get("urls"):
            facts |= {"@type": "File", "sameAs": urls[1:]}
            parts.append(crate.add_file(urls[0], properties=facts))
        else:
            parts.append(_add(crate, f"#file-{file['sha256'][:16]}", "MediaObject", **facts))
    return _add(crate, f"#dataset-{name}", "Dataset", **about, hasPart=parts)
