"""Sources give what they hold, and a file that is not sound is named."""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ntk_conditioning.data import datasets
from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.datasets import PartError, Source
from ntk_conditioning.data.generated import (
    DIGITS,
    PatchError,
    cut_patches,
    draw_gaussian,
    load_digits,
)
from ntk_conditioning.data.readers.idx import IdxError, read_idx, read_idx_array
from ntk_conditioning.data.readers.npz import read_npz
from ntk_conditioning.data.readers.tables import read_csv, read_parquet
from ntk_conditioning.files import MissingFileError
from tests.sources import IDX_CODES, idx_bytes

IMAGES = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3) * 4  # up to 236


@st.composite
def idx_arrays(draw):
    dtype = draw(st.sampled_from(sorted(IDX_CODES)))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5))
    return draw(hnp.arrays(np.dtype(dtype), shape)), dtype


class TestIdx:
    @given(idx_arrays(), st.booleans())
    def test_round_trip(self, tmp_path_factory, case, packed):
        array, dtype = case
        path = tmp_path_factory.getbasetemp() / "file-idx"
        content = idx_bytes(array, dtype)
        path.write_bytes(gzip.compress(content) if packed else content)
        found = read_idx_array(path)
        assert found.shape == array.shape
        assert found.dtype == np.dtype(dtype).newbyteorder("=")
        assert found.dtype.isnative
        assert found.astype(dtype).tobytes() == array.tobytes()  # NaNs too

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "ends at byte 0, inside the 4-byte magic number"),
            (b"\0\0\x08", "ends at byte 3, inside the 4-byte magic number"),
            (b"PK\x08\x01", "bytes 0 and 1 are 0x50 0x4b, not zero"),
            (b"\0\0\x0a\x01", "byte 2 is 0x0a, which is no IDX element type"),
            (b"\0\0\x08\x00", "byte 3 says 0 dimensions"),
            (b"\0\0\x08\xff", "byte 3 says 255 dimensions"),
            (b"\0\0\x08\x02\0\0\0\x05", "ends at byte 8, inside the 12-byte header"),
            (b"\0\0\x08\x02\0\0\0\x05\0\0\0\0", "bytes 8 to 11 say that dimension 1 is 0"),
            (b"\0\0\x0c\x01\0\0\0\x02" + b"7" * 7, "ends at byte 15, but .* 2 .* end at byte 16"),
            (b"\0\0\x08\x01\0\0\0\x02" + b"7" * 5, "3 bytes follow byte 10"),
            (b"\0\0\x0e\x03" + b"\xff" * 12, "ends at byte 16, but"),  # 8 * (2**32 - 1)**3 bytes
            (b"\x1f\x8b", "damaged gzip data"),
            (b"\x1f\x8bnot gzip at all", "damaged gzip data"),
            (gzip.compress(idx_bytes(IMAGES), mtime=0) + b"x", "damaged gzip data"),
            (gzip.compress(idx_bytes(IMAGES), mtime=0) * 2, "76 bytes follow byte 76"),
        ],
    )
    def test_each_fault_is_named_with_its_byte(self, tmp_path, content, problem):
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(FormatError, match=f"file: {problem}"):
            read_idx_array(path)

    @pytest.mark.parametrize("dtype", sorted(set(IDX_CODES) - {">u1"}))
    def test_datasets_are_of_unsigned_bytes(self, tmp_path, dtype):
        good, other = tmp_path / "good", tmp_path / "other"
        good.write_bytes(idx_bytes(IMAGES))
        other.write_bytes(idx_bytes(IMAGES, dtype))
        assert read_idx(good, None).y is None
        for x, y in ((other, good), (good, other)):
            with pytest.raises(IdxError, match=r"other: byte 2 says elements of type .*, not unsi"):
                read_idx(x, y)


