"""Images in the formats of MNIST and its kin (IDX), SVHN (MATLAB) and CIFAR-10 (binary)."""

from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import (
    ContentError,
    FormatError,
    read_unpacked,
    reading,
    tar_files,
)
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.files import require_sha256

FOLDER = "cifar-10-batches-bin"
BATCHES: Mapping[str, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
_RECORD = 1 + 3 * 32 * 32


def read_idx(x: Path, y: Path | None) -> RawSamples:
    """Return the arrays of an IDX file of features and, if given, one of labels.

    The format (Y. LeCun, the MNIST page): two zero bytes, the element type, here 8 for unsigned
    bytes, the number of dimensions, each as a big-endian 32-bit integer, and the elements, the last
    dimension fastest. Files may be packed with gzip.

    Raises `MissingFileError`, or `FormatError` if a file is anything else.
    """
    return RawSamples(_array(x), None if y is None else _array(y), str(x), str(y))


def _array(path: Path) -> NDArray[np.uint8]:
    content = read_unpacked(path, "an IDX file")
    with reading(path, "an IDX file"):
        if content[:3] != b"\0\0\x08":
            raise FormatError(
                f"{path} starts with {content[:4]!r}, not as an IDX file of unsigned bytes; fetch "
                "it again, or save other arrays as npz and take reader npz"
            )
        shape = np.frombuffer(content, ">u4", count=content[3], offset=4).tolist()
        return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def read_svhn(x: Path, *, sha256: Collection[str]) -> RawSamples:
    """Return the images (n, 32, 32, 3) and labels 0 to 9 of one ``*_32x32.mat`` file.

    The axes of an image are rows, columns and colours. The file has images ``X`` (32, 32, 3, n) and
    labels ``y`` (n, 1), both bytes, and writes the digit 0 as label 10 (Netzer et al. 2011).

    Raises `ChecksumError` unless the file has one of the checksums ``sha256``, for damage may crash
    SciPy, and `FormatError` if it is no such file.
    """
    from scipy.io import loadmat

    require_sha256(x, sha256 or ["that of its entry, which must be given"])
    with reading(x, "a MATLAB file of the cropped digits, *_32x32.mat"):
        arrays = loadmat(x, variable_names=["X", "y"])
        images = np.ascontiguousarray(np.moveaxis(arrays["X"], 3, 0))
        return RawSamples(images, arrays["y"][:, 0] % 10, f"{x} (X)", f"{x} (y)")


def read_cifar10(path: Path, *, split: Literal["train", "test"] = "train") -> RawSamples:
    """Return the images (n, 32, 32, 3) and labels 0 to 9 of the training or the test batches.

    ``path`` is the archive ``cifar-10-binary.tar.gz``, or the folder ``cifar-10-batches-bin`` or
    the one around it. A batch is a row of records (Krizhevsky 2009, the dataset's page): a byte for
    the label, then 1024 bytes each of red, green and blue, row by row.

    Raises `FormatError` if archive or batch are damaged, and `ContentError` if one is missing.
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
        with reading(f"{path}: {name}", f"records of {_RECORD} bytes"):
            records.append(np.frombuffer(batches[name], np.uint8).reshape(-1, _RECORD))
    everything = np.concatenate(records)
    planes = everything[:, 1:].reshape(-1, 3, 32, 32)
    images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
    return RawSamples(images, everything[:, 0], str(path), f"{path} (labels)")
