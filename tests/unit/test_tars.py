"""Archives are read whole and in order; what is cut off, damaged or out of place is named."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.data.tars import TarError, tar_members
from ntk_conditioning.files import MissingFileError

BLOCK = 512
FILES = {"set/a.bin": b"a" * 700, "set/empty": b"", "set/b.bin": bytes(range(256)) * 4}


def tar_bytes(files: dict[str, bytes], *more: tarfile.TarInfo, **options: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", **options) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
        for header in more:
            archive.addfile(header)
    return stream.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header


def write(folder: Path, content: bytes) -> Path:
    path = folder / "set.tar"
    path.write_bytes(content)
    return path


def contents(path: Path) -> dict[str, bytes]:
    return {member.name: member.read() for member in tar_members(path)}


NAMES = st.text("abc/ü", min_size=1, max_size=150).filter(
    lambda name: not name.startswith("/") and all(name.split("/"))
)


class TestReading:
    @given(
        st.dictionaries(NAMES, st.binary(max_size=1500), max_size=4),
        st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
        st.booleans(),
    )
    def test_round_trip(self, tmp_path_factory, files, kind, packed):
        try:
            whole = tar_bytes(files, format=kind)
        except ValueError:  # ustar's names are short
            return
        path = write(tmp_path_factory.getbasetemp(), gzip.compress(whole) if packed else whole)
        assert list(contents(path).items()) == list(files.items())

    def test_folders_and_unread_members_are_passed_over(self, tmp_path):
        folder = special("set", tarfile.DIRTYPE)
        path = write(tmp_path, tar_bytes(FILES, folder, folder))
        assert [(member.name, member.size) for member in tar_members(path)] == [
            (name, len(content)) for name, content in FILES.items()
        ]

    def test_an_empty_archive_has_no_members(self, tmp_path):
        assert contents(write(tmp_path, tar_bytes({}))) == {}

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(MissingFileError, match="absent does not exist"):
            contents(tmp_path / "absent")


class TestMembers:
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
    def test_what_no_dataset_needs_is_refused(self, tmp_path, header, problem, packed):
        whole = tar_bytes(FILES, header)
        path = write(tmp_path, gzip.compress(whole) if packed else whole)
        with pytest.raises(TarError, match=f"set.tar: member .*{problem}"):
            contents(path)


def end_of_members(whole: bytes) -> int:
    """Return where the zeros at the end begin; no file of `FILES` ends with zeros."""
    last = len(whole.rstrip(b"\0"))
    return -(-last // BLOCK) * BLOCK


class TestDamage:
    @pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    @pytest.mark.parametrize("packed", [False, True])
    @pytest.mark.parametrize("reading", [False, True])
    def test_every_block_that_is_cut_off_is_missed(self, tmp_path, kind, packed, reading):
        whole = tar_bytes(FILES | {"set/" + 60 * "n" + "/" + 60 * "n": b"long"}, format=kind)
        end = end_of_members(whole)
        assert whole[end : end + 2 * BLOCK] == bytes(2 * BLOCK)
        for length in range(0, end + 2 * BLOCK, BLOCK):
            cut = whole[:length]
            path = write(tmp_path, gzip.compress(cut, 1) if packed else cut)
            with pytest.raises(TarError, match=r"set.tar: .*cut off.*; fetch it again"):
                contents(path) if reading else list(tar_members(path))
        # both blocks are there: nothing is missing
        assert len(contents(write(tmp_path, whole[: end + 2 * BLOCK]))) == 4

    def test_every_other_length_is_missed(self, tmp_path):
        whole = tar_bytes(FILES)
        for length in range(1, end_of_members(whole) + 2 * BLOCK, 37):
            with pytest.raises(TarError, match=r"set.tar: .*fetch it again"):
                contents(write(tmp_path, whole[:length]))

    def test_every_truncation_of_a_packed_archive_is_named(self, tmp_path):
        whole = gzip.compress(tar_bytes(FILES))
        for length in range(len(whole)):
            with pytest.raises(TarError, match=r"set.tar: .*fetch it again"):
                contents(write(tmp_path, whole[:length]))

    def test_nothing_may_follow_the_end(self, tmp_path):
        whole = tar_bytes(FILES)
        end = end_of_members(whole)
        for content in (whole + b"x", whole * 2, whole[: end + BLOCK] + whole):
            for path in (write(tmp_path, content), write(tmp_path, gzip.compress(content))):
                with pytest.raises(TarError, match="data follow the archive's end at byte"):
                    contents(path)
        with pytest.raises(TarError, match="damaged"):
            contents(write(tmp_path, gzip.compress(whole) + b"x"))

    def test_a_member_whose_header_is_lost_is_missed(self, tmp_path):
        whole = bytearray(tar_bytes(FILES))
        place = whole.index(b"set/empty")
        whole[place : place + BLOCK] = bytes(BLOCK)
        with pytest.raises(TarError, match="data follow the archive's end"):
            contents(write(tmp_path, bytes(whole)))

    def test_every_bit_of_every_header_counts(self, tmp_path):
        whole = tar_bytes(FILES)
        headers = [whole.index(name.encode()) for name in FILES]
        harmless = 0
        for start in headers:
            for bit in range(0, 8 * BLOCK, 7):
                damaged = bytearray(whole)
                damaged[start + bit // 8] ^= 1 << bit % 8
                try:
                    found = contents(write(tmp_path, bytes(damaged)))
                except TarError:
                    continue
                assert found == FILES
                harmless += 1
        assert harmless < 20 * len(headers)  # what ends the checksum's digits

    def test_other_files_are_named(self, tmp_path):
        for content in (b"", b"text", b"PK\3\4" + bytes(2000), b"\x1f\x8b", b"\xff" * 2000):
            with pytest.raises(TarError, match=r"set.tar: .*no tar archive, damaged or cut off"):
                contents(write(tmp_path, content))
