"""Archives are read whole and in order; what is cut off, damaged or out of place is named."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.data.tars import TarError, tar_members
from ntk_conditioning.files import MissingFileError
from tests.sources import tar_bytes

BLOCK = 512
FILES = {"set/a.bin": b"a" * 700, "set/empty": b"", "set/b.bin": bytes(range(256)) * 4}
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header


def write(folder: Path, content: bytes, *, packed: bool = False) -> Path:
    path = folder / "set.tar"
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    return path


def contents(path: Path) -> dict[str, bytes]:
    return {member.name: member.read() for member in tar_members(path)}


NAMES = st.text("abc/ü", min_size=1, max_size=150).filter(
    lambda name: not name.startswith("/") and all(name.split("/"))
)


@given(
    st.dictionaries(NAMES, st.binary(max_size=1500), max_size=4),
    st.sampled_from(FORMATS),
    st.booleans(),
)
def test_round_trip(tmp_path_factory, files, kind, packed):
    try:
        whole = tar_bytes(files, format=kind)
    except ValueError:  # ustar's names are short
        return
    path = write(tmp_path_factory.getbasetemp(), whole, packed=packed)
    assert list(contents(path).items()) == list(files.items())


def test_folders_and_unread_members_are_passed_over(tmp_path):
    folder = special("set", tarfile.DIRTYPE)
    path = write(tmp_path, tar_bytes(FILES, folder, folder))
    assert {member.name: member.size for member in tar_members(path)} == {
        name: len(content) for name, content in FILES.items()
    }


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (special("../x", tarfile.REGTYPE), "'../x' climbs out of the archive's folder"),
        (special("set/../../x", tarfile.REGTYPE), "climbs out of"),
        (special("set/..", tarfile.DIRTYPE), "climbs out of"),
        (special("/etc/x", tarfile.REGTYPE), "'/etc/x' climbs out of"),
        (special("..\\x", tarfile.REGTYPE), "climbs out of"),
        (special("x", tarfile.SYMTYPE, "/etc/passwd"), "'x' is neither a plain file nor a f"),
        (special("x", tarfile.LNKTYPE, "set/a.bin"), "but a link, a device or sparse"),
        (special("x", tarfile.CHRTYPE), "but a link, a device or sparse"),
        (special("x", tarfile.BLKTYPE), "but a link, a device or sparse"),
        (special("x", tarfile.FIFOTYPE), "but a link, a device or sparse"),
        (special("x", tarfile.GNUTYPE_SPARSE), "but a link, a device or sparse"),
        (special("x", b"?"), "but a link, a device or sparse"),
        (special("set/a.bin", tarfile.REGTYPE), "'set/a.bin' stands in the archive twice"),
        (special("./set//a.bin", tarfile.REGTYPE), "stands in the archive twice"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_no_dataset_needs_is_refused(tmp_path, header, problem, packed):
    with pytest.raises(TarError, match=f"set.tar: member .*{problem}"):
        contents(write(tmp_path, tar_bytes(FILES, header), packed=packed))


def end_of_members(whole: bytes) -> int:
    """Return where the zeros at the end begin; no file of `FILES` ends with zeros."""
    return -(-len(whole.rstrip(b"\0")) // BLOCK) * BLOCK


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("reading", [False, True])
def test_every_block_that_is_cut_off_is_missed(tmp_path, kind, packed, reading):
    whole = tar_bytes(FILES | {"set/" + 60 * "n" + "/" + 60 * "n": b"long"}, format=kind)
    end = end_of_members(whole) + 2 * BLOCK
    assert whole[end - 2 * BLOCK : end] == bytes(2 * BLOCK)
    for length in range(0, end, BLOCK):
        path = write(tmp_path, whole[:length], packed=packed)
        with pytest.raises(TarError, match=r"set.tar: .*cut off.*; fetch it again"):
            contents(path) if reading else list(tar_members(path))
    assert len(contents(write(tmp_path, whole[:end]))) == 4  # nothing is missing


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_may_follow_the_end(tmp_path, packed):
    whole = tar_bytes(FILES)
    lost = bytearray(whole)  # a header of zeros, which looks like the end
    place = whole.index(b"set/empty")
    lost[place : place + BLOCK] = bytes(BLOCK)
    second = whole[: end_of_members(whole) + BLOCK] + whole
    for content in (whole + b"x", whole * 2, second, bytes(lost)):
        with pytest.raises(TarError, match="data follow the archive's end at byte"):
            contents(write(tmp_path, content, packed=packed))


def test_other_files_are_named(tmp_path):
    trailing = gzip.compress(tar_bytes(FILES)) + b"x"
    for content in (b"", b"text", b"PK\3\4" + bytes(2000), b"\x1f\x8b", b"\xff" * 2000, trailing):
        with pytest.raises(TarError, match=r"set.tar: .*no tar archive, damaged or cut off"):
            contents(write(tmp_path, content))
    with pytest.raises(MissingFileError, match="absent does not exist"):
        contents(tmp_path / "absent")
    assert contents(write(tmp_path, tar_bytes({}))) == {}
