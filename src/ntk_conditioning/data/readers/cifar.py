"""CIFAR-10's binary version, from its archive or unpacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.readers.classes import keep_classes
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.data.tars import tar_members
from ntk_conditioning.files import require_file

FOLDER = "cifar-10-batches-bin"
BATCHES: Mapping[str, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
_OTHER_VERSIONS = {"data_batch_1": "pickled Python", "data_batch_1.mat": "MATLAB"}
_SIDE, _COLOURS, _CLASSES = 32, 3, 10
_RECORD = 1 + _COLOURS * _SIDE * _SIDE


class CifarError(FormatError):
    """A file is not laid out as CIFAR-10's binary version."""


def read_cifar10(
    path: Path,
    *,
    split: Literal["train", "test"] = "train",
    classes: Sequence[int] | None = None,
) -> RawSamples:
    """Return the images (n, 32, 32, 3) and labels 0 to 9 of the training or the test batches.

    An image has its rows first, then columns, then red, green and blue, so that it can be shown
    as it is, like SVHN's. ``path`` is the archive ``cifar-10-binary.tar.gz``, or the folder
    ``cifar-10-batches-bin`` or the one around it. A batch is a row of records (Krizhevsky 2009,
    the dataset's page): a byte for the label, then 1024 bytes each of red, green and blue, row by
    row; how many records is not prescribed. ``classes`` keeps only these.

    Raises:
        MissingFileError: if there is neither file nor folder.
        TarError: if the archive is damaged.
        CifarError: if a batch is empty, ends inside a record or has a label above 9, or if this
            is another version of CIFAR-10.
        ContentError: if a batch is missing, or a class has no image.
    """
    wanted = BATCHES[split]
    by_name = _from_folder(path, wanted) if path.is_dir() else _from_archive(path, wanted)
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise ContentError(
            f"{path} has no {missing[0]}; take cifar-10-binary.tar.gz, or the folder {FOLDER} "
            "that it holds"
        )
    batches = [by_name[name] for name in wanted]
    samples = RawSamples(
        np.concatenate([images for images, _ in batches]),
        np.concatenate([labels for _, labels in batches]),
        str(path),
        f"{path} (labels)",
    )
    return keep_classes(samples, classes)


_Batch = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def _from_folder(folder: Path, wanted: Sequence[str]) -> dict[str, _Batch]:
    inner = folder / FOLDER
    if inner.is_dir():
        folder = inner
    for name in sorted(file.name for file in folder.iterdir()):
        _require_binary(name, folder)
    batches = {}
    for name in wanted:
        path = folder / name
        if path.exists():
            require_file(path)
            _require_records(path.stat().st_size, str(path))
            batches[name] = _batch(path.read_bytes(), str(path))
    return batches


def _from_archive(archive: Path, wanted: Sequence[str]) -> dict[str, _Batch]:
    batches: dict[str, _Batch] = {}
    for member in tar_members(archive):
        name = PurePosixPath(member.name).name
        _require_binary(name, archive)
        if name not in wanted:
            continue
        source = f"{archive}, member {member.name}"
        if name in batches:
            raise CifarError(f"{source}: a second batch of that name; take the original archive")
        _require_records(member.size, source)
        batches[name] = _batch(member.read(), source)
    return batches


def _require_binary(name: str, path: Path) -> None:
    if name in _OTHER_VERSIONS:
        raise CifarError(
            f"{path} is CIFAR-10's {_OTHER_VERSIONS[name]} version; take the binary version, "
            "cifar-10-binary.tar.gz"
        )


def _require_records(size: int, source: str) -> None:
    if size == 0:
        raise CifarError(f"{source}: is empty; fetch it again")
    if size % _RECORD:
        raise CifarError(
            f"{source}: ends at byte {size}, inside record {size // _RECORD}; records have "
            f"{_RECORD} bytes: fetch it again"
        )


def _batch(content: bytes, source: str) -> _Batch:
    _require_records(len(content), source)  # the folder's file may have changed since
    records = np.frombuffer(content, np.uint8).reshape(-1, _RECORD)
    labels = records[:, 0].copy()
    wrong = np.flatnonzero(labels >= _CLASSES)
    if len(wrong):
        row = int(wrong[0])
        raise CifarError(
            f"{source}: record {row} (byte {row * _RECORD}) has label {labels[row]}, not 0 to "
            f"{_CLASSES - 1}; it is damaged or another file: fetch it again"
        )
    planes = records[:, 1:].reshape(-1, _COLOURS, _SIDE, _SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels
