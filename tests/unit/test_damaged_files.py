"""A damaged file is named, or its data are right all the same: never a crash, never wrong data.

Each format meets at least 200 seeded variants: flipped bits where the format can tell, and cuts. A
warning is an error here as in all tests.
"""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io

from ntk_conditioning.errors import UserError
from ntk_conditioning.readers.cifar import BATCHES, FOLDER, read_cifar10
from ntk_conditioning.readers.idx import read_idx
from ntk_conditioning.readers.npz import read_npz
from ntk_conditioning.readers.svhn import read_svhn
from ntk_conditioning.readers.tables import read_csv, read_parquet
from ntk_conditioning.samples import RawSamples

VARIANTS = 200
Reader = Callable[[Path], RawSamples]


def flips(whole: bytes, places: Iterable[int], *, seed: int = 0) -> Iterator[bytes]:
    """Yield the content with one flipped bit, in one of the bytes at ``places``."""
    choice = random.Random(seed)
    candidates = [*places]
    for _ in range(VARIANTS):
        damaged = bytearray(whole)
        damaged[choice.choice(candidates)] ^= 1 << choice.randrange(8)
        yield bytes(damaged)


def cuts(whole: bytes, boundaries: Iterable[int] = (), *, seed: int = 0) -> Iterator[bytes]:
    """Yield beginnings of the content: up to each boundary, around it, and of random lengths."""
    choice = random.Random(seed)
    lengths = {choice.randrange(len(whole)) for _ in range(VARIANTS)}
    for boundary in boundaries:
        lengths |= {boundary - 1, boundary, boundary + 1}
    for length in sorted(lengths & {*range(len(whole))}):
        yield whole[:length]


def outcomes(path: Path, read: Reader, whole: bytes, variants: Iterable[bytes]) -> Counter[str]:
    """Return how many variants are named and how many give the right data; fail on any other."""
    path.write_bytes(whole)
    expected = read(path)
    found: Counter[str] = Counter()
    for variant in variants:
        path.write_bytes(variant)
        message = ""
        try:
            samples = read(path)
        except UserError as error:
            message = str(error)
        if message:
            assert str(path) in message
            assert len(message.splitlines()) == 1
            found["named"] += 1
        else:
            np.testing.assert_array_equal(samples.x, expected.x)
            np.testing.assert_array_equal(samples.y, expected.y)
            found["right"] += 1
    return found


GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, 256, (6, 5, 4), dtype=np.uint8)
Y = np.array([1, 200, 3, 0, 255, 6], np.uint8)


class TestIdx:
    WHOLE = bytes([0, 0, 8, 3, 0, 0, 0, 6, 0, 0, 0, 5, 0, 0, 0, 4]) + X.tobytes()
    LABELS = bytes([0, 0, 8, 1, 0, 0, 0, 6]) + Y.tobytes()

    @pytest.fixture
    def other(self, tmp_path):
        path = tmp_path / "other"
        path.write_bytes(self.LABELS)
        return path

    def test_features(self, tmp_path, other):
        def read(path: Path) -> RawSamples:
            return read_idx(path, other)

        variants = [*flips(self.WHOLE, range(16)), *cuts(self.WHOLE, range(0, 20, 4))]
        assert outcomes(tmp_path / "x", read, self.WHOLE, variants)["right"] == 0

    def test_labels(self, tmp_path):
        images = tmp_path / "images"
        images.write_bytes(self.WHOLE)

        def read(path: Path) -> RawSamples:
            return read_idx(images, path)

        variants = [*flips(self.LABELS, range(8)), *cuts(self.LABELS)]
        assert outcomes(tmp_path / "y", read, self.LABELS, variants)["right"] == 0

    def test_packed(self, tmp_path, other):
        def read(path: Path) -> RawSamples:
            return read_idx(path, other)

        whole = gzip.compress(self.WHOLE, mtime=0)
        found = outcomes(tmp_path / "x", read, whole, flips(whole, range(len(whole))))
        assert found["right"] < VARIANTS / 10  # time and system in gzip's header
        assert outcomes(tmp_path / "x", read, whole, cuts(whole))["right"] == 0


