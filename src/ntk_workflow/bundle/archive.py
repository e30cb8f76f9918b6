"""The zip archive of a bundle: equal content is packed to equal bytes, and unpacked with distrust.

Members are stored, not deflated: nearly all of them are compressed by themselves, the bytes do not
depend on the version of zlib, and an archive that is larger inside than outside cannot be one.
"""

import filecmp
import itertools
import shutil
import stat
import struct
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from ntk_conditioning.errors import one_line
from ntk_conditioning.files import FullDiskError, require_file, room_for
from ntk_workflow.bundle import BundleError

EARLIEST = (1980, 1, 1, 0, 0, 0)  #: the time of every member: the earliest that the format has
MOST = 20_000  #: members of a bundle, of whose rows there is one for each job
_END = struct.Struct("<4s4H2LH")  # of the archive
_ENTRY = 512  # bytes of a member in the archive's list, at most
_UNIX = 3
_CHUNK = 1 << 20
_DAMAGED = (zipfile.BadZipFile, EOFError, ValueError, OSError, RuntimeError, struct.error)


def files_by_name(folder: Path) -> dict[str, Path]:
    """Return all files in a folder and below by their names in it, with slashes and sorted."""
    files = (path for path in folder.rglob("*") if not path.is_dir())
    return dict(sorted((path.relative_to(folder).as_posix(), path) for path in files))


def pack(folder: Path, target: Path) -> None:
    """Write all files in ``folder`` to a zip archive, under the folder's own name.

    Names are sorted, times and permissions fixed: the bytes follow from names and contents alone.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, path in files_by_name(folder).items():
            member = zipfile.ZipInfo(f"{folder.name}/{name}", EARLIEST)
            member.create_system = _UNIX
            member.external_attr = (stat.S_IFREG | 0o644) << 16
            member.file_size = path.stat().st_size  # decides whether the large form is needed
            with path.open("rb") as source, archive.open(member, "w") as sink:
                shutil.copyfileobj(source, sink, _CHUNK)


def unpack(path: Path, target: Path) -> Path:
    """Unpack an archive that `pack` wrote into the folder ``target``; return the folder in it.

    Nothing is written before all members are found harmless, never more than the archive's size.

    Raises:
        MissingFileError: if there is no such file.
        BundleError: if it is no archive, is damaged, or has a member that `pack` does not write: a
            link, a folder, one whose name climbs out or stands there twice, a compressed one.
    """
    require_file(path)
    try:
        _require_few(path)
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _require_harmless(path, members)
            for member in members:
                destination = target / member.filename
                with room_for(destination):
                    destination.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, destination.open("xb") as sink:
                        shutil.copyfileobj(source, sink, _CHUNK)  # compares the checksum at its end
    except (BundleError, FullDiskError):
        raise
    except _DAMAGED as error:
        reason = f"damaged, cut off or no zip archive ({one_line(error)})"
        raise BundleError(f"{path}: {reason}") from None
    folder = target / members[0].filename.split("/")[0]
    with tempfile.TemporaryDirectory(dir=target) as scratch:  # for what no checksum covers
        again = Path(scratch) / "again.zip"
        pack(folder, again)
        if not filecmp.cmp(path, again, shallow=False):
            reason = "damaged, or packed by another program: its bytes are not as written"
            raise BundleError(f"{path}: {reason}")
    return folder


def _require_few(path: Path) -> None:
    """Raise `BundleError` for very many members, before their list is read; `pack` ends with it."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _END.size))
        end = stream.read()
    if len(end) < _END.size or not end.startswith(b"PK\x05\x06"):
        raise zipfile.BadZipFile("it does not end as one")
    count, size = _END.unpack(end)[4:6]
    if count > MOST or size > MOST * _ENTRY:
        more = "more than 65534" if count == 65535 else str(max(count, size // _ENTRY))
        raise BundleError(f"{path}: {more} files in it, and a bundle has at most {MOST}")


def _require_harmless(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if not members:
        raise BundleError(f"{path}: the archive is empty")
    seen: set[str] = set()
    for member in members:
        if problem := _problem(member, seen):
            raise BundleError(f"{path}: member {member.filename!r} {problem}; nothing was unpacked")
        seen.add(member.filename.casefold())
    for name, other in itertools.pairwise(sorted(seen)):
        if other.startswith(f"{name}/"):
            raise BundleError(f"{path}: member {name!r} is a file and a folder at once")
    if sum(member.file_size for member in members) > path.stat().st_size:
        raise BundleError(f"{path}: its members are larger than the archive: a zip bomb")
    if len({member.filename.split("/")[0] for member in members}) > 1:
        raise BundleError(f"{path}: extra files beside the one folder of a bundle")


def _problem(member: zipfile.ZipInfo, seen: set[str]) -> str | None:
    name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
    parts, sizes = PurePosixPath(name).parts, (member.compress_size, member.file_size)
    if name.startswith("/") or ".." in parts or "\\" in name or ":" in name:
        return "climbs out of the archive's folder"
    if kind == stat.S_IFLNK:
        return "is a link"
    if kind != stat.S_IFREG or name.endswith("/"):
        return "is not a plain file"
    if member.compress_type != zipfile.ZIP_STORED or sizes[0] != sizes[1]:
        return f"is compressed, {sizes[0]} bytes for {sizes[1]}: a zip bomb?"
    if name != "/".join(parts) or len(parts) < 2 or not name.isprintable():
        return "has a name that no bundle has"
    return "stands in the archive twice" if name.casefold() in seen else None
