"""The IDX format of MNIST and its kin."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import FormatError, open_unpacked
from ntk_conditioning.data.samples import RawSamples


def read_idx(x: Path, y: Path | None) -> RawSamples:
    """Return the arrays of an IDX file of features and, if given, one of labels.

    The format (Y. LeCun, the MNIST page): two zero bytes, a byte for the element type, a byte for
    the number of dimensions, each dimension as a big-endian 32-bit integer, then the elements, the
    last dimension fastest. Both files hold unsigned bytes, type 8, as MNIST's do, plain or packed
    with gzip. Nothing may be missing and nothing may follow.

    Raises `MissingFileError`, or `FormatError` if a file is anything else.
    """
    return RawSamples(_array(x), None if y is None else _array(y), str(x), str(y))


def _array(path: Path) -> NDArray[np.uint8]:
    with open_unpacked(path, "an IDX file") as stream:
        content = stream.read()
        if content[:3] != b"\0\0\x08":
            raise FormatError(
                f"{path} starts with {content[:4]!r}, not as an IDX file of unsigned bytes; fetch "
                "it again, or save other arrays as npz and take reader npz"
            )
        shape = np.frombuffer(content, ">u4", count=content[3], offset=4).tolist()
        start = 4 + 4 * len(shape)
        if 0 in shape or len(content) != start + math.prod(shape):
            raise FormatError(
                f"{path} has {len(content)} bytes, but its header announces "
                f"{' × '.join(map(str, shape))} elements from byte {start} on; fetch it again"
            )
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
