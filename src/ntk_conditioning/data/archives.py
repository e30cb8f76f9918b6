"""NumPy archives (npz), read without unpickling anything."""

from __future__ import annotations

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

_NPY = b"\x93NUMPY"
_NUMBER_OF_MEMBERS = -12  # its place before the end of a zip file
# A damaged header of an array can ask for any amount of memory, or be no Python at all.
_DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    TypeError,
    MemoryError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


class FormatError(UserError):
    """A file is damaged or of another format."""


class ContentError(UserError):
    """A file is sound but lacks the named array or column, or has it in another type."""


def load_arrays(
    path: Path, *, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return arrays of a NumPy archive by name; only the named ones are read.

    Raises:
        MissingFileError: if there is no such file.
        FormatError: if the file is no NumPy archive, is damaged or holds Python objects.
        ContentError: if a required array is not there.
    """
    require_file(path)
    arrays = {}
    try:
        with path.open("rb") as stream:  # np.load(path) leaves a damaged file open
            if stream.read(len(_NPY)) == _NPY:
                raise FormatError(f"{path} holds one array; save it with numpy.savez(file, x=x)")
            with zipfile.ZipFile(stream) as archive:
                known = _members(archive, stream)
                for name in (*required, *optional):
                    if name in known:
                        arrays[name] = _array(archive, known[name])
                    elif name in required:
                        names = ", ".join(map(repr, known)) or "none"
                        raise ContentError(f"{path} has no array {name!r}; its arrays: {names}")
    except UserError:
        raise
    except _DAMAGED as error:
        raise FormatError(f"{path} cannot be read as a NumPy archive: {one_line(error)}") from None
    return arrays


def _members(archive: zipfile.ZipFile, stream: IO[bytes]) -> dict[str, str]:
    """Return the members by their arrays' names, after a look at each one's own header.

    A damaged list would make an optional array seem not to be there, so its names are compared
    with those in the members' headers and its length with the number at the file's end.
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
    with archive.open(member) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a header that is odd; what it says is checked
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):
            raise ValueError(f"data follow the array in member {member}")
    return array
