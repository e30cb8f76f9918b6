"""CIFAR-10's binary version, from its archive or unpacked."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from ntk_conditioning.data.archives import ContentError, FormatError, tar_files
from ntk_conditioning.data.samples import RawSamples

FOLDER = "cifar-10-batches-bin"
BATCHES: Mapping[str, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
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

    Raises `FormatError` if the archive or a batch is damaged, and `ContentError` if a batch is
    missing, or a class has no image.
    """
    names = BATCHES[split]
    if path.is_dir():
        folder = path / FOLDER if (path / FOLDER).is_dir() else path
        paths = [folder / name for name in names]
        batches = {path.name: path.read_bytes() for path in paths if path.is_file()}
    else:
        files = tar_files(path, lambda name: PurePosixPath(name).name in names)
        batches = {PurePosixPath(name).name: content for name, content in files}
    records = []
    for name in names:
        if name not in batches:
            raise ContentError(
                f"{path} has no {name}; take CIFAR-10's binary version, cifar-10-binary.tar.gz, or "
                f"the folder {FOLDER} that it holds"
            )
        if not batches[name] or len(batches[name]) % _RECORD:
            raise FormatError(
                f"{path}: {name} has {len(batches[name])} bytes, not a multiple of {_RECORD}, its "
                "records; fetch it again"
            )
        batch = np.frombuffer(batches[name], np.uint8).reshape(-1, _RECORD)
        if len(wrong := np.flatnonzero(batch[:, 0] > 9)):
            raise FormatError(
                f"{path}: {name}, record {wrong[0]} has label {batch[wrong[0], 0]}, not 0 to 9; "
                "fetch it again"
            )
        records.append(batch)
    everything = np.concatenate(records)
    planes = everything[:, 1:].reshape(-1, 3, 32, 32)
    images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
    samples = RawSamples(images, everything[:, 0], str(path), f"{path} (labels)")
    return samples.of_classes(classes)
