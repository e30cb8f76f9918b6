"""The file of a bundle: a BagIt bag, zipped so that equal content gives equal bytes.

Members are stored, not deflated: the bytes do not depend on the version of zlib, and an archive
that is larger inside than outside cannot be one.
"""

import logging
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

import bagit

from ntk_conditioning.errors import UserError, one_line
from ntk_conditioning.files import require_file

logging.getLogger("bagit").setLevel(logging.CRITICAL)  # our errors have one line


def files_by_name(folder: Path) -> dict[str, Path]:
    """Return all files in a folder and below by their names in it, with slashes and sorted."""
    files = (path for path in folder.rglob("*") if not path.is_dir())
    return dict(sorted((path.relative_to(folder).as_posix(), path) for path in files))


def make_bag(folder: Path, info: Mapping[str, str]) -> None:
    """Turn a folder into a bag in place; ``info`` must hold a Bagging-Date, or it is today's."""
    bagit.make_bag(str(folder), dict(info), checksums=["sha256"])
    # its lines are in the order in which the file system lists the files
    manifest = folder / "tagmanifest-sha256.txt"
    lines = manifest.read_text(encoding="utf-8").splitlines(keepends=True)
    manifest.write_text("".join(sorted(lines)), encoding="utf-8")


def pack(folder: Path, target: Path) -> None:
    """Write all files in ``folder`` to a zip archive, under the folder's own name.

    Names are sorted, times and permissions fixed: the bytes follow from names and contents alone.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, path in files_by_name(folder).items():
            member = zipfile.ZipInfo(f"{folder.name}/{name}")  # of 1980, the earliest time
            member.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(member, path.read_bytes())


def unpack(path: Path, scratch: Path) -> Path:
    """Unpack a bundle, which is not trusted, into an empty folder; return the folder of its run.

    `zipfile` itself writes no links, and nothing outside of the folder. `UserError` if it is no
    bundle, or a byte of it is not as the bag's manifests say.
    """
    require_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
                raise UserError("its members are larger than the archive: a zip bomb")
            archive.extractall(scratch)
        (folder,) = scratch.iterdir()
        bagit.Bag(str(folder)).validate()
        (results,) = folder.glob("data/results/*")
        return results
    except (
        *(zipfile.BadZipFile, bagit.BagError, EOFError, RuntimeError, ValueError),
        *(FileExistsError, FileNotFoundError, NotADirectoryError),
    ) as error:
        raise UserError(f"{path}: damaged, or no bundle: {one_line(error)[:500]}") from None
