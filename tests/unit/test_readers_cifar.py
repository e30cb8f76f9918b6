"""CIFAR-10 is read from its archive and unpacked, and every fault is named with its place."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntk_conditioning.data.archives import ContentError
from ntk_conditioning.data.datasets import Entry, PartError, read
from ntk_conditioning.data.readers.cifar import BATCHES, FOLDER, CifarError, read_cifar10
from ntk_conditioning.data.tars import TarError
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import MissingFileError

RECORD = 3073
NAMES = [*BATCHES["train"], *BATCHES["test"]]
Batches = dict[str, bytes]


def batches(sizes: list[int], seed: int = 0) -> Batches:
    """Return records by the description: a label, then red, green and blue row by row."""
    generator = np.random.default_rng(seed)
    found = {}
    for name, n in zip(NAMES, sizes, strict=True):
        labels = generator.integers(0, 10, (n, 1), dtype=np.uint8)
        pixels = generator.integers(0, 256, (n, 3072), dtype=np.uint8)
        found[name] = np.hstack([labels, pixels]).tobytes()
    return found


def archive(folder: Path, members: Batches, *, prefix: str = f"{FOLDER}/") -> Path:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in members.items():
            header = tarfile.TarInfo(prefix + name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    path = folder / "cifar-10-binary.tar.gz"
    path.write_bytes(gzip.compress(stream.getvalue(), 1))
    return path


def unpacked(folder: Path, members: Batches) -> Path:
    inner = folder / "unpacked" / FOLDER
    inner.mkdir(parents=True, exist_ok=True)
    for path in inner.iterdir():
        path.unlink()
    for name, content in members.items():
        (inner / name).write_bytes(content)
    return inner


def slow(content: bytes) -> tuple[list[list[list[list[int]]]], list[int]]:
    """Return images and labels byte by byte, as the dataset's page describes them."""
    images, labels = [], []
    for start in range(0, len(content), RECORD):
        labels.append(content[start])
        images.append(
            [
                [
                    [content[start + 1 + 1024 * c + 32 * row + column] for c in range(3)]
                    for column in range(32)
                ]
                for row in range(32)
            ]
        )
    return images, labels


GOOD = batches([2, 1, 1, 3, 1, 2])


class TestReading:
    @settings(max_examples=15)
    @given(st.lists(st.integers(1, 3), min_size=6, max_size=6), st.integers(0, 9))
    def test_round_trip(self, tmp_path_factory, sizes, seed):
        made = batches(sizes, seed)
        folder = tmp_path_factory.getbasetemp()
        inner = unpacked(folder, made)
        for split, names in BATCHES.items():
            images, labels = slow(b"".join(made[name] for name in names))
            for path in (archive(folder, made), inner, inner.parent):
                found = read_cifar10(path, split=split)
                np.testing.assert_array_equal(found.x, images)
                assert found.x.dtype == np.uint8
                assert found.y.tolist() == labels

    def test_order_and_other_members_do_not_matter(self, tmp_path):
        expected = read_cifar10(archive(tmp_path, GOOD)).x
        others = {"readme.html": b"<html>", "batches.meta.txt": b"airplane\n", "more.bin": b"x"}
        members = others | dict(reversed(GOOD.items()))
        for prefix in ("", "./", f"./{FOLDER}/", "elsewhere/"):
            path = archive(tmp_path, members, prefix=prefix)
            np.testing.assert_array_equal(read_cifar10(path).x, expected)
        np.testing.assert_array_equal(read_cifar10(unpacked(tmp_path, members)).x, expected)

    def test_classes_keep_their_numbers(self, tmp_path):
        path = archive(tmp_path, batches([20] * 6))
        everything, some = read_cifar10(path), read_cifar10(path, classes=[2, 0])
        chosen = np.isin(everything.y, [0, 2])
        assert set(some.y.tolist()) == {0, 2}
        np.testing.assert_array_equal(some.x, everything.x[chosen])
        with pytest.raises(ContentError, match="no sample is of class"):
            read_cifar10(archive(tmp_path, GOOD), classes=list(range(10)))

    def test_both_parts_come_from_one_archive(self, tmp_path):
        path = archive(tmp_path, GOOD)
        parts = {"train_x": path, "test_x": path}
        entry = Entry("cifar", "cifar10", "symmetric", (0.0, 255.0))
        train, test = read(entry, parts), read(entry, parts, split="test")
        assert (train.x.shape, test.x.shape) == ((8, 3072), (2, 3072))
        # a path holds both, too
        entry = Entry("cifar", "cifar10", "symmetric", (0.0, 255.0), path=path)
        np.testing.assert_array_equal(read(entry).x, train.x)
        np.testing.assert_array_equal(read(entry, split="test").x, test.x)
        with pytest.raises(PartError, match="has the labels in train_x, not train_y"):
            read(entry, {"train_y": path})


