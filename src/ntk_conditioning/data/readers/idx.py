"""The IDX format of MNIST and its kin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import FormatError
from ntk_conditioning.data.readers.packed import REFETCH, unpacked
from ntk_conditioning.data.samples import RawSamples


class IdxError(FormatError):
    """A file breaks the IDX format."""


def read_idx(x: Path, y: Path | None) -> RawSamples:
    """Return the arrays of an IDX file of features and, if given, one of labels.

    Both hold unsigned bytes, as MNIST's do: a damaged type byte would leave the file's size right
    and its values wrong.

    Raises:
        IdxError: if a file breaks the format, see `read_idx_array`, or holds another type.
    """
    labels = None if y is None else _unsigned_bytes(y)
    return RawSamples(_unsigned_bytes(x), labels, str(x), str(y))


def _unsigned_bytes(path: Path) -> NDArray[np.uint8]:
    array = read_idx_array(path)
    if array.dtype != np.uint8:
        raise IdxError(
            f"{path}: byte 2 says elements of type {array.dtype}, not unsigned bytes as in MNIST; "
            "if that is meant, save the array as npz and take the reader npz"
        )
    return array


_IDX_TYPES: Mapping[int, str] = {
    0x08: ">u1",
    0x09: ">i1",
    0x0B: ">i2",
    0x0C: ">i4",
    0x0D: ">f4",
    0x0E: ">f8",
}
_IDX_MAX_DIMENSIONS = 32  # what every NumPy can shape; MNIST has 3


def read_idx_array(path: Path) -> NDArray[Any]:
    """Return the array of one IDX file, plain or packed with gzip.

    The format (Y. LeCun, the MNIST page): two zero bytes, a byte for the element type, a byte for
    the number of dimensions, each dimension as a big-endian 32-bit integer, then the elements,
    big-endian, the last dimension fastest. Nothing may be missing and nothing may follow.

    Raises:
        MissingFileError: if there is no such file.
        IdxError: with the byte position (of the unpacked bytes) where the file goes wrong.
    """

    def refuse(problem: str) -> NoReturn:
        raise IdxError(f"{path}: {problem}; {REFETCH}")

    data = unpacked(path)
    if len(data) < 4:
        refuse(f"ends at byte {len(data)}, inside the 4-byte magic number")
    if data[0] or data[1]:
        refuse(f"bytes 0 and 1 are 0x{data[0]:02x} 0x{data[1]:02x}, not zero as in an IDX file")
    if data[2] not in _IDX_TYPES:
        refuse(f"byte 2 is 0x{data[2]:02x}, which is no IDX element type")
    dimensions = data[3]
    if not 1 <= dimensions <= _IDX_MAX_DIMENSIONS:
        refuse(f"byte 3 says {dimensions} dimensions, not 1 to {_IDX_MAX_DIMENSIONS}")
    start = 4 + 4 * dimensions
    if len(data) < start:
        refuse(f"ends at byte {len(data)}, inside the {start}-byte header")
    shape = [int(size) for size in np.frombuffer(data, ">u4", count=dimensions, offset=4)]
    if 0 in shape:
        axis = shape.index(0)
        refuse(f"bytes {4 + 4 * axis} to {7 + 4 * axis} say that dimension {axis} is 0")
    dtype = np.dtype(_IDX_TYPES[data[2]])
    end = start + math.prod(shape) * dtype.itemsize
    extent = f"the header's {' × '.join(map(str, shape))} elements end at byte {end}"
    if len(data) < end:
        refuse(f"ends at byte {len(data)}, but {extent}")
    if len(data) > end:
        refuse(f"{len(data) - end} bytes follow byte {end}, but {extent}")
    array = np.frombuffer(data, dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)