class TestSvhn:
    X = GENERATOR.integers(0, 256, (32, 32, 3, 3), dtype=np.uint8)
    Y = np.array([[1], [10], [7]], np.uint8)

    def content(self, *, packed: bool) -> bytes:
        stream = io.BytesIO()
        scipy.io.savemat(stream, {"X": self.X, "y": self.Y}, do_compression=packed)
        return stream.getvalue()

    def test_plain(self, tmp_path):
        whole = self.content(packed=False)
        pixels = whole.index(self.X.tobytes(order="F"))
        after = pixels + self.X.size
        text = range(124)  # says who wrote it, and when
        tags = [*range(124, pixels), *range(after, len(whole) - 8)]
        values = range(len(whole) - 8, len(whole))  # y's, inside its tag
        found = outcomes(tmp_path / "x.mat", read_svhn, whole, flips(whole, tags))
        assert found["right"] < VARIANTS / 3  # reserved bytes beside class and name
        found = outcomes(tmp_path / "x.mat", read_svhn, whole, flips(whole, text))
        assert found["right"] > VARIANTS / 2
        boundaries = [*range(0, pixels + 8, 8), *range(after, len(whole), 8), *values]
        assert outcomes(tmp_path / "x.mat", read_svhn, whole, cuts(whole, boundaries)) == {
            "named": len([*cuts(whole, boundaries)])
        }

    def test_packed(self, tmp_path):
        whole, path = self.content(packed=True), tmp_path / "x.mat"
        found = outcomes(path, read_svhn, whole, flips(whole, range(124, len(whole))))
        assert found["right"] == 0
        second = 136 + int.from_bytes(whole[132:136], "little")
        tags = [*range(128, 146), *range(second, len(whole))]
        found = outcomes(path, read_svhn, whole, flips(whole, tags))
        assert found["right"] < VARIANTS / 10  # bits from the end of deflate data to a whole byte
        cut = cuts(whole, [128, 136, second, second + 8])
        assert outcomes(path, read_svhn, whole, cut)["right"] == 0


class TestCifar:
    RECORD = 3073
    NAMES = BATCHES["train"]

    def content(self, *, packed: bool) -> bytes:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for name in self.NAMES:
                data = self.batch()
                header = tarfile.TarInfo(f"{FOLDER}/{name}")
                header.size = len(data)
                archive.addfile(header, io.BytesIO(data))
        return gzip.compress(stream.getvalue(), 1, mtime=0) if packed else stream.getvalue()

    def batch(self) -> bytes:
        records = np.arange(2 * self.RECORD, dtype=np.uint64).reshape(2, self.RECORD) ** 2 % 251
        records[:, 0] = (0, 1)
        return records.astype(np.uint8).tobytes()

    def test_plain(self, tmp_path):
        whole = self.content(packed=False)
        starts = [whole.index(f"{FOLDER}/{name}".encode()) for name in self.NAMES]
        headers = [start + byte for start in starts for byte in range(512)]
        path = tmp_path / "cifar.tar"
        found = outcomes(path, read_cifar10, whole, flips(whole, headers))
        assert found["right"] < VARIANTS / 20  # what ends the digits of the checksum
        last = starts[-1] + 512 + 13 * 512  # 6146 bytes are 13 blocks
        blocks = range(0, last + 1024, 512)
        needed = whole[: last + 1024]  # what follows are zeros to the record's end
        assert outcomes(path, read_cifar10, whole, cuts(needed, blocks))["right"] == 0

    def test_packed(self, tmp_path):
        whole = self.content(packed=True)
        path = tmp_path / "cifar.tar.gz"
        for places in ([*range(10), *range(-8, 0)], range(len(whole))):
            found = outcomes(path, read_cifar10, whole, flips(whole, places))
            assert found["named"] > VARIANTS / 3
        header = outcomes(path, read_cifar10, whole, flips(whole, [0, 1, 2, *range(-8, 0)]))
        assert header["right"] == 0
        ends = [10, len(whole) - 8, len(whole) - 4]
        assert outcomes(path, read_cifar10, whole, cuts(whole, ends))["right"] == 0

    def test_a_label_is_checked_as_far_as_it_tells(self, tmp_path):
        # Labels 0 and 1 with any of their upper five bits flipped are no labels. In a folder the
        # lower bits are known only to the archive's checksum.
        for name in self.NAMES:
            (tmp_path / name).write_bytes(self.batch())
        for record in (0, 1):
            for bit in range(4, 8):
                damaged = bytearray(self.batch())
                damaged[record * self.RECORD] ^= 1 << bit
                (tmp_path / "data_batch_4.bin").write_bytes(damaged)
                with pytest.raises(UserError, match=rf"data_batch_4.bin: record {record} \(byte "):
                    read_cifar10(tmp_path)

    def test_batches_cut_in_a_folder(self, tmp_path):
        for name in self.NAMES:
            (tmp_path / name).write_bytes(self.batch())

        def read(_: Path) -> RawSamples:
            return read_cifar10(tmp_path)

        whole = self.batch()
        # Between two records nothing is missing that the format knows of: batches may be short.
        variants = [cut for cut in cuts(whole, [1, 1025]) if len(cut) != self.RECORD]
        path = tmp_path / "data_batch_2.bin"
        assert outcomes(path, read, whole, variants)["right"] == 0


