"""A damaged file is named, or its data are right all the same: never a crash, never wrong data.

Each format meets 200 seeded flips of a bit and about 200 cuts. A warning is an error here as in all
tests. SVHN's files are not among them: they are read only if their checksum is known.
"""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.data.readers.cifar import FOLDER, read_cifar10
from ntk_conditioning.data.readers.idx import read_idx
from ntk_conditioning.data.readers.npz import read_npz
from ntk_conditioning.data.readers.tables import read_csv, read_parquet
from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.errors import UserError
from tests.sources import cifar_batches, idx_bytes, tar_bytes

VARIANTS = 200
X = np.random.default_rng(0).integers(0, 256, (6, 5, 4), dtype=np.uint8)
Y = np.array([1, 200, 3, 0, 255, 6], np.uint8)


@dataclass
class Format:
    """A sound file; ``places`` are flipped, of which at most a share ``harmless`` does not tell."""

    content: bytes
    read: Callable[[Path], RawSamples]
    places: Sequence[int]
    harmless: float = 0.0
    boundaries: Iterable[int] = ()


def npz(save: Callable[..., None]) -> Format:
    stream = io.BytesIO()
    save(stream, x=X.reshape(6, 20), y=Y)
    content = stream.getvalue()
    parts = [content.index(b"x.npy"), content.rindex(b"PK\1\2"), content.rindex(b"PK\5\6")]
    places = [*range(len(content)), *range(128), *range(parts[1] - 60, len(content))]
    return Format(content, read_npz, places, harmless=1, boundaries=parts)


def parquet() -> Format:
    stream = io.BytesIO()
    table = pa.table({"a": X[:, 0, 0], "b": X[:, 0, 1] / 7, "label": Y})
    pq.write_table(table, stream, write_page_checksum=True)
    content = stream.getvalue()
    ends = [4, len(content) - 8, len(content) - 4]
    read = partial(read_parquet, labels="label")
    return Format(content, read, range(len(content)), boundaries=ends)


def read_images(path: Path) -> RawSamples:
    return read_idx(path, path)


IDX = idx_bytes(X)
IDX_GZ = gzip.compress(IDX, mtime=0)
FILES = {f"{FOLDER}/{name}": content for name, content in cifar_batches(*[2] * 6).items()}
TAR = tar_bytes(FILES)
HEADERS = [TAR.index(name.encode()) for name in FILES]
NEEDED = TAR[: HEADERS[-1] + 512 * 16]  # 6146 bytes are 13 blocks; two of zeros are the end
TAR_GZ = gzip.compress(TAR, 1, mtime=0)
CSV = "a,b,label\n" + "".join(
    f"{a},{b / 7},{y}\n" for (a, b), y in zip(X[:, 0, :2], Y, strict=True)
)
CSV_GZ = gzip.compress(CSV.encode(), mtime=0)
FORMATS = {
    "idx": Format(IDX, read_images, range(16), boundaries=range(0, 20, 4)),
    # time and system in gzip's header
    "idx.gz": Format(IDX_GZ, read_images, range(len(IDX_GZ)), harmless=0.1),
    "npz": npz(np.savez),
    "npz, packed": npz(np.savez_compressed),
    # what ends the digits of a header's checksum
    "tar": Format(
        NEEDED,
        read_cifar10,
        [start + byte for start in HEADERS for byte in range(512)],
        harmless=0.05,
        boundaries=range(0, len(NEEDED), 512),
    ),
    "tar.gz": Format(
        TAR_GZ,
        read_cifar10,
        [0, 1, 2, *range(len(TAR_GZ) - 8, len(TAR_GZ))],
        boundaries=[10, len(TAR_GZ) - 8, len(TAR_GZ) - 4],
    ),
    "tar.gz, all of it": Format(TAR_GZ, read_cifar10, range(len(TAR_GZ)), harmless=0.5),
}
#: Formats that cannot tell every damage: what is asked is an error in one line, or samples.
UNSURE = {
    "parquet": parquet(),
    "csv": Format(CSV.encode(), partial(read_csv, labels="label"), range(len(CSV))),
    "csv.gz": Format(CSV_GZ, partial(read_csv, labels="label"), range(len(CSV_GZ))),
}


