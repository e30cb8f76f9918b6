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
from ntk_conditioning.files import require_file
from ntk_workflow.bundle import BundleError

EARLIEST = (1980, 1, 1, 0, 0, 0)  #: the time of every member: the earliest that the format has
MOST = 100_000  #: members of a bundle
LARGEST_TAG = 4096  #: bytes of bag-info.txt: bagit takes minutes for a line of megabytes
TAG_MANIFEST = "tagmanifest-sha256.txt"

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


def unpack(path: Path, scratch: Path) -> Path:
    """Unpack a bundle, which is not trusted, into an empty folder; return the folder of its run.

    Nothing is written before all members are found harmless.

    Raises:
        MissingFileError: if there is no such file.
        BundleError: if it is no bundle, or a byte of it is not as the bag's manifests say.
    """
    require_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            require_harmless(archive.infolist(), path.stat().st_size)
            archive.extractall(scratch)
        (folder,) = scratch.iterdir()
        if (folder / "bag-info.txt").stat().st_size > LARGEST_TAG:
            raise BundleError(f"bag-info.txt is larger than {LARGEST_TAG} bytes")
        bag = bagit.Bag(str(folder))
        bag.validate()
        runs = sorted(folder.glob("data/results/*"))
        if len(runs) != 1:
            raise BundleError(f"{len(runs)} runs in it, not one: data/results/*")
        return runs[0]
    except (
        *(zipfile.BadZipFile, bagit.BagError, EOFError, RuntimeError, LookupError, ValueError),
        *(FileExistsError, FileNotFoundError, NotADirectoryError),
    ) as error:
        raise BundleError(f"{path}: damaged, or no bundle: {one_line(error)[:500]}") from None


def require_harmless(members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise `BundleError` unless an archive of ``size`` bytes has only what `pack` writes."""
    names = [member.filename for member in members]
    if not 0 < len(names) <= MOST:
        raise BundleError(f"{len(names)} files in it, and a bundle has 1 to {MOST}")
    if sum(member.file_size for member in members) > size:
        raise BundleError("its members are larger than the archive: a zip bomb")
    if len({name.split("/")[0] for name in names}) > 1 or len({*names}) < len(names):
        raise BundleError("a name twice, or files beside the one folder of a bundle")
    for member, name in zip(members, names, strict=True):
        parts = PurePosixPath(name).parts
        if name != "/".join(parts) or {"..", "/"} & {*parts} or len(parts) < 2:
            raise BundleError(f"member {name!r} may leave the archive's folder")
        if "\\" in name or ":" in name or not name.isprintable():
            raise BundleError(f"member {name!r} has a name that no bundle has")
        if stat.S_IFMT(member.external_attr >> 16) != stat.S_IFREG:
            raise BundleError(f"member {name!r} is not a plain file")
        if member.compress_type != zipfile.ZIP_STORED:
            raise BundleError(f"member {name!r} is compressed, as no bundle's are")
