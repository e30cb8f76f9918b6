"""Files that may be packed with gzip."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from ntk_conditioning.data.archives import FormatError
from ntk_conditioning.files import require_file

REFETCH = "it is damaged or another file: fetch it again"


def unpacked(path: Path) -> bytes:
    """Return a file's bytes, unpacked if they are gzip's by their first two bytes.

    Raises:
        MissingFileError: if there is no such file.
        FormatError: if the packed data are damaged.
    """
    require_file(path)
    data = path.read_bytes()
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"{path}: damaged gzip data ({error}); {REFETCH}") from None
