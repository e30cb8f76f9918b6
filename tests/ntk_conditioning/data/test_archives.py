"""Archives are read whole and in order; what a small file may hold is limited before it is read."""

import gzip
import io
import tarfile
import tracemalloc
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.data import archives
from ntk_conditioning.data.archives import FormatError, tar_files
from ntk_conditioning.data.readers.images import FOLDER, read_cifar10, read_idx
from ntk_conditioning.data.readers.tables import read_npz, read_parquet
from tests.ntk_conditioning.data.speech.corpora import UTTERANCES, read_flac
from tests.support.sources import tar_bytes

FILES = {"set/a.bin": b"a" * 700, "set/empty": b"", "set/b.bin": bytes(range(256)) * 4}
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
NAMES = st.text("abc/ü", min_size=1, max_size=150).filter(lambda name: all(name.split("/")))
MEMBERS = st.dictionaries(NAMES, st.binary(max_size=1500), max_size=4)


def write(folder, content, packed=False):
    (folder / "set.tar").write_bytes(gzip.compress(content, 1) if packed else content)
    return folder / "set.tar"


def contents(path, wanted=bool):
    return dict(tar_files(path, wanted))


def special(name, kind=tarfile.REGTYPE, target="", size=0) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname, header.size = kind, target, size
    return header


@given(MEMBERS, st.sampled_from(FORMATS), st.booleans())
def test_round_trip_without_folders(tmp_path_factory, files, kind, packed):
    folder = special("set", tarfile.DIRTYPE)
    try:
        whole = tar_bytes(files, folder, folder, format=kind)
    except ValueError:  # ustar's names are short
        return
    path = write(tmp_path_factory.getbasetemp(), whole, packed=packed)
    assert list(contents(path).items()) == list(files.items())
    assert contents(path, lambda name: False) == {}


REFUSED = [special(name) for name in ("../x", "set/../../x", "/etc/x", "set/a.bin", "./set//a.bin")]
REFUSED += [special("set/..", tarfile.DIRTYPE), special("x", tarfile.SYMTYPE, "/etc/passwd")]
REFUSED += [special("x", tarfile.LNKTYPE, "set/a.bin")]
REFUSED += [special("x", kind) for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)]


@pytest.mark.parametrize("member", REFUSED)
@pytest.mark.parametrize("packed", [False, True])
def test_what_no_dataset_needs_is_refused(tmp_path, member, packed):
    with pytest.raises(FormatError, match=r"set.tar: member .* is a link or a device, stands outs"):
        contents(write(tmp_path, tar_bytes(FILES, member), packed=packed))


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_may_follow_the_end(tmp_path, packed):
    whole, block = tar_bytes(FILES), tarfile.BLOCKSIZE
    end = -(-len(whole.rstrip(b"\0")) // block) * block  # no file ends with zeros
    lost = bytearray(whole)  # a header of zeros, which looks like the end
    place = whole.index(b"set/empty")
    lost[place : place + block] = bytes(block)
    for content in (whole + b"x", whole * 2, whole[: end + block] + whole, bytes(lost)):
        with pytest.raises(FormatError, match="data follow the archive's end"):
            contents(write(tmp_path, content, packed=packed))


def test_other_files_are_named(tmp_path):
    for content in (b"", b"text", b"PK\3\4" + bytes(2000), gzip.compress(tar_bytes(FILES)) + b"x"):
        with pytest.raises(FormatError, match=r"set.tar cannot be read as a tar archive: .* again"):
            contents(write(tmp_path, content))
    assert contents(write(tmp_path, tar_bytes({}))) == {}
    packed = bytearray(gzip.compress(tar_bytes({}) + bytes(3 << 20)))
    packed[-8] ^= 1  # gzip's checksum, which is compared at the end
    with pytest.raises(FormatError, match=r"set.tar cannot be read as a tar archive: CRC check f"):
        contents(write(tmp_path, packed))


ZEROS = gzip.compress(bytes(1 << 24)) * 4  # 64 MB in 64 kB
BATCH = f"{FOLDER}/data_batch_1.bin"


def npz() -> bytes:
    np.savez_compressed(stream := io.BytesIO(), x=np.zeros((2, 1 << 22)))
    return stream.getvalue()


def parquet() -> bytes:
    pq.write_table(pa.table({"a": np.zeros(1 << 23)}), stream := io.BytesIO())
    return stream.getvalue()


def flac() -> bytes:
    content = bytearray(UTTERANCES[0].read_bytes())
    content[21] |= 0xF
    content[22:26] = b"\xff" * 4
    return bytes(content)


IDX = gzip.compress(b"\0\0\x08\x01\x04\0\0\0") + ZEROS
TAR = gzip.compress(special(BATCH, size=1 << 26).tobuf(tarfile.GNU_FORMAT)) + ZEROS
BOMBS = {
    "idx.gz": (partial(read_idx, y=None), IDX, r"holds 1179\d+ byt"),
    "npz": (read_npz, npz(), r"holds 671\d+ bytes"),
    "parquet": (partial(read_parquet, labels=None), parquet(), "holds 67108864 bytes"),
    "tar.gz": (read_cifar10, TAR, r"holds 671\d+ byt"),
    "flac": (read_flac, flac(), "holds 137438953470 bytes"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_a_small_file_may_hold_is_limited(tmp_path, monkeypatch, name):
    read, content, problem = BOMBS[name]
    monkeypatch.setattr(archives, "LIMIT", (1 << 20, 2))
    (tmp_path / "file").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=f"file.* {problem}"):
            read(tmp_path / "file")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
