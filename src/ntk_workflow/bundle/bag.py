"""The BagIt bag of a bundle: a sha256 of every byte, in manifests that any BagIt tool reads."""

import logging
from collections.abc import Mapping
from pathlib import Path

import bagit

from ntk_conditioning.errors import one_line
from ntk_workflow.bundle import BundleError
from ntk_workflow.bundle.archive import files_by_name

PAYLOAD = "data"
MANIFEST, TAG_MANIFEST = "manifest-sha256.txt", "tagmanifest-sha256.txt"
LARGEST = 4096  #: bytes of bag-info.txt: bagit takes minutes for a line of megabytes
_TAGS = {"bagit.txt", "bag-info.txt", MANIFEST, TAG_MANIFEST}
#: Nothing else is read: a bag may name any codec of Python's.
_DECLARATION = b"BagIt-Version: 0.97\nTag-File-Character-Encoding: UTF-8\n"

logging.getLogger("bagit").setLevel(logging.CRITICAL)  # our errors have one line


def make(folder: Path, info: Mapping[str, str]) -> None:
    """Turn a folder into a bag in place; ``info`` must hold a Bagging-Date, or it is today's."""
    bagit.make_bag(str(folder), dict(info), checksums=["sha256"])
    # these lines stand in the order in which the file system gives them
    manifest = folder / TAG_MANIFEST
    lines = manifest.read_text(encoding="utf-8").splitlines(keepends=True)
    manifest.write_text("".join(sorted(lines, key=lambda line: line.split()[1])), encoding="utf-8")


def require_whole(folder: Path) -> None:
    """Raise `BundleError` unless the files of a bag are those of its manifests, to the byte."""
    present = set(files_by_name(folder))
    if absent := sorted(_TAGS - present):
        raise BundleError(f"{absent[0]}: missing from the bag")
    if others := sorted(name for name in present - _TAGS if not name.startswith(f"{PAYLOAD}/")):
        raise BundleError(f"{others[0]}: an extra file, which no bundle has")
    if (folder / "bag-info.txt").stat().st_size > LARGEST:
        raise BundleError(f"bag-info.txt: larger than {LARGEST} bytes")
    if (folder / "bagit.txt").read_bytes() != _DECLARATION:
        raise BundleError("bagit.txt: declares another version or encoding than bundles have")
    try:
        bag = bagit.Bag(str(folder))
        listed = {*bag.entries, TAG_MANIFEST}
        if missing := sorted(listed - present):
            raise BundleError(f"{missing[0]}: missing from the bag, though a manifest lists it")
        if extra := sorted(present - listed):
            raise BundleError(f"{extra[0]}: an extra file that no manifest of the bag lists")
        bag.validate()
    except BundleError:
        raise
    except (bagit.BagError, ValueError, OSError) as error:
        first = (getattr(error, "details", None) or [error])[0]
        if isinstance(first, bagit.ChecksumMismatch):
            raise BundleError(f"{first.path}: damaged, its sha256 is not its manifest's") from None
        raise BundleError(f"the bag is damaged: {one_line(first)}") from None
