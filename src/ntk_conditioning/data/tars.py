"""Tar archives, plain or packed with gzip, read in one pass without unpacking them to disk."""

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Self

from ntk_conditioning.data.archives import FormatError, require_unpackable
from ntk_conditioning.errors import one_line
from ntk_conditioning.files import require_file

_CHUNK = 1 << 20
_LONGEST_NAME = 1 << 20  # bytes of what precedes a file to name it; real ones have hundreds
_DAMAGED = (tarfile.TarError, OSError, EOFError, ValueError, zlib.error)


class _StrictHeader(tarfile.TarInfo):
    """A header that must be sound: `tarfile` takes a damaged one for the archive's end.

    It also reads a long name or a PAX header into memory, however long they say they are.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type not in tarfile.REGULAR_TYPES and header.size > _LONGEST_NAME:
            raise tarfile.ReadError(f"a header without a file announces {header.size} bytes")
        return header

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # the zeros at the end
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"header at byte {archive.offset}: {error}") from None


def tar_members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the regular files of a tar archive in their order; folders are passed over.

    A file is its name and a function that reads it, before the next one is asked for.
    Only an iteration that ends by itself has read an archive that is whole: two blocks of zeros
    must end it, and gzip's checksum is compared. Raises `FormatError` if it is damaged or cut off,
    or if a member is a link or a device, has a name outside of its folder, or is there twice, or
    if all together are above `archives.LIMIT`.
    """
    require_file(path)
    packed_size, size = path.stat().st_size, 0
    seen: set[PurePosixPath] = set()
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        stream: Any = gzip.GzipFile(fileobj=plain) if packed else plain
        with (
            closing(stream),
            _faults_named(path),
            tarfile.open(fileobj=stream, mode="r|", tarinfo=_StrictHeader) as archive,
        ):
            while (header := archive.next()) is not None:
                _require_harmless(header, path, seen)
                size += tarfile.BLOCKSIZE + header.size
                require_unpackable(path, size, packed=packed_size)
                if header.isfile():
                    yield header.name, partial(_content, archive, header, path)
                archive.members.clear()  # type: ignore[attr-defined]  # else all are kept
            _require_end(archive, path)


def _content(archive: tarfile.TarFile, header: tarfile.TarInfo, path: Path) -> bytes:
    with _faults_named(path, f"in member {header.name!r}: "):
        stream = archive.extractfile(header)
        content = stream.read() if stream else b""
    if len(content) != header.size:
        raise FormatError(
            f"{path}: ends inside {header.name}, after {len(content)} of its {header.size} bytes; "
            "fetch it again"
        )
    return content


def _require_harmless(header: tarfile.TarInfo, path: Path, seen: set[PurePosixPath]) -> None:
    name = PurePosixPath(header.name)  # without the "." parts
    if name.is_absolute() or ".." in name.parts or "\\" in header.name:
        problem = "climbs out of the archive's folder"
    elif header.issparse() or not (header.isfile() or header.isdir()):
        problem = "is neither a plain file nor a folder, but a link, a device or sparse"
    elif header.size < 0:
        problem = "has a negative size"
    elif name in seen:
        problem = "stands in the archive twice"
    else:
        seen |= {name} if header.isfile() else set()
        return
    raise FormatError(f"{path}: member {header.name!r} {problem}; this is not the original archive")


def _require_end(archive: tarfile.TarFile, path: Path) -> None:
    """Read what follows the block of zeros at which `tarfile` stops: one more, and only zeros."""
    stream: Any = archive.fileobj  # where `tarfile` left off, its buffer included
    end = stream.tell()
    while chunk := stream.read(_CHUNK):
        if chunk.strip(b"\0"):
            raise FormatError(
                f"{path}: data follow the archive's end at byte {end}; it is damaged or not the "
                "original archive: fetch it again"
            )
    if stream.tell() < end + tarfile.BLOCKSIZE:
        raise FormatError(f"{path}: cut off inside the zeros that end an archive; fetch it again")


@contextmanager
def _faults_named(path: Path, where: str = "") -> Iterator[None]:
    try:
        yield
    except FormatError:
        raise
    except _DAMAGED as error:
        raise FormatError(
            f"{path}: {where}no tar archive, damaged or cut off ({one_line(error)}); fetch it again"
        ) from None
