"""The catalogue of datasets: its files read and stacked, and what it says of shapes and sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ntk_conditioning.data import datasets
from ntk_conditioning.errors import UserError
from ntk_workflow.config import Layer, did_you_mean, read_yaml, schema_errors

#: The reader of datasets whose samples are frames drawn from recordings.
SPEECH = "librispeech"

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
        problems += schema_errors(values, schema, [Layer(str(path), {})])
        if isinstance(values, Mapping):
            entries.update(values)
    return entries, problems


class CatalogueError(UserError):
    """The catalogues have mistakes, or no such dataset."""


def read_entry(paths: Iterable[str], name: str) -> Entry:
    """Return a dataset's entry from catalogues that fit their schema.

    Raises:
        CatalogueError: if one does not, or has no such dataset.
    """
    schema = read_yaml(Path(__file__).resolve().parents[2] / "schemas" / "datasets.schema.yaml")
    entries, problems = load_catalogues(paths, schema)
    if problems:
        raise CatalogueError("; ".join(problems))
    if name not in entries:
        raise CatalogueError(
            f"no dataset {name!r} in {', '.join(paths)}; {did_you_mean(name, entries)}"
        )
    entry: Entry = entries[name]
    return entry


def content(entry: Entry) -> dict[str, Any]:
    """Return what the content of a dataset depends on, with the checksums of its files."""
    kept = {key: entry[key] for key in CONTENT if key in entry}
    files = {part: file["sha256"] for part, file in entry.get("files", {}).items()}
    return kept | ({"files": files} if files else {})


def files_of(entry: Entry, split: str) -> dict[str, Any]:
    """Return the catalogued files of the training or test part, by part."""
    return {part: file for part, file in entry.get("files", {}).items() if part.startswith(split)}


def shape_of(entry: Entry, speech: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return samples and features of a dataset; None for what only its files tell.

    ``speech`` is the config's, with the number of frames as it holds for this dataset.
    """
    if entry["reader"] != SPEECH:
        return datasets.known_shape(entry) or _local_shape(entry)
    frames = speech["frames"]
    stacked = speech["stack_left"] + 1 + speech["stack_right"]
    return None if frames == "all" else frames, speech["num_mel_bins"] * stacked


def _local_shape(entry: Entry) -> tuple[int | None, int | None]:
    """Return the shape of a user's own Parquet file, whose end tells it, or nothing."""
    path = entry.get("path")
    if path is None or entry["reader"] != "parquet":
        return None, None
    import pyarrow
    import pyarrow.parquet

    try:
        known = pyarrow.parquet.read_metadata(path)
    except (OSError, pyarrow.ArrowException):
        return None, None  # the job that reads it says why
    labels = entry.get("options", {}).get("labels") is not None
    features = entry.get("options", {}).get("features")
    return known.num_rows, len(features) if features else known.num_columns - labels


def file_errors(entries: Mapping[str, Entry]) -> Iterator[str]:
    """Yield lines for datasets of one run that need different files of the same name."""
    owners: dict[str, tuple[str, Any]] = {}
    for dataset, entry in entries.items():
        for file in entry.get("files", {}).values():
            name, checksums = file["name"], file["sha256"]
            owner, expected = owners.setdefault(name, (dataset, checksums))
            if checksums != expected:
                yield (
                    f"catalogue: {dataset} and {owner} need different files of the name {name}; "
                    "use them in runs of their own, with different data_dir"
                )
                break


def path_errors(name: str, entry: Entry) -> Iterator[str]:
    """Yield lines for files and folders of the user's own that a dataset lacks."""
    places = {"path": entry.get("path")}
    places["options.alignments"] = entry.get("options", {}).get("alignments")
    for key, path in places.items():
        if path is not None and not Path(path).exists():
            yield (
                f"catalogue: {name}.{key}: {path} does not exist; give a path that is absolute or "
                "relative to the working directory"
            )
