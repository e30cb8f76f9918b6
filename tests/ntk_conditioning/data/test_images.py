"""Images are read as MNIST, SVHN and CIFAR-10 have them, and every fault names its file."""

import gzip

import numpy as np
import pytest
import scipy.io
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.readers.images import BATCHES, FOLDER, read_cifar10, read_idx, read_svhn
from ntk_conditioning.files import ChecksumError, sha256
from tests.support.sources import cifar_batches, idx_bytes, svhn_bytes, tar_bytes

IMAGES = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3) * 4  # up to 236
PACKED = gzip.compress(idx_bytes(IMAGES), mtime=0)


class TestIdx:
    @given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4)), st.booleans())
    def test_round_trip(self, tmp_path_factory, array, packed):
        path = tmp_path_factory.getbasetemp() / "file-idx"
        path.write_bytes(gzip.compress(idx_bytes(array)) if packed else idx_bytes(array))
        samples = read_idx(path, path)
        np.testing.assert_array_equal(samples.x, array)
        np.testing.assert_array_equal(samples.y, array)
        assert read_idx(path, None).y is None

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "starts with b'', not as an IDX file"),
            (b"\0\0\x0d\x01", "starts with .*, or save other arrays as npz and take reader npz"),
            (b"\0\0\x08\x02\0\0\0\x05", "cannot be read as an IDX file: .*fetch or save it again"),
            (b"\0\0\x08\x01\0\0\0\x02" + b"7", "cannot be read .* size 1 into shape"),
            (b"\0\0\x08\x03" + b"\xff" * 12, "cannot be read as an IDX file"),
            (b"\x1f\x8bnot gzip at all", "cannot be read as an IDX file"),
            (PACKED + b"x", "cannot be read as an IDX file: Not a gzipped file"),
            (PACKED * 2, "cannot be read .* size 136 into shape"),
        ],
    )
    def test_each_fault_is_named(self, tmp_path, content, problem):
        (tmp_path / "good").write_bytes(idx_bytes(IMAGES))
        (tmp_path / "file").write_bytes(content)
        for x, y in (("good", "file"), ("file", "good")):
            with pytest.raises(FormatError, match=f"file {problem}"):
                read_idx(tmp_path / x, tmp_path / y)


HDF5 = svhn_bytes()[:124] + b"\x00\x02IM"  # version 7.3
DAMAGED = [svhn_bytes()[:-9], svhn_bytes()[:136] + b"no zlib!" * 9]


class TestSvhn:
    @pytest.mark.parametrize("packed", [False, True])
    def test_images_and_their_label_0(self, tmp_path, packed):
        path = tmp_path / "train_32x32.mat"
        path.write_bytes(svhn_bytes(300, packed=packed, note="a text", z=np.eye(3)))
        samples, reference = read_svhn(path, sha256=[sha256(path)]), scipy.io.loadmat(path)
        for image in range(300):
            np.testing.assert_array_equal(samples.x[image], reference["X"][..., image])
        digits = reference["y"][:, 0]
        np.testing.assert_array_equal(samples.y, np.where(digits == 10, 0, digits))
        assert (samples.x.dtype, samples.x.flags.c_contiguous) == (np.uint8, True)

    def test_a_file_of_unknown_checksum_is_not_even_opened(self, tmp_path):
        (tmp_path / "train.mat").write_bytes(b"no MATLAB file")
        for known, problem in (((), "that of its entry, which must be given"), (["00"], "00")):
            with pytest.raises(ChecksumError, match=f"train.mat has sha256 .*, not {problem}"):
                read_svhn(tmp_path / "train.mat", sha256=known)

    @pytest.mark.parametrize("content", [b"", HDF5, b"x" * 200, svhn_bytes(y=None), *DAMAGED])
    def test_other_files_are_named(self, tmp_path, content):
        path = tmp_path / "train_32x32.mat"
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"train_32x32.mat cannot be read as a MATLAB file"):
            read_svhn(path, sha256=[sha256(path)])


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


class TestCifar:
    @pytest.mark.parametrize("split", BATCHES)
    def test_images_and_labels(self, tmp_path, split):
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
        for prefix in ("", f"./{FOLDER}/", "elsewhere/"):  # nor does the members' order matter
            path = archive(tmp_path, others | dict(reversed(GOOD.items())), prefix=prefix)
            np.testing.assert_array_equal(read_cifar10(path, split=split).x, samples.x)

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (None, "has no data_batch_3.bin; take CIFAR-10's binary version, cifar-10-binary"),
            (bytes(2 * RECORD + 5), "data_batch_3.bin cannot be read as records of 3073 bytes"),
        ],
    )
    def test_a_wrong_batch_is_named(self, tmp_path, content, problem):
        members = {**GOOD, "data_batch_3.bin": content}
        for path in both(tmp_path, {k: v for k, v in members.items() if v is not None}):
            with pytest.raises((ContentError, FormatError), match=f"{path.name}.*{problem}"):
                read_cifar10(path)
            read_cifar10(path, split="test")  # which it is no part of
