"""The file of a bundle: a BagIt bag, zipped so that equal content gives equal bytes.

Members are stored, not deflated: nearly all of them are compressed by themselves, the bytes do not
depend on the version of zlib, and an archive that is larger inside than outside cannot be one.
"""

import logging
import shutil
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import bagit

from ntk_conditioning.errors import one_line
from ntk_conditioning.files import require_file, room_for
from ntk_workflow.bundle import BundleError

EARLIEST = (1980, 1, 1, 0, 0, 0)  #: the time of every member: the earliest that the format has
MOST = 100_000  #: members of a bundle
LARGEST_TAG = 4096  #: bytes of bag-info.txt: bagit takes minutes for a line of megabytes
PAYLOAD = "data"
TAG_MANIFEST = "tagmanifest-sha256.txt"
#: Nothing else is read: a bag may name any of Python's codecs.
_DECLARATION = b"BagIt-Version: 0.97\nTag-File-Character-Encoding: UTF-8\n"

logging.getLogger("bagit").setLevel(logging.CRITICAL)  # our errors have one line


def files_by_name(folder: Path) -> dict[str, Path]:
    """Return all files in a folder and below by their names in it, with slashes and sorted."""
    files = (path for path in folder.rglob("*") if not path.is_dir())
    return dict(sorted((path.relative_to(folder).as_posix(), path) for path in files))


def make_bag(folder: Path, info: Mapping[str, str]) -> None:
    """Turn a folder into a bag in place; ``info`` must hold a Bagging-Date, or it is today's."""
    bagit.make_bag(str(folder), dict(info), checksums=["sha256"])
    # these lines stand in the order in which the file system gives them
    manifest = folder / TAG_MANIFEST
    lines = manifest.read_text(encoding="utf-8").splitlines(keepends=True)
    manifest.write_text("".join(sorted(lines, key=lambda line: line.split()[1])), encoding="utf-8")


def require_bag(folder: Path) -> None:
    """Raise `BundleError` unless the files of a bag are those of its manifests, to the byte."""
    present = set(files_by_name(folder))
    try:
        if (folder / "bag-info.txt").stat().st_size > LARGEST_TAG:
            raise BundleError(f"bag-info.txt: larger than {LARGEST_TAG} bytes")
        if (folder / "bagit.txt").read_bytes() != _DECLARATION:
            raise BundleError("bagit.txt: declares another version or encoding than bundles have")
        bag = bagit.Bag(str(folder))
        listed = {*bag.entries, TAG_MANIFEST}
        if missing := sorted(listed - present):
            raise BundleError(f"{missing[0]}: missing from the bag, though a manifest lists it")
        if extra := sorted(present - listed):
            raise BundleError(f"{extra[0]}: an extra file that no manifest of the bag lists")
        bag.validate()
    except bagit.BagError as error:
        first = (getattr(error, "details", None) or [error])[0]
        if isinstance(first, bagit.ChecksumMismatch):
            raise BundleError(f"{first.path}: damaged, its sha256 is not its manifest's") from None
        raise BundleError(f"the bag is damaged: {one_line(first)}") from None
    except (ValueError, OSError) as error:
        raise BundleError(f"the bag is damaged: {one_line(error)}") from None


def pack(folder: Path, target: Path) -> None:
    """Write all files in ``folder`` to a zip archive, under the folder's own name.

    Names are sorted, times and permissions fixed: the bytes follow from names and contents alone.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, path in files_by_name(folder).items():
            member = zipfile.ZipInfo(f"{folder.name}/{name}", EARLIEST)
            member.create_system = 3  # Unix
            member.external_attr = (stat.S_IFREG | 0o644) << 16
            member.file_size = path.stat().st_size  # decides whether the large form is needed
            with path.open("rb") as source, archive.open(member, "w") as sink:
                shutil.copyfileobj(source, sink)


def unpack(path: Path, target: Path) -> Path:
    """Unpack an archive that `pack` wrote into the folder ``target``; return the folder in it.

    Nothing is written before all members are found harmless, never more than the archive's size.

    Raises:
        MissingFileError: if there is no such file.
        BundleError: if it is no archive, is damaged, or has a member that `pack` does not write: a
            link, a folder, one whose name leaves the archive's folder, a compressed one.
    """
    require_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _require_harmless(path, members)
            for member in members:
                destination = target / member.filename
                with room_for(destination):
                    destination.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, destination.open("xb") as sink:
                        shutil.copyfileobj(source, sink)
    except (
        zipfile.BadZipFile,
        EOFError,
        ValueError,
        NotImplementedError,
        FileExistsError,
    ) as error:
        reason = f"damaged, cut off or no zip archive ({one_line(error)})"
        raise BundleError(f"{path}: {reason}") from None
    return target / members[0].filename.split("/")[0]


def _require_harmless(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if not 0 < len(members) <= MOST:
        raise BundleError(f"{path}: {len(members)} files in it, and a bundle has 1 to {MOST}")
    for member in members:
        if problem := _problem(member):
            raise BundleError(f"{path}: member {member.filename!r} {problem}; nothing was unpacked")
    if sum(member.file_size for member in members) > path.stat().st_size:
        raise BundleError(f"{path}: its members are larger than the archive: a zip bomb")
    if len({member.filename.split("/")[0] for member in members}) > 1:
        raise BundleError(f"{path}: extra files beside the one folder of a bundle")


def _problem(member: zipfile.ZipInfo) -> str | None:
    name, parts = member.filename, PurePosixPath(member.filename).parts
    if name.startswith("/") or ".." in parts or "\\" in name or ":" in name:
        return "leaves the archive's folder"
    if stat.S_IFMT(member.external_attr >> 16) != stat.S_IFREG or name.endswith("/"):
        return "is not a plain file"
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        return "is compressed, as no bundle's are: a zip bomb?"
    if name != "/".join(parts) or len(parts) < 2 or not name.isprintable():
        return "has a name that no bundle has"
    return None
