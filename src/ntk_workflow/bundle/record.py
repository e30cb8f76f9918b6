"""The record of a bundle's jobs: who made each file, with code that the bundled source has."""

import filecmp
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ntk_conditioning.errors import one_line
from ntk_workflow.bundle import BundleError
from ntk_workflow.bundle.archive import files_by_name
from ntk_workflow.bundle.derivations import derivations
from ntk_workflow.bundle.recorded import ROOT, inside
from ntk_workflow.plan import SOURCE, Plan
from ntk_workflow.provenance.digests import source_digest

#: Programs of rules that have another name than theirs.
PROGRAMS = {
    **dict.fromkeys(("aggregate_training", "aggregate_experiments"), "aggregate_table"),
    "aggregate_activation_study": "aggregate_conditioning",
    "compute_activation_study": "compute_infinite_spectrum",
    "train_and_measure_network": "train_network",
    "render_figure": "run_notebook",
}
#: What the record says of a run, of a job and of a file, see `jobs.provenance`.
_RUN_KEYS = frozenset({"files", "jobs"})
_JOB_KEYS = frozenset({"rule", "place", "code", "inputs", "outputs", "start", "end"})
_JOB_KEYS |= {"device", "dtype", "host"}
_FILE_KEYS = frozenset({"sha256", "bytes", "folder"})
_RULE = re.compile(r"^(?:rule|use rule \w+ as) (\w+)(?::| with:)$", re.MULTILINE)
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, OSError, RecursionError)
#: Parts of the source on which results and verdicts depend.
_DECIDING = ("papers/", "scripts/", "src/", "notebooks/", "rules/", "datasets.yaml")


def require_jobs(payload: Path, plan: Plan, *, own_source: bool) -> list[str]:
    """Return the rules whose code is not this checkout's; none if all of the source is.

    Raises:
        BundleError: if a result or a row has no job or two, a job read what none has made, the
            digest of its code is not that of the bundled source, or the record says what no run
            records.
    """
    name = plan.path("record/jobs.json")
    try:
        record = json.loads((payload / name).read_text(encoding="utf-8"))
        _require_known(payload, name, record)
        made: dict[str, Mapping[str, Any]] = {}
        others, digest = set(), cache(_digest)
        for job in record["jobs"]:
            for output in job["outputs"]:
                if output in made:
                    rules = f"both {made[output]['rule']} and {job['rule']}"
                    raise BundleError(f"{name}: {rules} made {output}")
                made[output] = job
            if "code" in job:
                files = _program_files(payload, plan, job, name, digest)
                here, there = (
                    () if own_source else digest(top, *(top / file for file in files))
                    for top in (ROOT, payload / "workflow")
                )
                if here != there:
                    others.add(job["rule"])
        for job in record["jobs"]:
            for each in job["inputs"]:
                known = each in made or not each.startswith(plan.path(""))
                if not known and not each.startswith(plan.path("downloads/")):
                    raise BundleError(f"{name}: {job['rule']} read {each}, which no job has made")
            fetched = (each.startswith(plan.path("downloads/")) for each in job["outputs"])
            if "code" not in job and not (job["rule"] == "download_file" and all(fetched)):
                raise BundleError(f"{name}: {job['rule']} {job['place']} has no digest of its code")
        files = record["files"].keys()
        _require_derived(plan, name, made)
    except BundleError:
        raise
    except _MALFORMED as error:
        raise BundleError(f"{name}: damaged ({one_line(error)})") from None
    for each in (*plan.results(None), *plan.all_rows(None)):
        if each not in made:
            raise BundleError(
                f"{each}: the recorded config asks for it, and {name} has no job of it"
            )
    if unknown := sorted(made.keys() - files):
        raise BundleError(f"{name}: {unknown[0]} has a job, and no checksum among the files")
    return sorted(others)


def _require_known(payload: Path, name: str, record: Mapping[str, Any]) -> None:
    """Raise `BundleError` if a record has a key that no run records, or a rule that is none."""
    said = [("it", record, _RUN_KEYS)]
    said += [(job["rule"], job, _JOB_KEYS) for job in record["jobs"]]
    said += [(file, facts, _FILE_KEYS) for file, facts in record["files"].items()]
    for what, facts, keys in said:
        if unknown := sorted(facts.keys() - keys):
            raise BundleError(f"{name}: {what} has {unknown[0]!r}, which no run records")
    files = sorted((payload / "workflow/rules").glob("*.smk"))
    rules = {rule for file in files for rule in _RULE.findall(file.read_text(errors="replace"))}
    if unknown := sorted({job["rule"] for job in record["jobs"]} - rules):
        raise BundleError(f"{name}: {unknown[0]} has a job, and workflow/rules no such rule")


