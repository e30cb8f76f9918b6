"""NumPy archives (npz), gzip and tar: read without unpickling, and without unpacking to disk."""

import gzip
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import require_file

#: Unpacked, a file may have so many bytes, and so many times its own: a few megabytes can hold
#: terabytes of zeros, real data pack less.
LIMIT = 2**26, 100


class FormatError(UserError):
    """A file is damaged or of another format."""


class ContentError(UserError):
    """A source is sound, but what it holds is not what a dataset needs."""


@contextmanager
def reading(source: Path | str, kind: str) -> Iterator[None]:
    """Raise `FormatError` where a library fails in the block to read a ``source`` of that kind.

    Every exception counts: what damaged data make libraries raise is documented nowhere.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise FormatError(
            f"{source} cannot be read as {kind}: {one_line(error)}; it is damaged or another file: "
            "fetch or save it again"
        ) from None


def require_unpackable(source: Path | str, size: int, *, packed: int) -> None:
    """Raise `FormatError` if ``packed`` bytes hold ``size``, above `LIMIT`; ask before reading."""
    free, ratio = LIMIT
    if size > free + ratio * packed:
        raise FormatError(
            f"{source}: holds {size} bytes or more in {packed}, above {free >> 20} MiB and "
            f"{ratio} times the file; fetch it again, or if that is meant, store it unpacked"
        )


def read_unpacked(path: Path, kind: str) -> bytes:
    """Return a file's bytes, unpacked if they start as gzip's do.

    Raises `MissingFileError`, or `FormatError` as `reading` and if they are above `LIMIT`.
    """
    require_file(path)
    with reading(path, kind), path.open("rb") as plain:
        if plain.peek(2)[:2] != b"\x1f\x8b":
            return plain.read()
        (free, ratio), packed = LIMIT, path.stat().st_size
        content, file, left = bytearray(), gzip.GzipFile(fileobj=plain), free + ratio * packed + 1
        while left and (chunk := file.read(min(left, 1 << 20))):  # all at once would take `left`
            content += chunk
            left -= len(chunk)
        require_unpackable(path, len(content), packed=packed)
        return bytes(content)


class _Header(tarfile.TarInfo):
    """A block before a member; tarfile reads whole what describes members, such as long names."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if not header.isreg() and header.size > 1 << 20:
            raise ValueError(f"{header.size} bytes describe a member")
        return header


def tar_files(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the ``wanted`` files of a tar archive, plain or packed.

    Raises `MissingFileError`, or `FormatError` as `reading`, if members are above `LIMIT`, or if
    one is a link or a device, has a name outside of its folder, or is there twice. An iteration
    that ends by itself has read the whole file, with gzip's checksum.
    """
    require_file(path)
    size, names = 0, set()
    with reading(path, "a tar archive"), tarfile.open(path, tarinfo=_Header) as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            outside = name.is_absolute() or ".." in name.parts or name in names
            if outside or member.issparse() or not (member.isreg() or member.isdir()):
                raise FormatError(
                    f"{path}: member {member.name!r} is a link or a device, stands outside of the "
                    "archive's folder or in it twice; take the original archive"
                )
            names |= {name} if member.isreg() else set()
            size += tarfile.BLOCKSIZE + member.size
            require_unpackable(path, size, packed=path.stat().st_size)
            if member.isreg() and wanted(member.name):
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, file.read()
        rest: Any = archive.fileobj
        while chunk := rest.read(1 << 20):
            if chunk.strip(b"\0"):
                raise tarfile.ReadError("data follow the archive's end")


def load_arrays(
    path: Path, *, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return arrays of a NumPy archive by name; only the named ones are read.

    Raises `MissingFileError`, `FormatError` if the file is no NumPy archive, is damaged or holds
    Python objects, and `ContentError` if a required array is not there.
    """
    require_file(path)
    arrays = {}
    with reading(path, "a NumPy archive, as numpy.savez writes it"), zipfile.ZipFile(path) as file:
        sizes = {m.filename.removesuffix(".npy"): m.file_size for m in file.filelist}
        if missing := [name for name in required if name not in sizes]:
            names = ", ".join(map(repr, sizes)) or "none"
            raise ContentError(f"{path} has no array {missing[0]!r}; its arrays: {names}")
        wanted = [name for name in (*required, *optional) if name in sizes]
        total = sum(sizes[name] for name in wanted)
        require_unpackable(path, total, packed=path.stat().st_size)
        for name in wanted:
            with file.open(f"{name}.npy") as stream:
                arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
                if stream.read():  # at the end zip compares its checksum
                    raise zipfile.BadZipFile(f"data follow the array {name!r}")
    return arrays
