"""Datasets of the catalogue: read and checked, drawn from, and described."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ntk_conditioning.data import readers
from ntk_conditioning.data.prepared import (
    PreparedSamples,
    Scaling,
    content_digest,
    require_scaling,
    scaled,
)
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.data.subsets import SubsetError, draw
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import write_text

Split = Literal["train", "test"]
PARTS = ("train_x", "train_y", "test_x", "test_y", "features")


class ShapeError(UserError):
    """A dataset has not the shape that its catalogue entry gives."""


class PartError(UserError):
    """A dataset's file is not given, or is given but not used."""


@dataclass(frozen=True)
class Entry:
    """One dataset of the catalogue, as far as reading it goes; see the catalogue's schema.

    ``sha256`` maps the parts that are files to their accepted checksums; ``path`` is the user's
    own file in place of those; its checksum is train_x's. ``shape`` is what the training part
    must have, if it is given.
    """

    name: str
    reader: str
    scaling: Scaling
    value_range: tuple[float, float] | None = None
    shape: tuple[int, int] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    sha256: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    path: Path | None = None

    def __post_init__(self) -> None:
        require_scaling(self.name, self.scaling, self.value_range)

    @classmethod
    def from_catalogue(cls, name: str, entry: Mapping[str, Any]) -> Entry:
        """Return the entry ``name`` from a catalogue that fits its schema.

        Raises:
            ScalingError: if the value range is empty.
        """
        limits = entry.get("value_range")
        sha256 = {part: tuple(file["sha256"]) for part, file in entry.get("files", {}).items()}
        if "sha256" in entry:
            sha256["train_x"] = (entry["sha256"],)
        return cls(
            name=name,
            reader=entry["reader"],
            scaling=entry["scaling"],
            value_range=None if limits is None else (float(limits[0]), float(limits[1])),
            shape=known_shape(entry),
            options=dict(entry.get("options", {})),
            sha256=sha256,
            path=Path(entry["path"]) if "path" in entry else None,
        )


@dataclass(frozen=True)
class Datasheet:
    """What a prepared dataset holds, as far as preparing it tells; `datasheets` has the rest.

    ``n`` of the ``available`` samples were drawn with ``seed``, evenly from the classes if
    ``balanced``; ``seed`` is None for all of them. ``classes`` counts the distinct labels (None
    without labels). ``dtype``, ``min`` and ``max`` are of the source's values. ``sha256`` is of
    the arrays and the scaling, not of a file.
    """

    name: str
    n: int
    d: int
    classes: int | None
    dtype: str
    scaling: Scaling
    min: float
    max: float
    available: int
    seed: int | None
    balanced: bool
    sha256: str