class TestNpz:
    def save(self, folder: Path, **arrays: np.ndarray) -> Path:
        path = folder / "mine.npz"
        np.savez(path, **arrays)
        return path

    def test_labels_are_read_if_there_or_as_asked(self, tmp_path):
        x, y = np.eye(3), np.arange(3)
        assert read_npz(self.save(tmp_path, x=x)).y is None
        assert read_npz(self.save(tmp_path, x=x, y=y), labels=None).y is None
        named = read_npz(self.save(tmp_path, data=x, target=y), features="data", labels="target")
        np.testing.assert_array_equal(named.y, y)
        with pytest.raises(ContentError, match=r"mine.npz has no array 'y'; its arrays: 'x'"):
            read_npz(self.save(tmp_path, x=x), labels="y")
        with pytest.raises(ContentError, match=r"mine.npz has no array 'x'; its arrays: 'a', 'b'"):
            read_npz(self.save(tmp_path, a=x, b=x))

    @given(
        hnp.arrays(
            st.sampled_from(["u1", "<i4", ">f4", "f8"]), hnp.array_shapes(min_dims=1, max_side=4)
        ),
        st.booleans(),
        st.booleans(),
    )
    def test_round_trip(self, tmp_path_factory, x, packed, fortran):
        path = tmp_path_factory.getbasetemp() / "round.npz"
        save = np.savez_compressed if packed else np.savez
        save(path, x=np.asfortranarray(x) if fortran else x, y=np.arange(3))
        found = read_npz(path)
        assert found.x.dtype == x.dtype
        assert found.x.tobytes() == x.tobytes()  # NaNs too
        assert found.y.tolist() == [0, 1, 2]

    def test_a_dataset_of_speech_is_its_extracted_features(self, tmp_path):
        path = self.save(tmp_path, x=np.eye(3, dtype=np.float32), y=np.arange(3))
        # checksum and path are the corpus', not the features'
        entry = Source(
            "speech",
            "librispeech",
            "none",
            options={"subset": "dev-clean", "labels": "speaker"},
            sha256={"train_x": ("0",)},
            path=tmp_path / "corpus",
        )
        found = datasets.read(entry, {"features": path})
        np.testing.assert_array_equal(found.x, np.eye(3, dtype=np.float32))
        assert found.y.tolist() == [0, 1, 2]
        problem = "speech has only a training part, of extracted features; give features=PATH alone"
        for parts, split in (
            ({}, "train"),
            ({"train_x": path}, "train"),
            ({"features": path, "train_x": path}, "train"),
            ({"features": path}, "test"),
        ):
            with pytest.raises(PartError, match=problem):
                datasets.read(entry, parts, split=split)
        with pytest.raises(ContentError, match="has no array 'y'"):
            datasets.read(entry, {"features": self.save(tmp_path, x=np.eye(3))})
        with pytest.raises(PartError, match="mine: reader npz extracts no features; give train_x"):
            datasets.read(Source("mine", "npz", "none"), {"features": path})

    def test_python_objects_are_never_unpickled(self, tmp_path):
        path = self.save(tmp_path, x=np.array([{}], dtype=object))
        with pytest.raises(FormatError, match=r"mine.npz cannot be read as a NumPy archive"):
            read_npz(path)

    def test_other_files_are_named(self, tmp_path):
        path = tmp_path / "mine.npz"
        with path.open("wb") as stream:
            np.save(stream, np.eye(2))
        with pytest.raises(FormatError, match="holds one array"):
            read_npz(path)


TABLE = pa.table(
    {
        "a": pa.array([1, 2, 3], pa.int16()),
        "b": [0.5, 1.5, 2.5],
        "flag": [True, False, True],
        "label": [2, 0, 1],
        "kind": ["u", "v", "u"],
    }
)
CSV = "a,b,flag,label,kind\n1,0.5,true,2,u\n2,1.5,false,0,v\n3,2.5,true,1,u\n"


def parquet_file(folder: Path, table: pa.Table = TABLE) -> Path:
    path = folder / "mine.parquet"
    pq.write_table(table, path)
    return path


def csv_file(folder: Path, text: str = CSV) -> Path:
    path = folder / "mine.csv"
    path.write_text(text)
    return path


