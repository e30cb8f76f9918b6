"""SVHN's files are read exactly, agree with SciPy's reader, and every fault is named."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ntk_conditioning.data.archives import ContentError
from ntk_conditioning.data.readers.matlab import MatError, read_byte_arrays
from ntk_conditioning.data.readers.svhn import read_svhn
from ntk_conditioning.files import MissingFileError


def mat_bytes(*, packed: bool = True, **variables: Any) -> bytes:
    """Return what SciPy writes."""
    stream = io.BytesIO()
    scipy.io.savemat(stream, variables, do_compression=packed)
    return stream.getvalue()


def svhn(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.integers(0, 256, (32, 32, 3, n), dtype=np.uint8)
    y = generator.integers(1, 11, (n, 1), dtype=np.uint8)
    return {"X": x, "y": y}


def write(folder: Path, content: bytes) -> Path:
    path = folder / "train_32x32.mat"
    path.write_bytes(content)
    return path


def header() -> bytes:
    return mat_bytes(X=1)[:128]


def element(kind: int, data: bytes) -> bytes:
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def variable(name: str, array: np.ndarray, *, kind: int = 2, class_: int = 9) -> bytes:
    """Return a matrix element, written out from the format's description."""
    parts = [
        element(6, struct.pack("<II", class_, 0)),
        element(5, struct.pack(f"<{array.ndim}i", *array.shape)),
        element(1, name.encode()),
        element(kind, array.tobytes(order="F")),
    ]
    return element(14, b"".join(parts))


def packed_element(data: bytes) -> bytes:
    content = zlib.compress(data)
    return struct.pack("<II", 15, len(content)) + content


class TestReading:
    @given(
        hnp.arrays(np.uint8, st.tuples(*map(st.just, (32, 32, 3)), st.integers(1, 3))),
        st.booleans(),
        st.booleans(),
        st.data(),
    )
    def test_round_trip(self, tmp_path_factory, x, packed, more, data):
        n = x.shape[3]
        y = data.draw(hnp.arrays(np.uint8, (n, 1), elements=st.integers(1, 10)))
        others = {"note": "a text", "z": np.eye(3)} if more else {}
        content = mat_bytes(packed=packed, y=y, **others, X=x)
        path = write(tmp_path_factory.getbasetemp(), content)
        found = read_svhn(path)
        assert found.x.shape == (n, 32, 32, 3)
        for sample in range(n):
            np.testing.assert_array_equal(found.x[sample], x[..., sample])
        assert found.y is not None
        np.testing.assert_array_equal(found.y, y[:, 0] % 10)

    @pytest.mark.parametrize("packed", [False, True])
    def test_many_images_and_their_label_0(self, tmp_path, packed):
        arrays = svhn(2100)  # more than are turned at a time
        path = write(tmp_path, mat_bytes(packed=packed, **arrays))
        found, reference = read_svhn(path), scipy.io.loadmat(path)
        np.testing.assert_array_equal(found.x, np.moveaxis(reference["X"], 3, 0))
        digits = reference["y"][:, 0]
        np.testing.assert_array_equal(found.y, np.where(digits == 10, 0, digits))
        assert found.x.flags.c_contiguous

    def test_classes_keep_their_numbers(self, tmp_path):
        path = write(tmp_path, mat_bytes(**svhn(40)))
        everything, some = read_svhn(path), read_svhn(path, classes=[9, 0])
        chosen = np.isin(everything.y, [0, 9])
        assert set(some.y.tolist()) == {0, 9}
        np.testing.assert_array_equal(some.y, everything.y[chosen])
        np.testing.assert_array_equal(some.x, everything.x[chosen])
        arrays = svhn(4) | {"y": np.array([[1], [2], [10], [9]], np.uint8)}
        path = write(tmp_path, mat_bytes(**arrays))
        with pytest.raises(ContentError, match=r"train_32x32.mat \(y\): no sample is of class 3"):
            read_svhn(path, classes=[1, 3, 4])

    def test_short_elements_and_padding(self, tmp_path):
        for shape in ((1, 1), (4, 1), (5, 1), (3, 3), (8, 1), (2, 1, 2)):
            array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape) + np.uint8(1)
            for content in (
                mat_bytes(packed=False, a=array),
                mat_bytes(packed=True, a=array),
                header() + variable("a", array),
                header() + packed_element(variable("a", array)),
            ):
                found = read_byte_arrays(write(tmp_path, content), ["a"])["a"]
                np.testing.assert_array_equal(found, array)


X, Y = svhn(2)["X"], svhn(2)["y"]