def known_shape(entry: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return samples and features of a catalogue entry, if they are known without its files.

    >>> known_shape({"reader": "gaussian", "options": {"n": 2000, "d": 5, "seed": 0}})
    (2000, 5)
    >>> known_shape({"reader": "npz", "path": "mine.npz"}) is None
    True
    >>> known_shape({"reader": "npz", "path": "mine.npz", "shape": [300, 7]})
    (300, 7)
    """
    options = entry.get("options", {})
    match entry["reader"]:
        case "gaussian":
            return int(options["n"]), int(options["d"])
        case "sklearn_patches":
            return int(options["samples"]), 3 * int(options["size"]) ** 2
        case "sklearn_digits":
            return readers.DIGITS
        case _:
            shape = entry.get("shape")
            return None if shape is None else (int(shape[0]), int(shape[1]))


def known_image(entry: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Return height, width and colours of a catalogue entry's samples, if they are images.

    A sample has an image's rows first, then columns, then colours, whatever its file has.

    >>> known_image({"reader": "sklearn_patches", "options": {"size": 32}})
    (32, 32, 3)
    >>> known_image({"reader": "idx", "image": [28, 28, 1]})
    (28, 28, 1)
    >>> known_image({"reader": "gaussian"}) is None
    True
    """
    match entry["reader"]:
        case "sklearn_digits":
            return 8, 8, 1
        case "sklearn_patches":
            size = int(entry["options"]["size"])
            return size, size, 3
        case "svhn" | "cifar10":
            return 32, 32, 3
        case _:
            image = entry.get("image")
            return None if image is None else (int(image[0]), int(image[1]), int(image[2]))


def read(
    entry: Entry, parts: Mapping[str, Path] | None = None, *, split: Split = "train"
) -> PreparedSamples:
    """Return the training or the test part of a catalogue entry, checked.

    ``parts`` says where the entry's files are, by the names in `PARTS`; an entry with a path of
    its own may leave ``train_x`` out. Samples of more than one axis, such as images, are
    flattened. The error names the file, the place and what would mend it.

    Raises:
        PartError: if a file is not given, or there is no such part.
        ShapeError: if the training part has not the entry's shape.
        UserError: any error that `readers` and `samples` name.
    """
    samples = _samples(entry, dict(parts or {}), split)
    x, y = samples.features(entry.value_range), samples.labels()
    if split == "train" and entry.shape is not None and entry.shape != x.shape:
        raise ShapeError(
            f"{entry.name} has {x.shape[0]} samples of {x.shape[1]} features and not the shape "
            f"{list(entry.shape)} that its catalogue entry gives; correct or remove it there"
        )
    return PreparedSamples(entry.name, x, y, entry.scaling, entry.value_range)


def subset(
    dataset: PreparedSamples, n: int, *, generator: np.random.Generator, balanced: bool = False
) -> PreparedSamples:
    """Return ``n`` samples drawn without replacement, in the dataset's own order.

    ``balanced`` takes ``n // c`` of each of the c classes, and one more of the first ``n % c`` in
    the order of the labels.

    Raises:
        SubsetError: if there are not so many samples, in the dataset or in a class, or if a
            balanced draw has no labels or fewer samples than classes.

    >>> import numpy as np
    >>> labels = np.array([0, 0, 0, 0, 1, 1])
    >>> dataset = PreparedSamples("six", np.arange(6).reshape(6, 1), labels, "none")
    >>> drawn = subset(dataset, 3, generator=np.random.default_rng(0), balanced=True)
    >>> drawn.y.tolist()
    [0, 0, 1]
    """
    name, classes = dataset.name, None
    if balanced:
        if dataset.y is None:
            raise SubsetError(f"{name} has no labels, so a balanced draw has no classes")
        classes = dataset.y
    chosen = draw(name, len(dataset.x), n, generator=generator, classes=classes)
    return dataset.rows(chosen)


def describe(
    dataset: PreparedSamples, *, available: int, seed: int | None = None, balanced: bool = False
) -> Datasheet:
    """Return the datasheet of a dataset; it scales the samples, so all checks are made.

    ``available``, ``seed`` and ``balanced`` say how the samples were drawn, see `Datasheet`.

    Raises:
        UserError: as `prepared.scaled`.
    """
    scaled(dataset)
    x, y = dataset.x, dataset.y
    return Datasheet(
        name=dataset.name,
        n=x.shape[0],
        d=x.shape[1],
        classes=None if y is None else len(np.unique(y)),
        dtype=x.dtype.name,
        scaling=dataset.scaling,
        min=float(x.min()),
        max=float(x.max()),
        available=available,
        seed=seed,
        balanced=balanced,
        sha256=content_digest(dataset),
    )


def save_datasheet(path: Path, sheet: Datasheet) -> None:
    """Write a datasheet as JSON, atomically; equal datasheets give equal bytes."""
    write_text(path, json.dumps(asdict(sheet), indent=2) + "\n")


def _samples(entry: Entry, parts: dict[str, Path], split: Split) -> RawSamples:
    """Return what the entry's reader gives for one part, from the right files."""
    name, x_part, y_part = entry.name, f"{split}_x", f"{split}_y"
    unknown = sorted(parts.keys() - set(PARTS))
    if unknown:
        raise PartError(f"{name}: no part is called {unknown[0]}; parts are {', '.join(PARTS)}")
    if entry.reader in readers.GENERATED:
        if split == "test" or parts:
            raise PartError(f"{name} needs no file and has only a training part")
        return readers.GENERATED[entry.reader](**entry.options)
    if entry.reader in readers.FROM_FEATURES:
        if split == "test" or parts.keys() != {"features"}:
            raise PartError(
                f"{name} has only a training part, of extracted features; give features=PATH alone"
            )
        return readers.FROM_FEATURES[entry.reader](parts["features"])
    if "features" in parts:
        raise PartError(f"{name}: reader {entry.reader} extracts no features; give {x_part}=PATH")
    if entry.path is not None:
        parts.setdefault("train_x", entry.path)
        if entry.reader in readers.FROM_ARCHIVE:
            parts.setdefault("test_x", entry.path)
    for part in (x_part, y_part):
        if part not in parts and (part == x_part or part in entry.sha256):
            raise PartError(f"{name}: no file is given for its part {part}; give {part}=PATH")
    if entry.reader in readers.FROM_TWO_FILES:
        reader = readers.FROM_TWO_FILES[entry.reader]
        return reader(parts[x_part], parts.get(y_part), **entry.options)
    if y_part in parts:
        raise PartError(f"{name}: reader {entry.reader} has the labels in {x_part}, not {y_part}")
    if entry.reader in readers.FROM_ARCHIVE:
        return readers.FROM_ARCHIVE[entry.reader](parts[x_part], split=split, **entry.options)
    if entry.reader in readers.FROM_KNOWN_FILE:
        reader = readers.FROM_KNOWN_FILE[entry.reader]
        return reader(parts[x_part], sha256=entry.sha256.get(x_part, ()), **entry.options)
    return readers.FROM_ONE_FILE[entry.reader](parts[x_part], **entry.options)