class TestTables:
    @pytest.mark.parametrize(("read", "make"), [(read_parquet, parquet_file), (read_csv, csv_file)])
    def test_columns_are_chosen_by_name(self, tmp_path, read, make):
        path = make(tmp_path)
        found = read(path, labels="label", features=["b", "a", "flag"])
        np.testing.assert_array_equal(found.x, [[0.5, 1, 1], [1.5, 2, 0], [2.5, 3, 1]])
        np.testing.assert_array_equal(found.y, [2, 0, 1])
        assert found.columns == ("b", "a", "flag")
        assert read(path, labels=None, features=["a"]).y is None
        assert read(path, labels="kind", features=["a"]).y.tolist() == ["u", "v", "u"]

    @pytest.mark.parametrize(("read", "make"), [(read_parquet, parquet_file), (read_csv, csv_file)])
    @pytest.mark.parametrize(
        ("labels", "features", "problem"),
        [
            ("label", None, "column 'kind' is string, not numeric; .* under options, features"),
            ("labels", ["a"], "has no column 'labels', only 'a', 'b'"),
            ("label", ["a", "z"], "has no column 'z'"),
            ("a", ["a", "b"], "column 'a' is both labels and a feature"),
            ("a", [], "has no feature column besides 'a'"),
        ],
    )
    def test_wrong_columns_are_named(self, tmp_path, read, make, labels, features, problem):
        with pytest.raises(ContentError, match=f"mine.*{problem}"):
            read(make(tmp_path), labels=labels, features=features)

    @given(
        hnp.arrays(
            np.float64,
            st.tuples(st.integers(1, 5), st.integers(1, 4)),
            elements=st.floats(allow_nan=False),
        )
    )
    def test_round_trip(self, tmp_path_factory, x):
        names = [f"c{column}" for column in range(x.shape[1])]
        labels = [f"class {row % 2}" for row in range(len(x))]
        table = pa.table({**dict(zip(names, x.T, strict=True)), "label": labels})
        folder = tmp_path_factory.getbasetemp()
        text = "\n".join(
            ",".join([*map(repr, row), label])
            for row, label in zip(x.tolist(), labels, strict=True)
        )
        header = ",".join([*names, "label"])
        for found in (
            read_parquet(parquet_file(folder, table), labels="label"),
            read_csv(csv_file(folder, f"{header}\n{text}\n"), labels="label"),
        ):
            np.testing.assert_array_equal(found.x, x)
            assert found.y.tolist() == labels
            assert found.columns == tuple(names)

    def test_types_are_kept_and_categories_are_labels(self, tmp_path):
        path = parquet_file(tmp_path)
        assert read_parquet(path, labels=None, features=["a"]).x.dtype == np.int16
        assert read_parquet(path, labels=None, features=["flag"]).x.dtype == np.uint8
        table = pa.table({"a": [1, 2], "kind": pa.array(["v", "u"]).dictionary_encode()})
        found = read_parquet(parquet_file(tmp_path, table), labels="kind")
        assert found.y.tolist() == ["v", "u"]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("a,b\n1,2\n3,\n5,NA\n", "'b' has 2 missing values, the first in row 1"),
            (",a\n0,1\n1,2\n", "has a row index, column ''"),
            ("a,a\n1,2\n3,4\n", "several columns named 'a'"),
            ("1,2\n3,4\n5,6\n", "first line must name the columns"),
        ],
    )
    def test_faults_of_a_csv_are_named(self, tmp_path, text, problem):
        with pytest.raises(ContentError, match=f"mine.csv.*{problem}"):
            read_csv(csv_file(tmp_path, text), labels=None)

    @pytest.mark.parametrize(
        ("columns", "labels", "problem"),
        [
            ({"a": [1, 2], "y": [None, 1]}, "y", "'y' has 1 missing values, the first in row 0"),
            ({"__index_level_0__": [0, 1]}, None, "has a row index, column '__index_level_0__'"),
        ],
    )
    def test_faults_of_a_parquet_are_named(self, tmp_path, columns, labels, problem):
        with pytest.raises(ContentError, match=f"mine.parquet.*{problem}"):
            read_parquet(parquet_file(tmp_path, pa.table(columns)), labels=labels)

    def test_a_fraction_far_down_a_csv_of_integers_is_read(self, tmp_path):
        rows = 400_000  # the parser's blocks are of 1 MiB, the first ones of integers alone
        text = "a,b\n" + "123,7\n" * rows + "0.5,7\n"
        found = read_csv(csv_file(tmp_path, text), labels=None)
        assert found.x.shape == (rows + 1, 2)
        assert found.x[-1, 0] == 0.5

    def test_a_csv_may_be_packed(self, tmp_path):
        path = tmp_path / "mine.csv.gz"
        path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n", mtime=0))
        np.testing.assert_array_equal(read_csv(path, labels=None).x, [[1, 2], [3, 4]])

    def test_folders_add_no_columns(self, tmp_path):
        folder = tmp_path / "year=2020"
        folder.mkdir()
        path = parquet_file(folder, TABLE.select(["a", "b"]))
        assert read_parquet(path, labels=None).columns == ("a", "b")

    def test_other_files_are_named(self, tmp_path):
        with pytest.raises(FormatError, match=r"mine.csv cannot be read as Parquet"):
            read_parquet(csv_file(tmp_path), labels=None)
        with pytest.raises(FormatError, match=r"mine.csv cannot be read as CSV: .*Expected 2 col"):
            read_csv(csv_file(tmp_path, "a,b\n1,2\n1,2,3\n"), labels=None)
        with pytest.raises(FormatError, match=r"mine.csv cannot be read as CSV"):
            read_csv(csv_file(tmp_path, ""), labels=None)
        path = tmp_path / "latin-1.csv"
        path.write_bytes("größe,b\n1,2\n".encode("latin-1"))
        with pytest.raises(FormatError, match=r"latin-1.csv cannot be read as CSV: 'utf-8' codec"):
            read_csv(path, labels=None)

        broken = pa.array([b"u", b"\xc3"]).view(pa.string())
        path = parquet_file(tmp_path, pa.table({"a": [1, 2], "kind": broken}))
        with pytest.raises(FormatError, match=r"mine.parquet cannot be read as Parquet: .*UTF"):
            read_parquet(path, labels="kind")


