"""CIFAR-10's binary version, from its archive or unpacked."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from ntk_conditioning.data.archives import REFETCH, ContentError, FormatError
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.data.tars import tar_members
from ntk_conditioning.files import require_file

FOLDER = "cifar-10-batches-bin"
BATCHES: Mapping[str, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
_OTHER_VERSIONS = {"data_batch_1": "pickled Python", "data_batch_1.mat": "MATLAB"}
_RECORD = 1 + 3 * 32 * 32


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

    Raises `FormatError` if the archive or a batch is damaged or this is another version of
    CIFAR-10, and `ContentError` if a batch is missing, or a class has no image.
    """
    batches: dict[str, bytes] = {}
    for name, source, load in (_in_folder if path.is_dir() else _in_archive)(path):
        if name in _OTHER_VERSIONS:
            raise FormatError(
                f"{path} is CIFAR-10's {_OTHER_VERSIONS[name]} version; take the binary version, "
                "cifar-10-binary.tar.gz"
            )
        if name not in BATCHES[split]:
            continue
        if name in batches:
            raise FormatError(f"{source}: a second batch of that name; take the original archive")
        batches[name] = load()
        _require_records(batches[name], source)
    if missing := [name for name in BATCHES[split] if name not in batches]:
        raise ContentError(
            f"{path} has no {missing[0]}; take cifar-10-binary.tar.gz, or the folder {FOLDER} "
            "that it holds"
        )
    content = b"".join(batches[name] for name in BATCHES[split])
    records = np.frombuffer(content, np.uint8).reshape(-1, _RECORD)
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
    samples = RawSamples(images, records[:, 0], str(path), f"{path} (labels)")
    return samples.of_classes(classes)


_Files = Iterator[tuple[str, str, Callable[[], bytes]]]  # name, what errors call it, content


def _in_folder(folder: Path) -> _Files:
    inner = folder / FOLDER
    for path in sorted((inner if inner.is_dir() else folder).iterdir()):
        if path.name in BATCHES["train"] + BATCHES["test"]:
            require_file(path)
        yield path.name, str(path), path.read_bytes


def _in_archive(archive: Path) -> _Files:
    for name, read in tar_members(archive):
        yield PurePosixPath(name).name, f"{archive}, member {name}", read


def _require_records(content: bytes, source: str) -> None:
    if not content:
        raise FormatError(f"{source}: is empty; {REFETCH}")
    if len(content) % _RECORD:
        raise FormatError(
            f"{source}: ends at byte {len(content)}, inside record {len(content) // _RECORD}; "
            f"records have {_RECORD} bytes: fetch it again"
        )
    for row, label in enumerate(content[::_RECORD]):
        if label > 9:
            raise FormatError(
                f"{source}: record {row} (byte {row * _RECORD}) has label {label}, not 0 to 9; "
                f"{REFETCH}"
            )
