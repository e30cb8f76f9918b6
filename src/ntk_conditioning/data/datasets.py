"""Datasets: read and checked, drawn from, and described."""

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
    """A dataset has not the shape that is expected."""


class PartError(UserError):
    """A dataset's file is not given, or is given but not used."""


@dataclass(frozen=True)
class Source:
    """What reads a dataset: a reader of `data.readers` with its options, and the files' checksums.

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


def read(
    source: Source, parts: Mapping[str, Path] | None = None, *, split: Split = "train"
) -> PreparedSamples:
    """Return the training or the test part of a dataset, checked.

    ``parts`` says where the source's files are, by the names in `PARTS`; a source with a path
    of its own may leave ``train_x`` out. Samples of more than one axis, such as images, are
    flattened. The error names the file, the place and what would mend it.

    Raises:
        PartError: if a file is not given, or there is no such part.
        ShapeError: if the training part has not the source's shape.
        UserError: any error that `readers` and `samples` name.
    """
    samples = _samples(source, dict(parts or {}), split)
    x, y = samples.features(source.value_range), samples.labels()
    if split == "train" and source.shape is not None and source.shape != x.shape:
        raise ShapeError(
            f"{source.name} has {x.shape[0]} samples of {x.shape[1]} features and not the shape "
            f"{list(source.shape)} that is expected; correct the shape or the file"
        )
    return PreparedSamples(source.name, x, y, source.scaling, source.value_range)


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


def _samples(source: Source, parts: dict[str, Path], split: Split) -> RawSamples:
    """Return what the source's reader gives for one part, from the right files."""
    name, x_part, y_part = source.name, f"{split}_x", f"{split}_y"
    unknown = sorted(parts.keys() - set(PARTS))
    if unknown:
        raise PartError(f"{name}: no part is called {unknown[0]}; parts are {', '.join(PARTS)}")
    if source.reader in readers.GENERATED:
        if split == "test" or parts:
            raise PartError(f"{name} needs no file and has only a training part")
        return readers.GENERATED[source.reader](**source.options)
    if source.reader in readers.FROM_FEATURES:
        if split == "test" or parts.keys() != {"features"}:
            raise PartError(
                f"{name} has only a training part, of extracted features; give features=PATH alone"
            )
        return readers.FROM_FEATURES[source.reader](parts["features"])
    if "features" in parts:
        raise PartError(f"{name}: reader {source.reader} extracts no features; give {x_part}=PATH")
    if source.path is not None:
        parts.setdefault("train_x", source.path)
        if source.reader in readers.FROM_ARCHIVE:
            parts.setdefault("test_x", source.path)
    for part in (x_part, y_part):
        if part not in parts and (part == x_part or part in source.sha256):
            raise PartError(f"{name}: no file is given for its part {part}; give {part}=PATH")
    if source.reader in readers.FROM_TWO_FILES:
        reader = readers.FROM_TWO_FILES[source.reader]
        return reader(parts[x_part], parts.get(y_part), **source.options)
    if y_part in parts:
        raise PartError(f"{name}: reader {source.reader} has the labels in {x_part}, not {y_part}")
    if source.reader in readers.FROM_ARCHIVE:
        return readers.FROM_ARCHIVE[source.reader](parts[x_part], split=split, **source.options)
    if source.reader in readers.FROM_KNOWN_FILE:
        reader = readers.FROM_KNOWN_FILE[source.reader]
        return reader(parts[x_part], sha256=source.sha256.get(x_part, ()), **source.options)
    return readers.FROM_ONE_FILE[source.reader](parts[x_part], **source.options)
