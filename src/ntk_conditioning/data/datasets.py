"""Datasets: read and checked, and described."""

from collections.abc import Callable, Mapping, Sequence
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

#: Functions of a part's files and of options, and the names of the files of both parts.
READERS: Mapping[str, tuple[Callable[..., RawSamples], Sequence[str]]] = {
    "gaussian": (draw_gaussian, ()),
    "sklearn_digits": (load_digits, ()),
    "sklearn_patches": (cut_patches, ()),
    "npz": (tables.read_npz, ("train_x", "test_x")),
    "parquet": (tables.read_parquet, ("train_x", "test_x")),
    "csv": (tables.read_csv, ("train_x", "test_x")),
    "idx": (read_idx, ("train_x", "train_y", "test_x", "test_y")),
    "svhn": (read_svhn, ("train_x", "test_x")),
    "cifar10": (read_cifar10, ("train_x", "test_x")),
    "librispeech": (partial(tables.read_npz, labels="y"), ("features",)),  # extracted before
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

    ``parts`` are the source's files by the reader's names; one with a path needs no ``train_x``.

    Raises `UserError` for files that are missing, and `ContentError` or `FormatError`
    for what they hold; the message names the file, the place and what would mend it.
    """
    name, (reader, files) = source.name, READERS[source.reader]
    if split == "test" and "test_x" not in files:
        raise UserError(f"{name} has only a training part")
    held = ("train_x", "test_x") if source.reader == "cifar10" else ("train_x",)
    by_path = {} if source.path is None else dict.fromkeys(held, source.path)
    parts = by_path | dict(parts or {})
    needed = [part for part in ("features", f"{split}_x", f"{split}_y") if part in files]
    for part in needed:
        if part not in parts and (not part.endswith("_y") or part in source.sha256):
            raise UserError(f"{name}: no file is given for its part {part}; give {part}=PATH")
    implied: Mapping[str, Mapping[str, Any]] = {
        "librispeech": {},  # its options were the extraction's
        "svhn": {"sha256": source.sha256.get(f"{split}_x", ())},
        "cifar10": {"split": split},
    }
    options = implied.get(source.reader, source.options)
    if split == "test" and source.reader in ("csv", "parquet") and not options.get("features"):
        raise UserError(
            f"{name}: a test part may have other columns, or in another order; in the catalogue, "
            "list the feature columns under options, features"
        )
    samples = reader(*map(parts.get, needed), **options)
    if split == "test" and samples.y is not None and samples.y.dtype.kind in "UO":
        raise ContentError(
            f"{samples.y_source}: texts would be numbered other than in the training part; "
            "write the labels of both parts as integers"
        )
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

    Its ``n`` of the ``available`` samples were drawn with ``seed`` (None for all of them), evenly
    from the classes if ``balanced``. ``classes`` is None without labels; ``dtype``, ``min`` and
    ``max`` are of the source's values; ``sha256`` is `prepared.content_digest`.

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
