"""NumPy archives (npz), read without unpickling anything."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import require_file


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
            archive = np.load(stream, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise FormatError(f"{path} holds one array; save it with numpy.savez(file, x=x)")
            for name in (*required, *optional):
                if name in archive:
                    arrays[name] = archive[name]
                elif name in required:
                    known = ", ".join(map(repr, archive.files)) or "none"
                    raise ContentError(f"{path} has no array {name!r}; its arrays: {known}")
    except UserError:
        raise
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise FormatError(f"{path} cannot be read as a NumPy archive: {one_line(error)}") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # NumPy hands out other members as bytes
            raise FormatError(f"{path}: member {name!r} is no NumPy array; save the archive anew")
    return arrays
