"""A small file that unpacks to a lot, or says so, is refused before that is read."""

import gzip
import io
import tarfile
import tracemalloc
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ntk_conditioning.data import archives
from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.readers.cifar import FOLDER, read_cifar10
from ntk_conditioning.data.readers.idx import read_idx
from ntk_conditioning.data.readers.svhn import read_svhn
from ntk_conditioning.data.readers.tables import (
    MOST_COLUMNS,
    read_csv,
    read_npz,
    read_parquet,
    table_shape,
)
from ntk_conditioning.data.speech.corpus import decode
from ntk_conditioning.files import sha256
from tests.ntk_conditioning.data.speech.corpora import UTTERANCES
from tests.support.sources import svhn_bytes, tar_bytes

PART = gzip.compress(bytes(1 << 24))
ZEROS = PART * 4  # 64 MB in 64 kB
HUGE = 99_999_999_999_999
read_features = partial(read_idx, y=None)
read_table = partial(read_csv, labels="label")


def idx(n: int) -> bytes:
    return gzip.compress(b"\0\0\x08\x01" + n.to_bytes(4, "big")) + ZEROS


def npz() -> bytes:
    np.savez_compressed(stream := io.BytesIO(), x=np.zeros((2, 1 << 22)))
    return stream.getvalue()


def parquet() -> bytes:
    pq.write_table(pa.table({"a": np.zeros(1 << 23)}), stream := io.BytesIO())
    return stream.getvalue()


def tar(name: str, *, size: int, **options) -> bytes:
    """Return the header of a member without its content."""
    header = tarfile.TarInfo(name)
    header.size = size
    for key, value in options.items():
        setattr(header, key, value)
    return header.tobuf(tarfile.GNU_FORMAT)


def pax_tar(size: int) -> bytes:
    """Return an archive with a member that nobody needs, and an extended header with its size."""
    header = tarfile.TarInfo("other")
    header.pax_headers = {"size": str(size)}
    return tar_bytes({}, header, format=tarfile.PAX_FORMAT)


def flac() -> bytes:
    content = bytearray(UTTERANCES[0].read_bytes())
    content[21] |= 0xF
    content[22:26] = b"\xff" * 4
    return bytes(content)


def read_mat(path):
    return read_svhn(path, sha256=[sha256(path)])


def read_flac(path):
    return decode(path.read_bytes(), source=str(path), sample_rate=16000)


BATCH = f"{FOLDER}/data_batch_1.bin"
ANNOUNCED = f"a header without a file announces {HUGE} bytes"
FILES = {
    "idx.gz, longer than its header says": (read_features, idx(10), "goes on, but .* end at byte"),
    "idx.gz": (read_features, idx(1 << 26), "holds 67108864 bytes"),
    "csv.gz": (read_table, gzip.compress(b"a,label\n") + ZEROS, "holds 2097152 bytes or more in"),
    "npz": (read_npz, npz(), r"holds 671\d+ bytes"),
    "parquet": (partial(read_parquet, labels=None), parquet(), "holds 67108864 bytes"),
    "tar.gz": (read_cifar10, gzip.compress(tar(BATCH, size=1 << 26)) + ZEROS, r"holds 671\d+ byt"),
    "tar, PAX size": (read_cifar10, pax_tar(HUGE), r"holds 100000000\d+ bytes"),
    "tar, negative size": (read_cifar10, pax_tar(-5), "member 'other' has a negative size"),
    "tar, long name": (read_cifar10, tar("", size=HUGE, type=tarfile.XHDTYPE), ANNOUNCED),
    "mat": (read_mat, svhn_bytes(X=np.zeros((32, 32, 3, 1 << 14), np.uint8)), "holds 50331648 by"),
    "flac": (read_flac, flac(), "holds 137438953470 bytes"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_a_small_file_may_hold_is_limited(tmp_path, monkeypatch, name):
    read, content, problem = FILES[name]
    monkeypatch.setattr(archives, "LIMIT", (1 << 20, 2))
    (tmp_path / "file").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=f"file: .*{problem}"):
            read(tmp_path / "file")
        most = 256 if name == "mat" else 8  # SciPy always unpacks 128 kB, be it to 128 MB
        assert tracemalloc.get_traced_memory()[1] < most << 20
    finally:
        tracemalloc.stop()


def test_two_members_of_one_name_are_refused(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.eye(2), y=np.ones(2))
    path.write_bytes(path.read_bytes().replace(b"y.npy", b"x.npy"))
    with pytest.raises(FormatError, match=r"mine.npz .*: two members have the same name"):
        read_npz(path)


def test_a_table_of_too_many_columns_is_refused_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("pyarrow.csv.read_csv", None)
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{k}" for k in range(MOST_COLUMNS + 1)) + "\n")
    for read in (read_csv, table_shape):
        with pytest.raises(ContentError, match=r"wide.csv has 30,001 columns, .* \(.npz\)"):
            read(path, labels=None)


def test_names_of_many_columns_are_not_compared_with_each_other(tmp_path, monkeypatch):
    compared = []

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared.append(other)
            return str.__eq__(self, other)

    n = 500
    table = pa.table({f"c{k}": [k, k] for k in range(n)})
    names = [*map(Name, table.column_names)]
    wide = SimpleNamespace(column_names=names, columns=table.columns, num_rows=2)
    monkeypatch.setattr("pyarrow.csv.read_csv", lambda _, **options: wide)
    (tmp_path / "wide.csv").touch()
    assert read_csv(tmp_path / "wide.csv", labels="c0").x.shape == (2, n - 1)
    assert len(compared) < 10 * n
