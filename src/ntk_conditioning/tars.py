"""Tar archives, plain or packed with gzip, read in one pass without unpacking them to disk."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self

from ntk_conditioning.archives import FormatError
from ntk_conditioning.errors import one_line
from ntk_conditioning.files import require_file

_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
_DAMAGED = (tarfile.TarError, OSError, EOFError, ValueError, zlib.error)


class TarError(FormatError):
    """A tar archive is damaged, cut off, or has a member that no dataset needs."""


@dataclass(frozen=True)
class TarMember:
    """A regular file of an archive; `read` it before the next one is asked for."""

    name: str
    size: int
    _archive: Path = field(repr=False)
    _stream: IO[bytes] = field(repr=False)

    def read(self) -> bytes:
        """Return the file's content.

        Raises:
            TarError: if the archive ends inside it or is damaged there.
        """
        try:
            content = self._stream.read()
        except _DAMAGED as error:
            raise _damaged(self._archive, error) from None
        if len(content) != self.size:
            raise TarError(
                f"{self._archive}: ends inside {self.name}, after {len(content)} of its "
                f"{self.size} bytes; fetch it again"
            )
        return content


class _StrictHeader(tarfile.TarInfo):
    """A header that must be sound: `tarfile` takes a damaged one for the archive's end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # the zeros at the end
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"header at byte {archive.offset}: {error}") from None


def tar_members(path: Path) -> Iterator[TarMember]:
    """Yield the regular files of a tar archive in their order; folders are passed over.

    Nothing is written anywhere. The archive is read to its end, so that gzip's checksum is
    compared: only an iteration that ends by itself has read sound data.

    Raises:
        MissingFileError: if there is no such file.
        TarError: if the archive is damaged or cut off, or if a member is a link or a device, has
            an absolute name or one that climbs out of its folder, or stands there twice.
    """
    require_file(path)
    seen: set[str] = set()
    with path.open("rb") as plain:
        packed = plain.read(len(_GZIP)) == _GZIP
        plain.seek(0)
        stream: Any = gzip.GzipFile(fileobj=plain) if packed else plain
        with closing(stream):
            try:
                archive = tarfile.open(fileobj=stream, mode="r|", tarinfo=_StrictHeader)
            except _DAMAGED as error:
                raise _damaged(path, error) from None
            with archive:
                while (header := _next(archive, path)) is not None:
                    _require_harmless(header, path, seen)
                    content = archive.extractfile(header) if header.isfile() else None
                    if content is not None:
                        yield TarMember(header.name, header.size, path, content)
                    archive.members.clear()  # type: ignore[attr-defined]  # else all are kept
            try:
                while stream.read(_CHUNK):
                    pass
            except _DAMAGED as error:
                raise _damaged(path, error) from None


def _next(archive: tarfile.TarFile, path: Path) -> tarfile.TarInfo | None:
    try:
        return archive.next()
    except _DAMAGED as error:
        raise _damaged(path, error) from None


def _require_harmless(header: tarfile.TarInfo, path: Path, seen: set[str]) -> None:
    name = PurePosixPath(header.name)
    if name.is_absolute() or ".." in name.parts or "\\" in header.name:
        problem = "climbs out of the archive's folder"
    elif not (header.isfile() or header.isdir()):
        problem = "is a link or a device"
    elif header.isfile() and header.name in seen:
        problem = "stands in the archive twice"
    else:
        seen.add(header.name)
        return
    raise TarError(f"{path}: member {header.name!r} {problem}; this is not the original archive")


def _damaged(path: Path, error: BaseException) -> TarError:
    return TarError(f"{path}: damaged or cut off ({one_line(error)}); fetch it again")
