"""The catalogue of datasets: its files read and stacked, and what it says of shapes and sources."""

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ntk_conditioning.data import datasets, prepared, readers
from ntk_conditioning.errors import UserError
from ntk_workflow import config
from ntk_workflow.config import SCHEMAS, did_you_mean, read_yaml, schema_errors

#: The reader of datasets whose samples are frames drawn from recordings.
SPEECH = "librispeech"

#: Readers of one file.
ONE_FILE = ("npz", "parquet", "csv", "svhn")

#: What the content of a dataset depends on. Addresses, titles and citations are left out: a new
#: mirror must not recompute a run.
CONTENT = ("reader", "options", "path", "sha256", "shape", "scaling", "value_range")

Entry = Mapping[str, Any]


def load_catalogues(
    paths: Iterable[str], schema: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the stacked catalogue entries by name, and a line for every mistake in the files."""
    entries: dict[str, Any] = {}
    problems = []
    for path in paths:
        try:
            values = read_yaml(path)
        except ValueError as error:
            problems.append(str(error))
            continue
        problems += [f"{path}: {line}" for line in schema_errors(values, schema)]
        if isinstance(values, Mapping):
            entries.update({key: each for key, each in values.items() if isinstance(each, Mapping)})
    return entries, problems


def located(entry: Entry, home: str) -> Entry:
    """Return an entry with the files that it names where they are, see `config.located`."""
    paths = {key: config.located(entry[key], home) for key in ("path",) if key in entry}
    options = dict(entry.get("options", {}))
    if "alignments" in options:
        options["alignments"] = config.located(options["alignments"], home)
    return {**entry, **paths, **({"options": options} if options else {})}


def read_entry(paths: Iterable[str], name: str) -> Entry:
    """Return a dataset's entry from catalogues; `UserError` if one does not fit its schema."""
    schema = read_yaml(SCHEMAS / "datasets.schema.yaml")
    entries, problems = load_catalogues(paths, schema)
    if problems:
        raise UserError("; ".join(problems))
    if name not in entries:
        raise UserError(f"no dataset {name!r} in {', '.join(paths)}; {did_you_mean(name, entries)}")
    entry: Entry = entries[name]
    return entry


def dataset_source(name: str, entry: Entry) -> datasets.Source:
    """Return what reads the dataset ``name`` by an entry that fits the catalogue's schema."""
    limits, shape = entry.get("value_range"), entry.get("shape")
    sha256 = {part: tuple(file["sha256"]) for part, file in entry.get("files", {}).items()}
    if "sha256" in entry:
        sha256["train_x"] = (entry["sha256"],)
    return datasets.Source(
        name=name,
        reader=entry["reader"],
        scaling=entry["scaling"],
        value_range=None if limits is None else (float(limits[0]), float(limits[1])),
        shape=None if shape is None else (shape[0], shape[1]),
        options=dict(entry.get("options", {})),
        sha256=sha256,
        path=Path(entry["path"]) if "path" in entry else None,
    )


def known_image(entry: Entry) -> tuple[int, int, int] | None:
    """Return height, width and colours of an entry's samples, if they are images.

    A sample has an image's rows first, then columns, then colours, whatever its file has.

    >>> known_image({"reader": "sklearn_patches", "options": {"size": 32}})
    (32, 32, 3)
    """
    size = entry.get("options", {}).get("size")
    known = {"sklearn_digits": (8, 8, 1), "sklearn_patches": (size, size, 3)}
    known |= dict.fromkeys(["svhn", "cifar10"], (32, 32, 3))
    image = known.get(entry["reader"], entry.get("image"))
    return None if image is None else (image[0], image[1], image[2])


def classes_of(entry: Entry) -> int:
    """Return the classes of a dataset; 0 for what only reading its files tells.

    >>> classes_of({"reader": "cifar10", "options": {"classes": [0, 2]}})
    2
    """
    kept = entry.get("options", {}).get("classes", range(10))
    known = {"cifar10": len(kept), "svhn": len(kept), "sklearn_digits": 10, "sklearn_patches": 2}
    classes: int = known.get(entry["reader"]) or entry.get("classes", 0)
    return classes


def content(entry: Entry) -> dict[str, Any]:
    """Return what the content of a dataset depends on, with the checksums of its files."""
    kept = {key: entry[key] for key in CONTENT if key in entry}
    files = {part: file["sha256"] for part, file in entry.get("files", {}).items()}
    return kept | ({"files": files} if files else {})


def files_of(entry: Entry, split: str) -> dict[str, Any]:
    """Return the catalogued files of the training or test part, by part."""
    return {part: file for part, file in entry.get("files", {}).items() if part.startswith(split)}


def shape_of(entry: Entry, speech: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return samples and features of a dataset; None for what only reading its files tells.

    As `declared_shape`, but of a user's CSV, Parquet and npz files the samples are counted.

    >>> shape_of({"reader": "npz", "path": "mine.npz", "shape": [300, 7]}, {})
    (300, 7)
    """
    shape = declared_shape(entry, speech)
    return _local_shape(json.dumps(entry)) if shape == (None, None) else shape


def declared_shape(entry: Entry, speech: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return samples and features of a dataset as its entry has them, None where it does not.

    ``speech`` is the config's, with the number of frames as it holds for this dataset.

    >>> declared_shape({"reader": "gaussian", "options": {"n": 2000, "d": 5, "seed": 0}}, {})
    (2000, 5)
    """
    options = entry.get("options", {})
    match entry["reader"]:
        case "gaussian":
            return options["n"], options["d"]
        case "sklearn_patches":
            return options["samples"], 3 * options["size"] ** 2
        case "sklearn_digits":
            return readers.DIGITS
        case "librispeech":
            frames, stacked = speech["frames"], speech["stack_left"] + 1 + speech["stack_right"]
            return None if frames == "all" else frames, speech["num_mel_bins"] * stacked
    return (*entry["shape"][:2],) if "shape" in entry else (None, None)


@cache
def _local_shape(entry: str) -> tuple[int | None, int | None]:
    own = json.loads(entry)
    count = readers.READERS[own["reader"]].shape if "path" in own else None
    try:
        return count(Path(own["path"]), **own.get("options", {})) if count else (None, None)
    except (OSError, ValueError, LookupError, zipfile.BadZipFile):
        return None, None  # the job that reads it says why


def file_errors(entries: Mapping[str, Entry]) -> Iterator[str]:
    """Yield lines for datasets of one run that need different files of the same name."""
    owners: dict[str, tuple[str, Any]] = {}
    for dataset, entry in entries.items():
        for file in entry.get("files", {}).values():
            name, checksums = file["name"], file["sha256"]
            owner, expected = owners.setdefault(name, (dataset, checksums))
            if checksums != expected:
                problem = f"{dataset} and {owner} need different files of the name {name}"
                yield f"catalogue: {problem}; use them in runs of their own, with other data_dir"
                break


#: Files of one's own up to this size are read before any job starts, larger ones by their jobs.
READ_BELOW = 2**26


def content_errors(name: str, entry: Entry) -> Iterator[str]:
    """Yield a line if a file of the user's own cannot be read as its entry says."""
    if problem := _read(name, entry)[0]:
        yield f"catalogue: {name}: {problem}"


def known_labels(name: str, entry: Entry) -> int | None:
    """Return how many different labels a dataset has, as far as that is known without a job."""
    if entry["reader"] == "gaussian" or entry.get("options", {}).get("labels", "y") is None:
        return 0
    return _read(name, entry)[1]


def _read(name: str, entry: Entry) -> tuple[str, int | None]:
    """Return what is wrong with a file of the user's own, and how many labels it has.

    Nothing where that is for a job to find out: the file is not there, or large.
    """
    path = Path(entry.get("path", ""))
    if not path.is_file() or entry["reader"] == SPEECH or path.stat().st_size > READ_BELOW:
        return "", None
    return _read_now(name, json.dumps(entry), path.stat().st_mtime_ns)


@cache
def _read_now(name: str, entry: str, _mtime: int) -> tuple[str, int | None]:
    try:
        samples = datasets.read(dataset_source(name, json.loads(entry)))
        prepared.scaled(samples)
    except UserError as error:
        return str(error), None
    return "", 0 if samples.y is None else len(np.unique(samples.y))


def path_errors(name: str, entry: Entry) -> Iterator[str]:
    """Yield lines for files and folders of the user's own that a dataset lacks."""
    alignments = entry.get("options", {}).get("alignments")
    for key, path in {"path": entry.get("path"), "options.alignments": alignments}.items():
        if path is not None and not Path(path).exists() and not path.startswith("…/"):
            remedy = "give a path that is absolute or relative to the working directory"
            yield f"catalogue: {name}.{key}: {path} does not exist; {remedy}"
    if "path" in entry and entry["reader"] in ONE_FILE and Path(entry["path"]).is_dir():
        problem = f"{entry['path']} is a folder, and reader {entry['reader']} needs a file"
        yield f"catalogue: {name}.path: {problem}"