def _require_derived(plan: Plan, name: str, made: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `BundleError` if what follows from other files was not made of them by its program."""
    for each in derivations(plan, with_rows=True):
        results = (file for files in each.inputs.values() for file in files)
        needed = {file for file in results if file.startswith(plan.path(""))}
        for output in made.keys() & {*each.outputs.values()}:
            rule = made[output]["rule"]
            if PROGRAMS.get(rule, rule) != each.program:
                raise BundleError(f"{name}: {rule} made {output}, which {each.program} makes")
            if absent := sorted(needed.difference(made[output]["inputs"])):
                raise BundleError(f"{name}: {rule} made {output} without reading {absent[0]}")


def require_source(payload: Path, plan: Plan) -> list[str]:
    """Return the bundled files of the source that are not this checkout's, papers and code first.

    The user's own, which no checkout has, do not count.

    Raises:
        BundleError: if a part of the source is missing, or a file that the Snakefile includes.
    """
    workflow = payload / "workflow"
    snakefile = workflow / "Snakefile"
    text = snakefile.read_text(errors="replace") if snakefile.is_file() else ""
    included = re.findall(r"""^include: ["'](.+)["']$""", text, re.MULTILINE)
    own = [inside(path) for path in (*plan.plugin_files, *plan.config["catalogues"])]
    for name in (*SOURCE, *included, *own):
        if not (workflow / name).exists():
            raise BundleError(f"workflow/{name}: missing, and a bundle has the whole source")
    others = [
        name
        for name, path in files_by_name(workflow).items()
        if not _equal(path, ROOT / name) and (name not in own or (ROOT / name).exists())
    ]
    return sorted(others, key=lambda name: not name.startswith(_DECIDING))


def _equal(path: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(path, other, shallow=False)


def require_version(payload: Path, plan: Plan) -> None:
    """Raise `BundleError` unless the recorded digest of all programs is that of the source."""
    name = plan.path("record/versions.json")
    try:
        recorded = json.loads((payload / name).read_text(encoding="utf-8"))["ntk-conditioning"][
            "code"
        ]
    except _MALFORMED as error:
        raise BundleError(f"{name}: damaged ({one_line(error)})") from None
    workflow = payload / "workflow"
    programs = sorted(workflow.glob("scripts/*.py"))
    notebooks = [workflow / f"notebooks/{figure}.ipynb" for figure in plan.figures]
    own = [workflow / inside(path) for path in plan.plugin_files]
    found = _digest(workflow, *programs, *notebooks, *own)
    if found != recorded:
        raise BundleError(f"{name}: code is {recorded}, and that of workflow/ {found}")


def _program_files(
    payload: Path, plan: Plan, job: Mapping[str, Any], name: str, digest: Callable[..., str]
) -> list[str]:
    """Return the files that a job ran; `BundleError` if its code is not the bundle's."""
    rule, workflow = job["rule"], payload / "workflow"
    notebooks = [f"notebooks/{job['place']}.ipynb"] if rule == "render_figure" else []
    files = [f"scripts/{PROGRAMS.get(rule, rule)}.py", *notebooks]
    own = [workflow / inside(path) for path in plan.plugin_files]
    for more in _choices(own):
        if job["code"] == digest(workflow, *(workflow / file for file in files), *more):
            return files
    found = digest(workflow, *(workflow / file for file in files))
    raise BundleError(
        f"{name}: code of {rule} {job['place']} is {job['code']}, and that of workflow/ {found}"
    )


def _choices(own: list[Path]) -> Iterator[list[Path]]:
    """Yield which of the user's files a job may have used: none, one kind, or all of them."""
    yield []
    yield from ([each] for each in own)
    yield own


def _digest(folder: Path, *files: Path) -> str:
    """Return the digest of programs of a checkout or of a bundle; nothing is run."""
    try:
        return source_digest(*files, source=folder / "src")
    except FileNotFoundError as error:
        return f"missing ({Path(error.filename).name})"
    except (*_MALFORMED, SyntaxError, RecursionError, MemoryError) as error:
        return f"unreadable ({one_line(error)})"
