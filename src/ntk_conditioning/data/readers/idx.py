"""The IDX format of MNIST and its kin."""

import math
from io import BufferedIOBase
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import REFETCH, FormatError, open_unpacked, require_unpackable
from ntk_conditioning.data.samples import RawSamples

_MAX_DIMENSIONS = 32  # what every NumPy can shape; MNIST has 3


def read_idx(x: Path, y: Path | None) -> RawSamples:
    """Return the arrays of an IDX file of features and, if given, one of labels.

    The format (Y. LeCun, the MNIST page): two zero bytes, a byte for the element type, a byte for
    the number of dimensions, each dimension as a big-endian 32-bit integer, then the elements, the
    last dimension fastest. Both files hold unsigned bytes, type 8, as MNIST's do, plain or packed
    with gzip. Nothing may be missing and nothing may follow.

    Raises `MissingFileError`, or `FormatError` with the byte (unpacked) where the file goes wrong.
    """
    return RawSamples(_array(x), None if y is None else _array(y), str(x), str(y))


def _array(path: Path) -> NDArray[np.uint8]:
    with open_unpacked(path) as stream:
        return _elements(stream, path)


def _elements(stream: BufferedIOBase, path: Path) -> NDArray[np.uint8]:
    def refuse(problem: str, remedy: str = REFETCH) -> NoReturn:
        raise FormatError(f"{path}: {problem}; {remedy}")

    data = stream.read(4)
    if len(data) < 4:
        refuse(f"ends at byte {len(data)}, inside the 4-byte magic number")
    if data[0] or data[1]:
        refuse(f"bytes 0 and 1 are 0x{data[0]:02x} 0x{data[1]:02x}, not zero as in an IDX file")
    if data[2] != 8:
        remedy = "fetch it again, or if that is meant, save the array as npz and take reader npz"
        refuse(f"byte 2 is 0x{data[2]:02x}, not 0x08, unsigned bytes as in MNIST", remedy)
    dimensions = data[3]
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        refuse(f"byte 3 says {dimensions} dimensions, not 1 to {_MAX_DIMENSIONS}")
    start = 4 + 4 * dimensions
    header = stream.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        refuse(f"ends at byte {4 + len(header)}, inside the {start}-byte header")
    shape = np.frombuffer(header, ">u4").tolist()
    if 0 in shape:
        axis = shape.index(0)
        refuse(f"bytes {4 + 4 * axis} to {7 + 4 * axis} say that dimension {axis} is 0")
    size = math.prod(shape)
    require_unpackable(path, size, packed=path.stat().st_size)
    elements = stream.read(size)
    extent = f"the header's {' × '.join(map(str, shape))} elements end at byte {start + size}"
    if len(elements) < size:
        refuse(f"ends at byte {start + len(elements)}, but {extent}")
    if stream.read(1):  # and at the end gzip's checksum has been compared
        refuse(f"goes on, but {extent}")
    return np.frombuffer(elements, np.uint8).reshape(shape)
