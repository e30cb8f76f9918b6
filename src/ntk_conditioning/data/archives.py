"""NumPy archives (npz), read without unpickling anything, and files packed with gzip.

A few megabytes of either can hold terabytes of zeros, so what they hold has a limit.
"""

import gzip
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import require_file

REFETCH = "it is damaged or another file: fetch it again"

LIMIT = 2**26, 100
"""Unpacked, a file may have so many bytes, and so many times its own; real data pack less."""

_CHUNK = 1 << 20
_NPY, _GZIP = b"\x93NUMPY", b"\x1f\x8b"
_NUMBER_OF_MEMBERS = -12  # its place before the end of a zip file
_DAMAGED = (EOFError, OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error)
# A damaged header of an array can ask for any amount of memory, or be no Python at all.
_DAMAGED_ARRAY = (*_DAMAGED, MemoryError, TypeError, tokenize.TokenError)


class FormatError(UserError):
    """A file is damaged or of another format."""


class ContentError(UserError):
    """A source is sound, but what it holds is not what a dataset needs."""


def require_unpackable(source: str | Path, size: int, *, packed: int) -> None:
    """Raise `FormatError` if ``packed`` bytes hold ``size``, above `LIMIT`; ask before reading."""
    free, ratio = LIMIT
    if size > free + ratio * packed:
        raise FormatError(
            f"{source}: holds {size} bytes or more in {packed}, above {free >> 20} MiB and "
            f"{ratio} times the file; fetch it again, or if that is meant, store it unpacked"
        )


@contextmanager
def open_unpacked(path: Path) -> Iterator[BufferedIOBase]:
    """Yield a file's bytes as a stream, unpacked if they start as gzip's do.

    Raises `MissingFileError`, or `FormatError` where damaged data are read.
    """
    require_file(path)
    try:
        with path.open("rb") as plain:
            packed = plain.read(len(_GZIP)) == _GZIP
            plain.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=plain) as stream:
                    yield stream
            else:
                yield plain
    except UserError:
        raise
    except _DAMAGED as error:
        raise FormatError(f"{path}: damaged gzip data ({error}); {REFETCH}") from None


def unpacked(path: Path) -> bytearray:
    """Return all bytes of a file as `open_unpacked`; `FormatError` if they are above `LIMIT`."""
    content = bytearray()
    with open_unpacked(path) as stream:
        while chunk := stream.read(_CHUNK):
            content += chunk
            require_unpackable(path, len(content), packed=path.stat().st_size)
    return content


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
                wanted = {members.get(name) for name in (*required, *optional)}
                sizes = [each.file_size for each in archive.infolist() if each.filename in wanted]
                require_unpackable(path, sum(sizes), packed=path.stat().st_size)
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
    members = {name.removesuffix(".npy"): name for name in archive.namelist()}
    if len(members) < number:
        raise zipfile.BadZipFile("two members have the same name")
    return members


def _array(archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    """Return the array of one member, all of it: zip's checksum is compared only at its end."""
    with archive.open(member) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a header that is odd; what it says is checked
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):
            raise ValueError(f"data follow the array in member {member}")
    return array
