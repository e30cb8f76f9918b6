"""Archives are read whole and in order; what is cut off, damaged or out of place is named."""

import gzip
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.data.archives import FormatError
from ntk_conditioning.data.tars import tar_members
from ntk_conditioning.files import MissingFileError
from tests.support.sources import tar_bytes

BLOCK = 512
FILES = {"set/a.bin": b"a" * 700, "set/empty": b"", "set/b.bin": bytes(range(256)) * 4}
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def write(folder, content, packed=False):
    (folder / "set.tar").write_bytes(gzip.compress(content, 1) if packed else content)
    return folder / "set.tar"


def contents(path):
    return {name: read() for name, read in tar_members(path)}


def special(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header


FOLDER = special("set", tarfile.DIRTYPE)
NAMES = st.text("abc/ü", min_size=1, max_size=150).filter(lambda name: all(name.split("/")))
MEMBERS = st.dictionaries(NAMES, st.binary(max_size=1500), max_size=4)


@given(MEMBERS, st.sampled_from(FORMATS), st.booleans())
def test_round_trip_without_folders(tmp_path_factory, files, kind, packed):
    try:
        whole = tar_bytes(files, FOLDER, FOLDER, format=kind)
    except ValueError:  # ustar's names are short
        return
    path = write(tmp_path_factory.getbasetemp(), whole, packed=packed)
    assert list(contents(path).items()) == list(files.items())
    assert [name for name, _ in tar_members(path)] == list(files)  # none of them read


CLIMBS, TWICE = "climbs out of the archive's folder", "stands in the archive twice"
KINDS = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE, b"?")
LINKS = [special("x", tarfile.SYMTYPE, "/etc/passwd"), special("x", tarfile.LNKTYPE, "set/a.bin")]


@pytest.mark.parametrize(
    ("header", "problem"),
    [(special(name), CLIMBS) for name in ("../x", "set/../../x", "/etc/x", "..\\x")]
    + [(special("set/..", tarfile.DIRTYPE), CLIMBS)]
    + [(special(name), TWICE) for name in ("set/a.bin", "./set//a.bin")]
    + [(header, "but a link, a dev") for header in (*LINKS, *(special("x", k) for k in KINDS))],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_no_dataset_needs_is_refused(tmp_path, header, problem, packed):
    with pytest.raises(FormatError, match=f"set.tar: member .*{problem}"):
        contents(write(tmp_path, tar_bytes(FILES, header), packed=packed))


def end_of_members(whole: bytes) -> int:
    """Return where the zeros at the end begin; no file of `FILES` ends with zeros."""
    return -(-len(whole.rstrip(b"\0")) // BLOCK) * BLOCK


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_may_follow_the_end(tmp_path, packed):
    whole = tar_bytes(FILES)
    lost = bytearray(whole)  # a header of zeros, which looks like the end
    place = whole.index(b"set/empty")
    lost[place : place + BLOCK] = bytes(BLOCK)
    second = whole[: end_of_members(whole) + BLOCK] + whole
    for content in (whole + b"x", whole * 2, second, bytes(lost)):
        with pytest.raises(FormatError, match="data follow the archive's end at byte"):
            contents(write(tmp_path, content, packed=packed))


def test_other_files_are_named(tmp_path):
    for content in (b"", b"text", b"PK\3\4" + bytes(2000), gzip.compress(tar_bytes(FILES)) + b"x"):
        with pytest.raises(FormatError, match=r"set.tar: .*no tar archive, damaged or cut off"):
            contents(write(tmp_path, content))
    with pytest.raises(MissingFileError, match="absent does not exist"):
        contents(tmp_path / "absent")
    assert contents(write(tmp_path, tar_bytes({}))) == {}