@pytest.mark.parametrize(
    "read",
    [
        read_idx_array,
        read_npz,
        partial(read_csv, labels=None),
        partial(read_parquet, labels=None),
    ],
)
def test_a_missing_file_is_named(tmp_path, read):
    with pytest.raises(MissingFileError, match="absent does not exist"):
        read(tmp_path / "absent")


class TestGenerated:
    def test_the_gaussian_draw_is_standard_and_repeats(self):
        x = draw_gaussian(n=20_000, d=3, seed=4).x
        assert x.shape == (20_000, 3)
        # Mean and variance have standard errors 1/sqrt(n) and sqrt(2/n); five of them.
        np.testing.assert_allclose(x.mean(axis=0), 0, atol=5 / 20_000**0.5)
        np.testing.assert_allclose(x.var(axis=0), 1, atol=5 * (2 / 20_000) ** 0.5)
        np.testing.assert_array_equal(x, draw_gaussian(n=20_000, d=3, seed=4).x)
        assert not np.array_equal(x, draw_gaussian(n=20_000, d=3, seed=5).x)

    def test_digits(self):
        digits = load_digits()
        assert digits.x.shape == DIGITS
        assert (digits.x.min(), digits.x.max()) == (0, 16)
        assert np.unique(digits.y).tolist() == list(range(10))

    def test_patches_lie_on_the_grid_of_the_photographs(self):
        from sklearn.datasets import load_sample_images

        size, stride, samples = 40, 60, 41
        found = cut_patches(size=size, stride=stride, samples=samples)
        expected = []
        for photograph in load_sample_images().images:
            height, width, _ = photograph.shape
            expected.append(
                [
                    photograph[top : top + size, left : left + size].reshape(-1)
                    for top in range(0, height - size + 1, stride)
                    for left in range(0, width - size + 1, stride)
                ]
            )
        assert found.x.reshape(samples, -1).shape == (samples, size * size * 3)
        assert found.y.tolist() == [0] * 21 + [1] * 20
        for photograph, share in ((0, 21), (1, 20)):
            patches = expected[photograph]
            chosen = [patches[i * len(patches) // share] for i in range(share)]
            np.testing.assert_array_equal(found.x[found.y == photograph].reshape(share, -1), chosen)

    def test_more_patches_than_positions_are_refused(self):
        with pytest.raises(PatchError, match=r"1108 patches .* 427 × 640 pixels, 1107 do"):
            cut_patches(size=32, stride=15, samples=2 * 1107 + 1)