class TestNpz:
    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_both_kinds(self, tmp_path, save):
        stream = io.BytesIO()
        save(stream, x=X.reshape(6, 20), y=Y)
        whole = stream.getvalue()
        path = tmp_path / "mine.npz"
        names = [whole.index(b"x.npy"), whole.rindex(b"PK\x01\x02"), whole.rindex(b"PK\x05\x06")]
        for places in (range(len(whole)), range(128), range(names[1] - 60, len(whole))):
            outcomes(path, read_npz, whole, flips(whole, places))
        assert outcomes(path, read_npz, whole, cuts(whole, names))["right"] == 0

    def test_a_smaller_shape_is_not_believed(self, tmp_path):
        np.savez(tmp_path / "mine.npz", x=np.eye(7), y=np.arange(7))
        whole = (tmp_path / "mine.npz").read_bytes()
        for old, new in ((b"(7, 7)", b"(3, 7)"), (b"(7, 7)", b"(7, 5)"), (b"(7,)", b"(5,)")):
            (tmp_path / "mine.npz").write_bytes(whole.replace(old, new))
            with pytest.raises(UserError, match=r"mine.npz cannot be read as a NumPy archive"):
                read_npz(tmp_path / "mine.npz")

    @pytest.mark.parametrize("shape", ["(9999999999999,)", "(2, 3", "(2L,)", "(-1,)", "((((2,"])
    def test_a_header_that_makes_no_sense_is_named(self, tmp_path, shape):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
        member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        path = tmp_path / "mine.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", member + bytes(8))
        with pytest.raises(UserError, match=r"mine.npz cannot be read as a NumPy archive"):
            read_npz(path)


class TestTables:
    """These formats cannot tell every damage: what is asked is a named error or samples."""

    def survive(self, path: Path, read: Reader, variants: Iterable[bytes]) -> Counter[str]:
        found: Counter[str] = Counter()
        for variant in variants:
            path.write_bytes(variant)
            message = ""
            try:
                read(path)
            except UserError as error:
                message = str(error)
            assert not message or str(path) in message
            assert len(message.splitlines()) <= 1
            found["named" if message else "read"] += 1
        return found

    def test_parquet(self, tmp_path):
        path = tmp_path / "mine.parquet"
        table = pa.table({"a": X[:, 0, 0], "b": X[:, 0, 1] / 7, "label": Y})
        pq.write_table(table, path, write_page_checksum=True)
        whole = path.read_bytes()

        def read(file: Path) -> RawSamples:
            return read_parquet(file, labels="label")

        self.survive(path, read, flips(whole, range(len(whole))))
        found = self.survive(path, read, cuts(whole, [4, len(whole) - 8, len(whole) - 4]))
        assert found["read"] == 0

    def test_csv(self, tmp_path):
        rows = "".join(
            f"{row[0]},{row[1] / 7},{label}\n" for row, label in zip(X[:, 0], Y, strict=True)
        )
        whole = f"a,b,label\n{rows}".encode()

        def read(file: Path) -> RawSamples:
            return read_csv(file, labels="label")

        path = tmp_path / "mine.csv"
        self.survive(path, read, [*flips(whole, range(len(whole))), *cuts(whole)])
        packed = gzip.compress(whole, mtime=0)
        assert self.survive(path, read, cuts(packed))["read"] == 0