class TestFaults:
    @pytest.mark.parametrize(
        ("arrays", "problem"),
        [
            ({"X": X}, "has no variable y; its variables: X"),
            ({"y": Y}, "has no variable X; its variables: y"),
            ({"a": X, "b": Y}, "has no variable X; its variables: a, b"),
            ({"X": X[:28, :28], "y": Y}, "X is 28 × 28 × 3 × 2, not 32 × 32 × 3 × n"),
            ({"X": X[..., 0], "y": Y}, "X is 32 × 32 × 3, not"),
            ({"X": X.transpose(3, 0, 1, 2), "y": Y}, "X is 2 × 32 × 32 × 3, not"),
            ({"X": X.astype(float), "y": Y}, "X is double, not uint8"),
            ({"X": X.astype(np.int8), "y": Y}, "X is int8, not uint8"),
            ({"X": X > 9, "y": Y}, "X is logical uint8, not uint8"),
            ({"X": X * 1j, "y": Y}, "X is complex double, not uint8"),
            ({"X": "text", "y": Y}, "X is char, not uint8"),
            ({"X": {"a": 1}, "y": Y}, "X is struct, not uint8"),
            ({"X": X, "y": Y.astype(np.int16)}, "y is int16, not uint8"),
            ({"X": X, "y": Y[:1]}, "y is 1 × 1, but X has 2 images"),
            ({"X": X, "y": Y.T}, "y is 1 × 2, but X has 2 images"),
            ({"X": X[..., :0], "y": Y[:0]}, r"X is empty \(32 × 32 × 3 × 0\)"),
            ({"X": X, "y": np.array([[10], [0]], np.uint8)}, "y, row 1 is 0; SVHN's labels are 1"),
            ({"X": X, "y": np.array([[11], [1]], np.uint8)}, "y, row 0 is 11; SVHN's labels"),
        ],
    )
    @pytest.mark.parametrize("packed", [False, True])
    def test_other_contents_are_named(self, tmp_path, arrays, problem, packed):
        path = write(tmp_path, mat_bytes(packed=packed, **arrays))
        with pytest.raises(ContentError, match=f"train_32x32.mat.*{problem}") as caught:
            read_svhn(path)
        assert len(str(caught.value).splitlines()) == 1

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "ends at byte 0, inside the 128-byte MATLAB header"),
            (b"MATLAB 5.0", "ends at byte 10, inside the 128-byte MATLAB header"),
            (b"MATLAB 7.3 MAT-file", r"of version 7.3 \(HDF5\); save it with -v7"),
            (b"\x89HDF\r\n\x1a\n" + bytes(200), r"of version 7.3 \(HDF5\); save it with -v7"),
            (header()[:124] + b"\x00\x02IM", r"of version 7.3 \(HDF5\); save it with -v7"),
            (bytes(200), "is no MATLAB file of version 5; save it with -v7"),
            (header()[:124] + b"\x01\x00MI", "is a big-endian MATLAB file"),
            (header()[:124] + b"\x00\x03IM", "bytes 124 to 127 are 0x0003494d, not 0x0001494d"),
            (b"x" * 200, "bytes 124 to 127 are 0x78787878, not"),
            (header(), "has no variable X; its variables: none"),
            (header() + b"1234", "ends at byte 132, inside the tag of the element at byte 128"),
            (header() + element(9, bytes(8)), "the element at byte 128 has type 9, not 14"),
            (
                header() + struct.pack("<II", 14, 100) + bytes(50),
                "ends at byte 186, but the element at byte 128 ends at byte 236",
            ),
            (header() + packed_element(element(13, bytes(8))), "type 13 is packed, not 14"),
            (header() + variable("X", X) * 2, "variable X stands there twice"),
            (header() + variable("X", X, kind=1), "values of X are stored as type 1, not 2"),
            (header() + variable("X", X[..., 0]) + b"1", "ends at byte .*, inside the tag"),
            (header() + struct.pack("<II", 15, 8) + b"no zlib!", "damaged zlib data"),
        ],
    )
    def test_other_files_are_named(self, tmp_path, content, problem):
        with pytest.raises((MatError, ContentError), match=f"train_32x32.mat.*{problem}"):
            read_svhn(write(tmp_path, content))

    @pytest.mark.parametrize("packed", [False, True])
    @pytest.mark.parametrize("count", [2**31 - 1, 2**31 // 3072, 400])
    def test_an_absurd_number_of_images_allocates_nothing(self, tmp_path, packed, count):
        matrix = variable("X", X)
        place = matrix.index(struct.pack("<4i", 32, 32, 3, 2)) + 12
        shape = matrix[:place] + struct.pack("<i", count) + matrix[place + 4 :]
        values = matrix.index(struct.pack("<II", 2, X.size))
        size = min(count * 3072, 2**32 - 8)
        both = shape[:values] + struct.pack("<II", 2, size) + shape[values + 8 :]
        whole = struct.pack("<II", 14, min(size + values, 2**32 - 1)) + both[8:]
        for wrong in (shape, both, whole):
            content = header() + (packed_element(wrong) if packed else wrong)
            with pytest.raises(MatError, match=r"train_32x32.mat: .*fetch it again"):
                read_svhn(write(tmp_path, content))

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(MissingFileError, match="absent does not exist"):
            read_svhn(tmp_path / "absent")