def samples_or_none(path: Path, content: bytes, format: Format) -> RawSamples | None:
    """Return what is read from a file, or None if an error names it in one line."""
    path.write_bytes(content)
    try:
        return format.read(path)
    except UserError as error:
        message = str(error)
    assert str(path) in message
    assert len(message.splitlines()) == 1
    return None


@pytest.mark.parametrize("name", [*FORMATS, *UNSURE])
def test_flipped_bits(tmp_path, name):
    format, choice = (FORMATS | UNSURE)[name], random.Random(0)
    expected = samples_or_none(tmp_path / "file", format.content, format)
    assert expected is not None
    right = 0
    for _ in range(VARIANTS):
        damaged = bytearray(format.content)
        damaged[choice.choice(format.places)] ^= 1 << choice.randrange(8)
        found = samples_or_none(tmp_path / "file", damaged, format)
        if found is not None and name in FORMATS:
            np.testing.assert_array_equal(found.x, expected.x)
            np.testing.assert_array_equal(found.y, expected.y)
            right += 1
    assert right <= format.harmless * VARIANTS


@pytest.mark.parametrize("name", [*FORMATS, *UNSURE])
def test_cuts(tmp_path, name):
    format, choice = (FORMATS | UNSURE)[name], random.Random(0)
    lengths = {choice.randrange(len(format.content)) for _ in range(VARIANTS)}
    lengths |= {b + around for b in format.boundaries for around in (-1, 0, 1)}
    for length in lengths & {*range(len(format.content))}:
        found = samples_or_none(tmp_path / "file", format.content[:length], format)
        assert found is None or name == "csv"


@pytest.mark.parametrize("name", [*FORMATS, *UNSURE])
@given(st.binary(max_size=64), st.booleans())
def test_any_bytes_are_refused_or_read(tmp_path_factory, name, content, behind):
    format = (FORMATS | UNSURE)[name]
    path = tmp_path_factory.getbasetemp() / "bytes"
    samples_or_none(path, format.content[:4] + content if behind else content, format)


def test_batches_in_a_folder(tmp_path):
    for name, content in cifar_batches(*[2] * 6).items():
        (tmp_path / name).write_bytes(content)
    path = tmp_path / "data_batch_2.bin"
    whole = path.read_bytes()
    for record in (0, 3073):  # labels are below 10: with an upper bit they are none
        for bit in range(4, 8):
            damaged = bytearray(whole)
            damaged[record] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(UserError, match=rf"data_batch_2.bin: record {record // 3073} \("):
                read_cifar10(tmp_path)
    # Between two records nothing is missing that the format knows of: batches may be short.
    for length in {*range(0, len(whole), 97), 1, 1025, len(whole) - 1} - {3073}:
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"data_batch_2.bin: "):
            read_cifar10(tmp_path)


def test_a_smaller_shape_is_not_believed(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.eye(7), y=np.arange(7))
    whole = path.read_bytes()
    for old, new in ((b"(7, 7)", b"(3, 7)"), (b"(7, 7)", b"(7, 5)"), (b"(7,)", b"(5,)")):
        path.write_bytes(whole.replace(old, new))
        with pytest.raises(UserError, match=r"mine.npz cannot be read as a NumPy archive"):
            read_npz(path)


@pytest.mark.parametrize("shape", ["(9999999999999,)", "(2, 3", "(2L,)", "(-1,)", "((((2,"])
def test_a_header_that_makes_no_sense_is_named(tmp_path, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    path = tmp_path / "mine.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", member + bytes(8))
    with pytest.raises(UserError, match=r"mine.npz cannot be read as a NumPy archive"):
        read_npz(path)
