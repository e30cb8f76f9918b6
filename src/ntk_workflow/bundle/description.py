"""What a bundle says of itself, made again from its records: crate, README and bag-info."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import bagit
from rocrate.rocrate import ROCrate
from rocrate.utils import is_url

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import sha256
from ntk_workflow.bundle import BundleError, checks, crate, jobs
from ntk_workflow.bundle.archive import files_by_name
from ntk_workflow.config import read_yaml
from ntk_workflow.pages.rendering import render
from ntk_workflow.plan import Plan
from ntk_workflow.provenance.versions import PROJECT


def require_described(folder: Path) -> None:
    """Raise `BundleError` unless a crate's metadata describe its files, all of them and rightly.

    The files of a folder that is described as a whole are described with it.
    """
    path = folder / crate.NAME
    if not path.is_file():
        raise BundleError(f"{crate.NAME}: missing, this is no RO-Crate")
    try:
        read = ROCrate(json.loads(path.read_text(encoding="utf-8")))
        profiles = {entity.id for entity in read.root_dataset["conformsTo"]}
    except checks.MALFORMED as error:
        raise BundleError(f"{crate.NAME}: no readable RO-Crate ({one_line(error)})") from None
    if missing := sorted(crate.PROFILES.keys() - profiles):
        raise BundleError(f"{crate.NAME}: does not conform to {missing[0]}")
    described = {unquote(e.id): e for e in read.data_entities if not is_url(e.id)}
    for name, entity in sorted(described.items()):
        path, outside = folder / name, ".." in Path(name).parts or Path(name).is_absolute()
        if outside or not path.exists():
            raise BundleError(f"{name}: missing, though the RO-Crate describes it")
        if path.is_file() and entity.get("sha256") != sha256(path):
            raise BundleError(f"{name}: changed, its sha256 is not the one in the RO-Crate")
    folders = tuple(name for name in described if name.endswith("/"))
    for name in files_by_name(folder):
        if name not in described and not name.startswith(folders) and name != crate.NAME:
            raise BundleError(f"{name}: an extra file that the RO-Crate does not describe")


def require_description(folder: Path, payload: Path, plan: Plan) -> None:
    """Raise `BundleError` unless crate, README and bag-info are those that the records give."""
    try:
        found = json.loads((payload / crate.NAME).read_text(encoding="utf-8"))
        run = _run(payload, plan, _by_id(found))
        expected = crate.metadata(payload, run)
        readme = render("bundle.md.j2", title=run.citation["title"], run=run.name)
        same_readme = readme == (payload / "README.md").read_text(encoding="utf-8")
    except BundleError:
        raise
    except (UserError, ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        reason = one_line(error).replace(f"{payload}/", "") or type(error).__name__
        raise BundleError(f"{crate.NAME}: cannot be made from the records ({reason})") from None
    if found.get("@context") != expected["@context"]:
        raise BundleError(f"{crate.NAME}: has another context than an RO-Crate of a run")
    here, there = _by_id(found), _by_id(expected)
    for name in sorted(here.keys() | there.keys()):
        a, b = here.get(name, {}), there.get(name, {})
        for key in sorted(a.keys() | b.keys()):
            if a.get(key) != b.get(key):
                raise BundleError(
                    f"{crate.NAME}: {key} of {name} is {_short(a.get(key))}, and the files and "
                    f"records give {_short(b.get(key))}"
                )
    if not same_readme:
        raise BundleError("README.md: not the one that every bundle has")
    if (payload / "CITATION.cff").read_bytes() != (payload / "workflow/CITATION.cff").read_bytes():
        raise BundleError("CITATION.cff: not the same as workflow/CITATION.cff")
    info = {k: v for k, v in bagit.Bag(str(folder)).info.items() if k != "Payload-Oxum"}
    if info != (given := bag_info(run)):
        raise BundleError(
            f"bag-info.txt: says {_short(info)}, and the records give {_short(given)}"
        )


def bag_info(run: crate.Run) -> dict[str, str]:
    """Return what the bag of a run says of itself."""
    info = {"Bagging-Date": run.published[:10], "External-Identifier": run.name}
    return {**info, "Bag-Software-Agent": f"ntk-conditioning {run.version}"}


def _run(payload: Path, plan: Plan, found: Mapping[str, Any]) -> crate.Run:
    """Return what the records tell of a run; of the user's own data what the crate has."""
    record = {
        name: json.loads((payload / plan.path(f"record/{name}.json")).read_text(encoding="utf-8"))
        for name in ("jobs", "versions")
    }
    period = jobs.period(record["jobs"]["jobs"])
    data = {name: dict(plan.catalogue[name]) for name in plan.used_datasets}
    for name, entry in data.items():
        if path := entry.pop("path", None):
            parts = [found[part["@id"]] for part in found[f"#dataset-{name}"].get("hasPart", ())]
            facts = (
                {"bytes": int(parts[0]["contentSize"]), "sha256": parts[0]["sha256"]}
                if parts
                else {}
            )
            entry["files"] = {"x": {"name": Path(path).name, **facts}} if parts else {}
    software = record["versions"]
    version = software["ntk-conditioning"]["version"]
    if version != PROJECT:
        raise BundleError(f"made by version {version} of the project, and this is {PROJECT}")
    return crate.Run(
        name=plan.config["run"],
        citation=read_yaml(payload / "CITATION.cff"),
        published=period[1] if period else found["./"]["datePublished"],
        period=period,
        results=[name for name in plan.results(None) if "/record/" not in name],
        data=data,
        version=version,
        snakemake=software["libraries"]["snakemake"],
    )


def _by_id(metadata: Mapping[str, Any]) -> dict[str, Any]:
    entities = {entity["@id"]: entity for entity in metadata["@graph"]}
    if len(entities) < len(metadata["@graph"]):
        raise BundleError(f"{crate.NAME}: describes something twice")
    return entities


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 120 else f"{text[:80]} … of {len(text)} characters"
