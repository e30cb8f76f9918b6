"""The IDX format of MNIST and its kin."""

import math
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import REFETCH, FormatError, unpacked
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
    def refuse(problem: str, remedy: str = REFETCH) -> NoReturn:
        raise FormatError(f"{path}: {problem}; {remedy}")

    data = unpacked(path)
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
    if len(data) < start:
        refuse(f"ends at byte {len(data)}, inside the {start}-byte header")
    shape = np.frombuffer(data, ">u4", count=dimensions, offset=4).tolist()
    if 0 in shape:
        axis = shape.index(0)
        refuse(f"bytes {4 + 4 * axis} to {7 + 4 * axis} say that dimension {axis} is 0")
    end = start + math.prod(shape)
    if len(data) != end:
        extent = f"the header's {' × '.join(map(str, shape))} elements end at byte {end}"
        refuse(f"ends at byte {len(data)}, but {extent}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
