"""SVHN's files are read exactly, if their checksum is known; what else they hold is named."""

import hashlib

import numpy as np
import pytest
import scipy.io

from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.readers.svhn import read_svhn
from ntk_conditioning.files import ChecksumError
from tests.support.sources import svhn_bytes

X = np.ones((32, 32, 3, 2), np.uint8)
Y = np.array([[10], [1]], np.uint8)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "train_32x32.mat"


def known(path, content, classes=None):
    path.write_bytes(content)
    return read_svhn(path, sha256=[hashlib.sha256(content).hexdigest()], classes=classes)


@pytest.mark.parametrize("packed", [False, True])
def test_images_and_their_label_0(path, packed):
    samples = known(path, svhn_bytes(300, packed=packed, note="a text", z=np.eye(3)))
    reference = scipy.io.loadmat(path)
    for image in range(300):
        np.testing.assert_array_equal(samples.x[image], reference["X"][..., image])
    digits = reference["y"][:, 0]
    np.testing.assert_array_equal(samples.y, np.where(digits == 10, 0, digits))
    assert (samples.x.dtype, samples.x.flags.c_contiguous) == (np.uint8, True)
    some = known(path, path.read_bytes(), [9, 0])
    np.testing.assert_array_equal(some.x, samples.x[np.isin(samples.y, [0, 9])])
    with pytest.raises(ContentError, match=r"train_32x32.mat \(y\): no sample is of class 3"):
        known(path, svhn_bytes(X=X, y=Y), [0, 1, 3])


@pytest.mark.parametrize(
    ("sha256", "problem"),
    [((), "is of unknown checksum.*give its sha256"), (["00"], "has sha256 .*, not 00; it is dam")],
)
def test_a_file_of_unknown_checksum_is_not_even_opened(path, sha256, problem):
    path.write_bytes(svhn_bytes())
    with pytest.raises(ChecksumError, match=f"train_32x32.mat {problem}"):
        read_svhn(path, sha256=sha256)


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"y": None}, "has no variable y; its variables: X"),
        ({"X": None, "b": 1}, "has no variable X; its variables: y, b"),
        ({"X": X[:28, :28]}, "X is uint8 of 28 × 28 × 3 × 2, not uint8 of 32 × 32 × 3 × n"),
        ({"X": X[..., :0], "y": Y[:0]}, "X is uint8 of 32 × 32 × 3 × 0, not"),
        ({"X": X.astype(float)}, "X is double of .*, not uint8"),
        ({"X": {"a": 1}}, "X is struct of .*, not uint8"),
        ({"y": Y[:1]}, "y is uint8 of 1 × 1, not uint8 of 2 × 1"),
        ({"y": np.array([[10], [0]], np.uint8)}, "y, row 1 is 0; SVHN's labels are 1"),
        ({"y": np.array([[11], [1]], np.uint8)}, "y, row 0 is 11; SVHN's labels"),
    ],
)
def test_other_contents_are_named(path, variables, problem):
    with pytest.raises(ContentError, match=f"train_32x32.mat.*{problem}") as caught:
        known(path, svhn_bytes(**variables))
    assert len(str(caught.value).splitlines()) == 1


HDF5 = svhn_bytes()[:124] + b"\x00\x02IM"  # version 7.3
DAMAGED = [svhn_bytes()[:-9], svhn_bytes()[:136] + b"no zlib!" * 9]


@pytest.mark.parametrize("content", [b"", b"MATLAB 5.0", HDF5, b"x" * 200, *DAMAGED])
def test_other_files_are_named(path, content):
    with pytest.raises(FormatError, match=r"train_32x32.mat cannot be read as a MATLAB file"):
        known(path, content)
