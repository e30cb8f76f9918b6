"""The catalogue of datasets: its files read and stacked, and what it says of shapes and sources."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ntk_conditioning.errors import UserError
from ntk_workflow.config import SCHEMAS, did_you_mean, read_yaml, schema_errors

# Readers are imported where a user's file is read: Snakemake starts faster without them.
if TYPE_CHECKING:
    from ntk_conditioning.data.datasets import Source

#: The reader of datasets whose samples are frames drawn from recordings.
SPEECH = "librispeech"

#: What the content of a dataset depends on. Addresses, titles and citations are left out: a new
#: mirror must not recompute a run.
CONTENT = ("reader", "options", "path", "sha256", "shape", "scaling", "value_range")

#: Users' files up to this size are read before any job starts, larger ones by their jobs.
READ_BELOW = 2**26

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
        except UserError as error:
            problems.append(str(error))
            continue
        problems += [f"{path}: {line}" for line in schema_errors(values, schema)]
        entries |= values if isinstance(values, Mapping) else {}
    return {name: entry for name, entry in entries.items() if isinstance(entry, Mapping)}, problems


def read_entry(paths: Iterable[str], name: str) -> Entry:
    """Return a dataset's entry from catalogues; `UserError` if one does not fit its schema."""
    entries, problems = load_catalogues(paths, read_yaml(SCHEMAS / "datasets.schema.yaml"))
    if problems:
        raise UserError("; ".join(problems))
    if name not in entries:
        raise UserError(f"no dataset {name!r} in {', '.join(paths)}; {did_you_mean(name, entries)}")
    entry: Entry = entries[name]
    return entry


def dataset_source(name: str, entry: Entry) -> "Source":
    """Return what reads the dataset ``name`` by an entry that fits the catalogue's schema."""
    from ntk_conditioning.data.datasets import Source

    kinds = {"value_range": float, "shape": int}
    known: Any = {key: tuple(map(kinds[key], entry[key])) for key in kinds if key in entry}
    sha256 = {part: tuple(file["sha256"]) for part, file in entry.get("files", {}).items()}
    if "sha256" in entry:
        sha256["train_x"] = (entry["sha256"],)
    return Source(
        name=name,
        reader=entry["reader"],
        scaling=entry["scaling"],
        **known,
        options=dict(entry.get("options", {})),
        sha256=sha256,
        path=Path(entry["path"]) if "path" in entry else None,
    )


def known_image(entry: Entry) -> tuple[int, int, int] | None:
    """Return height, width and colours of an entry's samples, if they are images."""
    size = entry.get("options", {}).get("size")
    known = {"sklearn_digits": (8, 8, 1), "sklearn_patches": (size, size, 3)}
    known |= dict.fromkeys(["svhn", "cifar10"], (32, 32, 3))
    image = known.get(entry["reader"], entry.get("image"))
    return (image[0], image[1], image[2]) if image else None


def classes_of(entry: Entry) -> int:
    """Return the classes of a dataset; 0 for what only reading its files tells."""
    known = {"cifar10": 10, "svhn": 10, "sklearn_digits": 10, "sklearn_patches": 2}
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
    """Return samples and features of a dataset; None for what only reading its files tells."""
    options = entry.get("options", {})
    match entry["reader"]:
        case "gaussian":
            return options["n"], options["d"]
        case "sklearn_patches":
            return options["samples"], 3 * options["size"] ** 2
        case "sklearn_digits":
            return 1797, 64
        case "librispeech":
            frames, stacked = speech["frames"], speech["stack_left"] + 1 + speech["stack_right"]
            return None if frames == "all" else frames, speech["num_mel_bins"] * stacked
    if "path" in entry and "shape" not in entry:
        return _read(json.dumps(entry))[2]
    samples, features = entry.get("shape", (None, None))
    return samples, features


def file_problems(name: str, entry: Entry) -> Iterator[str]:
    """Yield lines for files of the user's own that are not there, or not what the entry says."""
    alignments = entry.get("options", {}).get("alignments")
    for key, path in {"path": entry.get("path"), "options.alignments": alignments}.items():
        # of a bundle's run, what was outside its folder is named …/
        if path is not None and not Path(path).exists() and not path.startswith("…/"):
            remedy = "give a path that is absolute or relative to the working directory"
            yield f"catalogue: {name}.{key}: {path} does not exist; {remedy}"
    if problem := _read(json.dumps(entry))[0]:
        yield f"catalogue: {name}: {problem}"


def known_labels(entry: Entry) -> int | None:
    """Return how many different labels a dataset has, as far as that is known without a job."""
    if entry["reader"] == "gaussian" or entry.get("options", {}).get("labels", "y") is None:
        return 0
    return _read(json.dumps(entry))[1]


@cache
def _read(entry: str) -> tuple[str, int | None, tuple[int | None, int | None]]:
    """Return what is wrong with a small file of the user's own, how many labels, and the shape."""
    fields = json.loads(entry)
    path, unknown = Path(fields.get("path", "")), (None, None)
    if not path.is_file() or fields["reader"] == SPEECH or path.stat().st_size > READ_BELOW:
        return "", None, unknown

    from ntk_conditioning.data import datasets, prepared

    try:
        samples = datasets.read(dataset_source(str(path), fields))
        prepared.scaled(samples)
    except UserError as error:
        return str(error), None, unknown
    labels = 0 if samples.y is None else len(set(samples.y.tolist()))
    return "", labels, samples.x.shape
