"""CIFAR-10 is read from its archive and unpacked, and every fault is named with its place."""

import gzip

import numpy as np
import pytest

from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.readers.cifar import BATCHES, FOLDER, read_cifar10
from ntk_conditioning.files import MissingFileError
from tests.support.sources import cifar_batches, tar_bytes

RECORD = 3073
GOOD = cifar_batches(2, 1, 1, 3, 1, 2)


def archive(folder, members, *, prefix=f"{FOLDER}/"):
    path = folder / "cifar-10-binary.tar.gz"
    content = tar_bytes({prefix + name: content for name, content in members.items()})
    path.write_bytes(gzip.compress(content, 1))
    return path


def both(folder, members):
    """Return the members in an archive and in a folder."""
    inner = folder / "unpacked" / FOLDER
    inner.mkdir(parents=True)
    for name, content in members.items():
        (inner / name).write_bytes(content)
    return archive(folder, members), inner


@pytest.mark.parametrize("split", BATCHES)
def test_images_and_labels(tmp_path, split):
    content = b"".join(GOOD[name] for name in BATCHES[split])
    packed, inner = both(tmp_path, GOOD)
    for path in (packed, inner, inner.parent):
        samples = read_cifar10(path, split=split)
        assert samples.y.tolist() == list(content[::RECORD])
        assert (samples.x.shape, samples.x.dtype) == ((len(samples.y), 32, 32, 3), np.uint8)
        for n, row, column, colour in np.ndindex(samples.x.shape):
            place = n * RECORD + 1 + 1024 * colour + 32 * row + column
            assert samples.x[n, row, column, colour] == content[place]
    others = {"readme.html": b"<html>", "batches.meta.txt": b"airplane\n", "more.bin": b"x"}
    for prefix in ("", f"./{FOLDER}/", "elsewhere/"):  # nor does the order of the members matter
        path = archive(tmp_path, others | dict(reversed(GOOD.items())), prefix=prefix)
        np.testing.assert_array_equal(read_cifar10(path, split=split).x, samples.x)


def test_classes_keep_their_numbers(tmp_path):
    path = archive(tmp_path, cifar_batches(*[20] * 6))
    everything, some = read_cifar10(path), read_cifar10(path, classes=[2, 0])
    assert set(some.y.tolist()) == {0, 2}
    np.testing.assert_array_equal(some.x, everything.x[np.isin(everything.y, [0, 2])])
    with pytest.raises(ContentError, match="no sample is of class"):
        read_cifar10(archive(tmp_path, GOOD), classes=list(range(10)))


def test_a_missing_batch_is_named(tmp_path):
    name = BATCHES["train"][-1]
    for path in both(tmp_path, {other: GOOD[other] for other in GOOD if other != name}):
        with pytest.raises(ContentError, match=f"{path.name} has no {name}; take cifar-10-b"):
            read_cifar10(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (bytes(RECORD - 1), "ends at byte 3072, inside record 0; records have 3073 bytes"),
        (bytes(2 * RECORD + 5), "ends at byte 6151, inside record 2"),
        (bytes(RECORD) + b"\x0a" + bytes(3072), r"record 1 \(byte 3073\) has label 10, not 0"),
    ],
)
def test_a_wrong_batch_is_named_with_its_place(tmp_path, content, problem):
    for path in both(tmp_path, GOOD | {"data_batch_3.bin": content}):
        with pytest.raises(FormatError, match=f"{path.name}.*data_batch_3.bin: .*{problem}"):
            read_cifar10(path)
        read_cifar10(path, split="test")  # which it is no part of


VERSIONS = {"data_batch_1": "pickled Python", "data_batch_1.mat": "MATLAB"}


@pytest.mark.parametrize(("name", "version"), VERSIONS.items())
def test_other_versions_are_refused(tmp_path, name, version):
    for path in both(tmp_path, dict.fromkeys((name, "test_batch"), b"\x80\x02}q\x01")):
        problem = f"is CIFAR-10's {version} version; take the binary version, cifar-10-binary"
        with pytest.raises(FormatError, match=problem):
            read_cifar10(path)


def test_other_files_and_none_are_named(tmp_path):
    twice = archive(tmp_path, {f"{folder}/{name}": GOOD[name] for folder in "ab" for name in GOOD})
    with pytest.raises(FormatError, match=r"member .*/b/data_batch_1.bin: a second batch"):
        read_cifar10(twice)
    with pytest.raises(MissingFileError, match="absent does not exist"):
        read_cifar10(tmp_path / "absent")
    (tmp_path / "data_batch_1.bin").mkdir()
    with pytest.raises(MissingFileError, match=r"data_batch_1.bin is not a file"):
        read_cifar10(tmp_path)
