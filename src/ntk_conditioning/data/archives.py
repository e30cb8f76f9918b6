"""NumPy archives (npz), read without unpickling anything, and files packed with gzip."""

import gzip
import io
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import require_file

UNPACK = "unpack it yourself if it is no mistake"
REFETCH = "it is damaged or another file: fetch it again"

_NPY, _GZIP = b"\x93NUMPY", b"\x1f\x8b"
_NUMBER_OF_MEMBERS = -12  # its place before the end of a zip file
_DAMAGED = (EOFError, OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error)
# A damaged header of an array can ask for any amount of memory, or be no Python at all.
_DAMAGED_ARRAY = (*_DAMAGED, MemoryError, TypeError, tokenize.TokenError)


class FormatError(UserError):
    """A file is damaged or of another format."""


class ContentError(UserError):
    """A source is sound, but what it holds is not what a dataset needs."""


def unpacked(path: Path) -> bytes:
    """Return a file's bytes, unpacked if they start as gzip's do; `FormatError` if damaged."""
    require_file(path)
    data = path.read_bytes()
    if not data.startswith(_GZIP):
        return data
    most = _most(len(data))
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    except _DAMAGED as error:
        raise FormatError(f"{path}: damaged gzip data ({error}); {REFETCH}") from None
    if len(content) > most:
        raise FormatError(f"{path}: gzip data of more than {most} bytes; {UNPACK}")
    return content


def _most(packed: int) -> int:
    """Return how many bytes packed ones may become: data do, and a bomb is packed a thousandfold.

    >>> _most(10**6)
    100000000
    """
    return max(2**26, 100 * packed)


def load_arrays(
    path: Path, *, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return arrays of a NumPy archive by name; only the named ones are read.

    Raises `MissingFileError`, `FormatError` if the file is no NumPy archive, is damaged or holds
    Python objects, and `ContentError` if a required array is not there.
    """
    require_file(path)
    arrays = {}
    try:
        with path.open("rb") as stream:  # np.load(path) leaves a damaged file open
            if stream.read(len(_NPY)) == _NPY:
                raise FormatError(f"{path} holds one array; save it with numpy.savez(file, x=x)")
            with zipfile.ZipFile(stream) as archive:
                members = _members(archive, stream)
                for name in (*required, *optional):
                    if name in members:
                        arrays[name] = _array(archive, members[name])
                    elif name in required:
                        names = ", ".join(map(repr, members)) or "none"
                        raise ContentError(f"{path} has no array {name!r}; its arrays: {names}")
    except UserError:
        raise
    except _DAMAGED_ARRAY as error:
        raise FormatError(f"{path} cannot be read as a NumPy archive: {one_line(error)}") from None
    return arrays


def _members(archive: zipfile.ZipFile, stream: IO[bytes]) -> dict[str, str]:
    """Return the members by their arrays' names.

    In a damaged list an optional array may seem not to be there: its names must be those in the
    members' own headers, and its length the number at the file's end.
    """
    for member in archive.infolist():
        archive.open(member).close()
    stream.seek(_NUMBER_OF_MEMBERS - len(archive.comment), os.SEEK_END)
    (number,) = struct.unpack("<H", stream.read(2))
    if number != len(archive.infolist()):
        raise zipfile.BadZipFile(f"{len(archive.infolist())} members, but {number} were written")
    return {name.removesuffix(".npy"): name for name in archive.namelist()}


def _array(archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    """Return the array of one member, all of it: zip's checksum is compared only at its end."""
    info = archive.getinfo(member)
    if info.file_size > (most := _most(info.compress_size)):
        raise ValueError(f"member {member} has more than {most} bytes")
    with archive.open(member) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a header that is odd; what it says is checked
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):
            raise ValueError(f"data follow the array in member {member}")
    return array
