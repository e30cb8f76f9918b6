"""Files are read whole and right, or named: never a crash, never wrong data or too much memory."""

import gzip
import random
import tarfile
import tracemalloc
from functools import partial

import numpy as np
import pytest

from ntk_conditioning.data import archives
from ntk_conditioning.data.archives import FormatError, tar_files
from ntk_conditioning.data.readers.images import FOLDER, read_cifar10, read_idx
from ntk_conditioning.data.readers.tables import read_csv, read_npz, read_parquet
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import MissingFileError
from tests.ntk_conditioning.data.speech.corpora import UTTERANCES, read_flac
from tests.support.sources import cifar_batches, idx_bytes, npz_bytes, parquet_bytes, tar_bytes

FILES = {"set/a.bin": b"a" * 700, "set/empty": b"", "set/b.bin": bytes(range(256)) * 4}


def read_tar(folder, content, *, packed=False):
    path = folder / "set.tar"
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    return dict(tar_files(path, bool))


def special(name, kind=tarfile.REGTYPE, target="", size=0):
    header = tarfile.TarInfo(name)
    header.type, header.linkname, header.size = kind, target, size
    return header


REFUSED = [special(name) for name in ("../x", "set/../../x", "/etc/x", "set/a.bin", "./set//a.bin")]
KINDS = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
REFUSED += [special("x", kind, "/etc/x") for kind in KINDS] + [special("set/..", tarfile.DIRTYPE)]


@pytest.mark.parametrize("member", REFUSED)
@pytest.mark.parametrize("packed", [False, True])
def test_what_no_dataset_needs_is_refused(tmp_path, member, packed):
    with pytest.raises(FormatError, match=r"set.tar: member .* is a link or a device, stands outs"):
        read_tar(tmp_path, tar_bytes(FILES, member), packed=packed)


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_may_follow_the_end(tmp_path, packed):
    whole, block = tar_bytes(FILES), tarfile.BLOCKSIZE
    end = -(-len(whole.rstrip(b"\0")) // block) * block  # no file ends with zeros
    place = whole.index(b"set/empty")
    lost = whole[:place] + bytes(block) + whole[place + block :]  # which looks like the end
    for content in (whole + b"x", whole * 2, whole[: end + block] + whole, lost):
        with pytest.raises(FormatError, match="data follow the archive's end"):
            read_tar(tmp_path, content, packed=packed)


def test_other_files_are_named(tmp_path):
    for content in (b"", b"text", b"PK\3\4" + bytes(2000), gzip.compress(tar_bytes(FILES)) + b"x"):
        with pytest.raises(FormatError, match=r"set.tar cannot be read as a tar archive: .* again"):
            read_tar(tmp_path, content)
    assert read_tar(tmp_path, tar_bytes({})) == {}


ZEROS = gzip.compress(bytes(1 << 24)) * 4  # 64 MB in 64 kB
FLAC = UTTERANCES[0].read_bytes()
ENDLESS = FLAC[:21] + bytes([FLAC[21] | 0xF]) + b"\xff" * 4 + FLAC[26:]
IDX = gzip.compress(b"\0\0\x08\x01\x04\0\0\0") + ZEROS
NPZ = npz_bytes(np.savez_compressed, x=np.zeros((2, 1 << 22)))
PARQUET = parquet_bytes({"a": np.zeros(1 << 23)})
BATCH, NAME = (
    gzip.compress(special("data_batch_1.bin", kind, size=1 << 26).tobuf(tarfile.GNU_FORMAT)) + ZEROS
    for kind in (tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME)
)
BOMBS = {
    "idx.gz": (partial(read_idx, y=None), IDX, r"holds 1179\d+ byt"),
    "npz": (read_npz, NPZ, r"holds 671\d+ bytes"),
    "parquet": (partial(read_parquet, labels=None), PARQUET, r"holds 671\d+ bytes"),
    "tar.gz": (read_cifar10, BATCH, r"holds 671\d+ byt"),
    "tar's name": (read_cifar10, NAME, "cannot be read .* 67108864 bytes describe"),
    "flac": (read_flac, ENDLESS, "holds 137438953470 bytes"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_a_small_file_may_hold_is_limited(tmp_path, monkeypatch, name):
    read, content, problem = BOMBS[name]
    monkeypatch.setattr(archives, "LIMIT", (1 << 20, 2))
    (tmp_path / "file").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(FormatError, match=f"file.* {problem}"):
        read(tmp_path / "file")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


VARIANTS = 100
X = np.random.default_rng(0).integers(0, 256, (6, 5, 4), dtype=np.uint8)
Y = np.array([1, 200, 3, 0, 255, 6], np.uint8)
CIFAR = {f"{FOLDER}/{name}": content for name, content in cifar_batches(*[2] * 6).items()}
TAR_GZ, IDX_GZ = (gzip.compress(file, 1, mtime=0) for file in (tar_bytes(CIFAR), idx_bytes(X)))
GZIP = [0, 1, 2, *range(len(TAR_GZ) - 8, len(TAR_GZ))]  # gzip's own bytes
ARCHIVE = npz_bytes(x=X.reshape(6, 20), y=Y)
LIST = ARCHIVE.rindex(b"PK\1\2")  # zip's list of members
LINES = [f"{a},{b / 7},{y}\n" for (a, b), y in zip(X[:, 0, :2], Y, strict=True)]
CSV = ("a,b,label\n" + "".join(LINES)).encode()
#: Content, reader, places where bits are flipped, and the share that may go unnoticed.
FORMATS = {
    # time and system in gzip's header
    "idx.gz": (IDX_GZ, partial(read_idx, y=None), range(len(IDX_GZ)), 0.1),
    "npz": (ARCHIVE, read_npz, range(LIST), 1),
    "tar.gz": (TAR_GZ, read_cifar10, GZIP, 0),
    "csv": (CSV, partial(read_csv, labels="label"), range(len(CSV)), 1),
    # what says nothing of the samples, such as the largest frame's size
    "flac": (FLAC, read_flac, [*range(42)] * (len(FLAC) // 126) + [*range(len(FLAC))], 0.15),
}


@pytest.mark.parametrize("name", FORMATS)
def test_flipped_bits_and_cuts(tmp_path, name):
    (content, read, places, harmless), rng = FORMATS[name], random.Random(0)
    path = tmp_path / "file"

    def samples_or_none(written):
        path.write_bytes(written)
        try:
            return read(path)
        except UserError as error:
            message = str(error)
        assert (str(path) in message, len(message.splitlines())) == (True, 1)
        return None

    if name != "flac":  # which are found, not named
        with pytest.raises(MissingFileError, match="absent does not exist"):
            read(tmp_path / "absent")
    expected, unnoticed = samples_or_none(content), 0
    for _ in range(VARIANTS):
        damaged = bytearray(content)
        damaged[rng.choice(places)] ^= 1 << rng.randrange(8)
        samples = samples_or_none(damaged)
        unnoticed += samples is not None
        if samples is not None and name != "csv":
            np.testing.assert_array_equal(samples.x, expected.x)
            np.testing.assert_array_equal(samples.y, expected.y)
    assert unnoticed <= harmless * VARIANTS

    ends = [len(content) - 1 - end for end in range(12)]  # such as gzip's checksum
    for length in [*ends, *rng.choices(range(len(content)), k=VARIANTS)]:
        samples = samples_or_none(content[:length])
        whole = samples is not None and np.array_equal(samples.x, expected.x)  # padding is cut
        assert samples is None or name == "csv" or whole