class TestFaults:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_missing_batch_is_named(self, tmp_path, name):
        split = "test" if name in BATCHES["test"] else "train"
        members = {other: content for other, content in GOOD.items() if other != name}
        for path in (archive(tmp_path, members), unpacked(tmp_path, members)):
            with pytest.raises(ContentError, match=f"{path.name} has no {name}; take cifar-10-b"):
                read_cifar10(path, split=split)

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "is empty"),
            (bytes(RECORD - 1), "ends at byte 3072, inside record 0; records have 3073 bytes"),
            (bytes(2 * RECORD + 5), "ends at byte 6151, inside record 2"),
            (bytes(RECORD) + b"\x0a" + bytes(3072), r"record 1 \(byte 3073\) has label 10, not 0"),
            (b"\xff" + bytes(3072), r"record 0 \(byte 0\) has label 255, not 0 to 9"),
        ],
    )
    def test_a_wrong_batch_is_named_with_its_place(self, tmp_path, content, problem):
        members = GOOD | {"data_batch_3.bin": content}
        for path in (archive(tmp_path, members), unpacked(tmp_path, members)):
            with pytest.raises(CifarError, match=f"{path.name}.*data_batch_3.bin: .*{problem}"):
                read_cifar10(path)
            read_cifar10(path, split="test")  # which it is no part of

    @pytest.mark.parametrize(
        ("name", "version"), [("data_batch_1", "pickled Python"), ("data_batch_1.mat", "MATLAB")]
    )
    def test_other_versions_are_refused(self, tmp_path, name, version):
        members = {name: b"\x80\x02}q\x01", "test_batch": b"\x80\x02}q\x01"}
        for path in (archive(tmp_path, members), unpacked(tmp_path, members)):
            problem = f"is CIFAR-10's {version} version; take the binary version, cifar-10-binary"
            with pytest.raises(CifarError, match=problem):
                read_cifar10(path)

    def test_a_batch_in_two_folders_is_refused(self, tmp_path):
        members = {f"{folder}/{name}": GOOD[name] for folder in "ab" for name in GOOD}
        with pytest.raises(CifarError, match=r"member .*/b/data_batch_1.bin: a second batch"):
            read_cifar10(archive(tmp_path, members))

    def test_other_files_and_none_are_named(self, tmp_path):
        text = tmp_path / "text.tar.gz"
        text.write_text("no archive")
        with pytest.raises(TarError, match=r"text.tar.gz: no tar archive"):
            read_cifar10(text)
        with pytest.raises(MissingFileError, match="absent does not exist"):
            read_cifar10(tmp_path / "absent")
        with pytest.raises(ContentError, match=r"has no data_batch_1.bin"):
            read_cifar10(tmp_path)
        inner = unpacked(tmp_path, GOOD)
        (inner / "data_batch_2.bin").unlink()
        (inner / "data_batch_2.bin").mkdir()
        with pytest.raises(UserError, match=r"data_batch_2.bin is not a file"):
            read_cifar10(inner)
