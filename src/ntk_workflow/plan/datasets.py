"""The datasets of a run: their files, draws and datasheets."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from ntk_conditioning import tables
from ntk_workflow import catalogue
from ntk_workflow.catalogue import SPEECH
from ntk_workflow.checks import require
from ntk_workflow.config import did_you_mean
from ntk_workflow.provenance import digests
from ntk_workflow.run import GRID, STUDY_OF, Run, refuse, used_datasets
from ntk_workflow.yaml_files import to_words


def downloads(run: Run) -> dict[str, Mapping[str, Any]]:
    """Return the catalogued files by name; those of the run's own datasets come last and win."""
    entries = [run.catalogue.get(name, {}) for name in [*run.catalogue, *used_datasets(run.config)]]
    return {file["name"]: file for entry in entries for file in entry.get("files", {}).values()}


def original_files(run: Run, dataset: str, split: str = "train") -> list[str]:
    """Return what must be there before a dataset is read: the receipts of its downloads.

    A user's path needs no job.
    """
    files = catalogue.files_of(run.catalogue[dataset], split).values()
    return [run.path("downloads", f"{file['name']}.json") for file in files]


def prepared_from(run: Run, dataset: str, draw: str) -> list[str]:
    """Return the inputs of a prepared dataset."""
    if dataset not in run.catalogue:
        refuse(f"no dataset {dataset!r}; {did_you_mean(dataset, run.catalogue)}")
    if run.catalogue[dataset]["reader"] == SPEECH:
        return [run.path("features", f"{dataset}.npz")]
    return original_files(run, dataset, "test" if draw == "test" else "train")


def local_files(run: Run, dataset: str, split: str = "train") -> dict[str, str]:
    """Return where a dataset's training or test samples are read from, by part."""
    entry = run.catalogue[dataset]
    if "path" in entry:
        return {"train_x": entry["path"]}
    files = catalogue.files_of(entry, split)
    return {part: f"{run.config['data_dir']}/{file['name']}" for part, file in files.items()}


def parts(run: Run, dataset: str, draw: str) -> list[str]:
    """Return the files of a dataset for the program that reads them, as PART=FILE."""
    files = local_files(run, dataset, "test" if draw == "test" else "train")
    if run.catalogue[dataset]["reader"] == SPEECH:
        files = {"features": run.with_prefix(run.path("features", f"{dataset}.npz"))}
    return [f"{part}={path}" for part, path in files.items()]


def entry(run: Run, dataset: str) -> str:
    """Return what the catalogue says of a dataset's content, for a job to depend on."""
    return repr(sorted(catalogue.content(run.catalogue[dataset]).items()))


def user_content(run: Run, dataset: str) -> list[str]:
    """Return digests of a user's file and alignments; the catalogue has all others'."""
    entry = run.catalogue[dataset]
    places = (entry.get("path"), entry.get("options", {}).get("alignments"))
    return [content(path) for path in places if path]


@cache
def content(path: str) -> str:
    """Return a digest of a user's file or folder, taken once each time Snakemake starts."""
    return digests.path_digest(path)


def titles(run: Run) -> str:
    """Return the titles of the run's datasets by name, in JSON, as figures and explorer take it."""
    entries = {name: run.catalogue.get(name, {}) for name in used_datasets(run.config)}
    return json.dumps({k: entry["title"] for k, entry in entries.items() if "title" in entry})


def speech_options(run: Run, dataset: str) -> list[str]:
    """Return which frames of a corpus are drawn, and how they become features, as options."""
    options, exception = run.catalogue[dataset]["options"], run.config["overrides"].get(dataset, {})
    frames = exception.get("frames", run.config["speech"]["frames"])
    words = ["--subset", options["subset"], "--frames", str(frames)]
    if folder := options.get("alignments"):
        words += ["--alignments", folder]
    settings = to_words({k: v for k, v in sorted(run.config["speech"].items()) if k != "frames"})
    return [*words, "--settings", *settings]


def draw_options(run: Run, dataset: str, draw: str) -> list[str]:
    """Return the options that say which samples of a dataset make up a draw."""
    if draw in ("all", "test"):
        return ["--split", "test"] if draw == "test" else []
    samples = ["--samples", str(run.setting("samples", dataset))]
    balanced = ["--balanced"] if run.setting("balanced", dataset) else []
    return [*samples, "--seed", draw.removeprefix("seed-"), *balanced]


def drawing_seeds(run: Run, dataset: str) -> list[Any]:
    """Return the seeds of the main grid where they only draw the samples."""
    whole = run.setting("samples", dataset) == "all"
    return [] if whole else list(run.config["seeds"])


def draws(run: Run, dataset: str) -> list[str]:
    """Return the draws of a dataset of the main grid: one for each seed, or the whole."""
    return [f"seed-{seed}" for seed in drawing_seeds(run, dataset)] or ["all"]


def draw_files(run: Run, dataset: str, extension: str) -> list[str]:
    """Return the prepared samples of a row's seeds (npz), or their datasheets (json)."""
    return [run.path("datasets", dataset, f"{draw}.{extension}") for draw in draws(run, dataset)]


def datasheets(run: Run) -> list[str]:
    """Return the datasheets of all draws of the main grid, and of studies that condition as it."""
    require(run, GRID)
    described = [(name, draw) for name in run.config["datasets"] for draw in draws(run, name)]
    for table, study in STUDY_OF.items():
        if tables.get(table).like == "conditioning" and run.section(study):
            described += [(name, "all") for name in run.section(study)["datasets"]]
    unique = dict.fromkeys(described)
    return [run.path("datasheets", name, f"{draw}.parquet") for name, draw in unique]
