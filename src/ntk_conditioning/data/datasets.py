"""Datasets: read and checked, and described."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ntk_conditioning.data import prepared
from ntk_conditioning.data.archives import ContentError
from ntk_conditioning.data.generated import cut_patches, draw_gaussian, load_digits
from ntk_conditioning.data.prepared import PreparedSamples, Scaling
from ntk_conditioning.data.readers import tables
from ntk_conditioning.data.readers.images import read_cifar10, read_idx, read_svhn
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.errors import UserError

Split = Literal["train", "test"]


@dataclass(frozen=True)
class Reader:
    """A function of files, in this order, and of the options of a catalogue's entry.

    ``parts`` are the names of the files of both splits. ``also`` is a further option: the ``split``
    where a file has both, the accepted ``sha256`` where the content is checked first.
    """

    read: Callable[..., RawSamples]
    parts: tuple[str, ...] = ("train_x", "test_x")
    also: str = ""


READERS: Mapping[str, Reader] = {
    "gaussian": Reader(draw_gaussian, ()),
    "sklearn_digits": Reader(load_digits, ()),
    "sklearn_patches": Reader(cut_patches, ()),
    "npz": Reader(tables.read_npz),
    "parquet": Reader(tables.read_parquet),
    "csv": Reader(tables.read_csv),
    "idx": Reader(read_idx, ("train_x", "train_y", "test_x", "test_y")),
    "svhn": Reader(read_svhn, also="sha256"),
    "cifar10": Reader(read_cifar10, also="split"),
    "librispeech": Reader(partial(tables.read_npz, labels="y"), ("features",)),  # extracted before
}


@dataclass(frozen=True)
class Source:
    """What reads a dataset: one of `READERS` with its options.

    ``sha256`` maps the parts that are files to their accepted checksums; ``path`` is the user's
    file in place of those; its checksum is train_x's. ``shape`` is the training part's, if known.
    """

    name: str
    reader: str
    scaling: Scaling
    value_range: tuple[float, float] | None = None
    shape: tuple[int, int] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    sha256: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    path: Path | None = None


def read(
    source: Source, parts: Mapping[str, Path] | None = None, *, split: Split = "train"
) -> PreparedSamples:
    """Return the training or the test part of a dataset, checked; images are flattened.

    ``parts`` says where the source's files are, by the names that its reader takes; a source with
    a path may leave ``train_x`` out.

    Raises `UserError` for files that are missing, and `ContentError` or `FormatError`
    for what they hold; the message names the file, the place and what would mend it.
    """
    name, reader, parts = source.name, READERS[source.reader], dict(parts or {})
    if split == "test" and "test_x" not in reader.parts:
        raise UserError(f"{name} has only a training part")
    if source.path is not None:
        for part in ("train_x", "test_x") if reader.also == "split" else ("train_x",):
            parts.setdefault(part, source.path)
    needed = [p for p in ("features", f"{split}_x", f"{split}_y") if p in reader.parts]
    for part in needed:
        if part not in parts and (not part.endswith("_y") or part in source.sha256):
            raise UserError(f"{name}: no file is given for its part {part}; give {part}=PATH")
    options = {} if needed == ["features"] else dict(source.options)  # the extraction's
    if reader.also:
        options[reader.also] = split if reader.also == "split" else source.sha256.get(needed[0], ())
    samples = reader.read(*map(parts.get, needed), **options)
    x, y = samples.features(source.value_range), samples.labels()
    if split == "train" and source.shape and source.shape != x.shape:
        raise ContentError(
            f"{name} has {x.shape[0]} samples of {x.shape[1]} features and not the shape "
            f"{list(source.shape)} that is expected; correct the shape or the file"
        )
    return PreparedSamples(name, x, y, source.scaling, source.value_range)


def describe(
    dataset: PreparedSamples, *, available: int, seed: int | None = None, balanced: bool = False
) -> dict[str, Any]:
    """Return a dataset's datasheet, as far as preparing it tells; `datasheets` has the rest.

    Its ``n`` of the ``available`` samples were drawn with ``seed``, evenly from the classes if
    ``balanced``; ``seed`` is None for all of them. ``classes`` counts the distinct labels (None
    without labels). ``dtype``, ``min`` and ``max`` are of the source's values. ``sha256`` is of
    the arrays and the scaling, not of a file.

    Raises `ContentError` as `prepared.scaled`, with which all checks are made.
    """
    prepared.scaled(dataset)
    x, y = dataset.x, dataset.y
    return {
        "name": dataset.name,
        "n": x.shape[0],
        "d": x.shape[1],
        "classes": None if y is None else len(np.unique(y)),
        "dtype": x.dtype.name,
        "scaling": dataset.scaling,
        "min": float(x.min()),
        "max": float(x.max()),
        "available": available,
        "seed": seed,
        "balanced": balanced,
        "sha256": prepared.content_digest(dataset),
    }
