"""Users' data and drawn data are read exactly, and a file that is not sound is named."""

import gzip
import zipfile
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_sample_images

from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.generated import cut_patches, draw_gaussian, load_digits
from ntk_conditioning.data.readers.tables import read_csv, read_npz, read_parquet
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import MissingFileError


def save(folder, **arrays):
    np.savez(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


class TestNpz:
    def test_labels_are_read_if_there_or_as_asked(self, tmp_path):
        x, y = np.eye(3), np.arange(3)
        assert read_npz(save(tmp_path, x=x)).y is None
        assert read_npz(save(tmp_path, x=x, y=y), labels=None).y is None
        path = save(tmp_path, data=np.zeros((3, 4, 2)), target=y)
        np.testing.assert_array_equal(read_npz(path, features="data", labels="target").y, y)
        with pytest.raises(ContentError, match=r"mine.npz has no array 'y'; its arrays: 'x'"):
            read_npz(save(tmp_path, x=x), labels="y")
        with pytest.raises(ContentError, match=r"mine.npz has no array 'x'; its arrays: 'a', 'b'"):
            read_npz(save(tmp_path, a=x, b=x))

    def test_other_files_are_named_and_python_objects_never_unpickled(self, tmp_path):
        with pytest.raises(FormatError, match=r"mine.npz cannot be read as a NumPy archive"):
            read_npz(save(tmp_path, x=np.array([{}], dtype=object)))
        for shape in (b"(9999999999999,)", b"(2, 3", b"(2L,)", b"(-1,)", b"((((2,", b"(0,)"):
            described = b"{'descr': '<f8', 'fortran_order': False, 'shape': %s, }" % shape
            header = b"\x93NUMPY\x01\x00" + len(described).to_bytes(2, "little") + described
            with zipfile.ZipFile(tmp_path / "mine.npz", "w") as archive:
                archive.writestr("x.npy", header + bytes(8))
            with pytest.raises(FormatError, match=r"mine.npz cannot be read as a NumPy archive"):
                read_npz(tmp_path / "mine.npz")
        with (tmp_path / "mine.npz").open("wb") as stream:
            np.save(stream, np.eye(2))
        with pytest.raises(FormatError, match=r"mine.npz cannot be read .* as numpy.savez writes"):
            read_npz(tmp_path / "mine.npz")


COLUMNS = {"a": np.array([1, 2, 3], np.int16), "b": [0.5, 1.5, 2.5], "flag": [True, False, True]}
TABLE = pa.table(COLUMNS | {"label": [2, 0, 1], "kind": ["u", "v", "u"]})
CSV = "a,b,flag,label,kind\n1,0.5,true,2,u\n2,1.5,false,0,v\n3,2.5,true,1,u\n"


def parquet_file(folder, table=TABLE):
    pq.write_table(table, folder / "mine.parquet")
    return folder / "mine.parquet"


def csv_file(folder, text=CSV):
    (folder / "mine.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / "mine.csv"


SEMICOLONS = CSV.replace(",", ";").replace(".", ",")
WRITTEN = {
    "plain": CSV.encode(),
    "packed": gzip.compress(CSV.encode(), mtime=0),
    "byte order mark": CSV.encode("utf-8-sig"),
    "UTF-16, tabs": CSV.replace(",", "\t").encode("utf-16"),
    "decimal commas": SEMICOLONS.encode(),
    "Windows": CSV.replace("\n", "\r\n").encode(),
    "blank lines": ("\n" + CSV.replace("\n", "\n  \n\n")).encode(),
}
MADE = {name: (read_csv, partial(csv_file, text=text)) for name, text in WRITTEN.items()}
MADE["parquet"] = (read_parquet, parquet_file)


@pytest.mark.parametrize("name", MADE)
def test_columns_are_chosen_by_name(tmp_path, name):
    read, make = MADE[name]
    path = make(tmp_path)
    samples = read(path, labels="label", features=["b", "a", "flag"])
    np.testing.assert_array_equal(samples.x, [[0.5, 1, 1], [1.5, 2, 0], [2.5, 3, 1]])
    np.testing.assert_array_equal(samples.y, [2, 0, 1])
    assert samples.columns == ("b", "a", "flag")
    assert read(path, labels=None, features=["a"]).y is None
    with pytest.raises(MissingFileError, match="absent does not exist"):
        read(tmp_path / "absent", labels=None)
    assert read(path, labels="kind", features=["a"]).y.tolist() == ["u", "v", "u"]
    for labels, features, problem in (
        ("label", None, "column 'kind' is 'u', not a number; .* under options, features"),
        ("labels", ["a"], "has no column 'labels', only 'a', 'b'"),
        ("label", ["a", "z"], "has no column 'z'"),
        ("a", ["a", "b"], "column 'a' is both labels and a feature"),
        ("a", [], "has no feature column besides 'a'"),
    ):
        with pytest.raises(ContentError, match=f"mine.*{problem}"):
            read(path, labels=labels, features=features)


SHAPES = hnp.array_shapes(min_dims=2, max_dims=2)


@given(hnp.arrays(np.float64, SHAPES, elements=st.floats(allow_nan=False)))
def test_tables_give_every_digit(tmp_path_factory, x):
    folder, frame = tmp_path_factory.getbasetemp(), pd.DataFrame(x).add_prefix("c")
    parquet = parquet_file(folder, pa.Table.from_pandas(frame))
    csv = csv_file(folder, frame.to_csv(index=False))
    for samples in (read_parquet(parquet, labels=None), read_csv(csv, labels=None)):
        np.testing.assert_array_equal(samples.x, x)


def test_types_are_kept_and_categories_are_labels(tmp_path):
    path = parquet_file(tmp_path)
    assert read_parquet(path, labels=None, features=["a"]).x.dtype == np.int16
    assert read_parquet(path, labels=None, features=["flag"]).features().dtype == np.uint8
    folder = tmp_path / "year=2020"  # which adds no column
    folder.mkdir()
    for kinds in (["v", "u"], [7, 5]):
        table = pa.table({"a": [1, 2], "kind": pa.array(kinds).dictionary_encode()})
        samples = read_parquet(parquet_file(folder, table), labels="kind")
        assert (samples.y.tolist(), samples.columns) == (kinds, ("a",))


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("a,b\n1,2\n3,\n5,NA\n", ContentError, "'b' has 2 missing values, the first in line 3"),
        ("a,b\n1,2\n3\n", ContentError, "'b' has 1 missing values, the first in line 3"),
        ("a,b\n", ContentError, "has no samples, only columns"),
        ("a,b\n\n1,2\n\n3,x\n", ContentError, "line 5, column 'b' is 'x', not a number; encode"),
        ('a,b\n1,"2\n3"\n4,x\n', ContentError, r"line 3, column 'b' is '2\\n3', not a number"),
        ("a;b\n1,5;2.5\n", ContentError, "line 2, column 'b' is '2.5', not a number"),
        (",a\n0,1\n1,2\n", ContentError, "has a row index, column 'Unnamed: 0'"),
        ("a,a\n1,2\n3,4\n", ContentError, "several columns named 'a'"),
        ("1,2\n3,4\n5,6\n", ContentError, "first line must name the columns"),
        ("a,b\n1,2\n1,2,3\n", FormatError, "cannot be read as CSV: .* in line 3, saw 3"),
        ("a,b\n1,2,3\n1,2,3\n", FormatError, "cannot be read as CSV: Length of header"),
        ("", FormatError, "cannot be read as CSV"),
        ("größe,b\n1,2\n".encode("latin-1"), FormatError, "line 1 has the byte 0xf6, which is"),
    ],
)
def test_faults_of_a_csv_are_named(tmp_path, text, error, problem):
    with pytest.raises(error, match=f"mine.csv.*{problem}"):
        read_csv(csv_file(tmp_path, text), labels=None)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (("cat", "", "dog"), "1 missing values, the first in line 3"),
        (("1", "2", "nan"), "1 missing values, the first in line 4"),
        (("01", "1", "2"), "'.*' and '.*', which are read as one label"),
        (("1.0", "1", "2"), "'.*' and '.*', which are read as one label"),
    ],
)
def test_labels_that_are_missing_or_that_would_merge_are_refused(tmp_path, labels, problem):
    rows = "".join(f"{row},{label}\n" for row, label in enumerate(labels))
    with pytest.raises(ContentError, match=f"mine.csv: column 'y' has {problem}"):
        read_csv(csv_file(tmp_path, f"a,y\n{rows}"), labels="y")


def test_labels_may_have_commas_and_are_read_without_spaces_and_zeros_before_them(tmp_path):
    for text, features, labels in (
        ("a;y\n1.5;b, c\n2.5;a\n", [[1.5], [2.5]], [1, 0]),
        ("a, y\n1, dog\n2,cat\n3,dog \n", [[1], [2], [3]], [1, 0, 1]),
        ("a,y\n1,01\n2,02\n3,01\n", [[1], [2], [3]], [1, 2, 1]),
    ):
        samples = read_csv(csv_file(tmp_path, text), labels="y")
        assert (samples.x.tolist(), samples.labels().tolist()) == (features, labels)


def test_faults_of_a_parquet_are_named(tmp_path):
    for columns, error, problem in (
        ({"a": [1, 2], "y": [None, 1]}, ContentError, "'y' has 1 missing values, the .* in row 0"),
        ({"a": [1, 2], "y": ["", "u"]}, ContentError, "'y' has 1 missing values, the .* in row 0"),
        ({"__index_level_0__": [0, 1], "y": [0, 1]}, ContentError, "row index, column '__index_l"),
        ({"a": [1, 2], "y": pa.array([b"u", b"\xc3"]).view(pa.string())}, FormatError, "UTF"),
    ):
        with pytest.raises(error, match=f"mine.parquet.*{problem}"):
            read_parquet(parquet_file(tmp_path, pa.table(columns)), labels="y")


def test_a_fraction_far_down_a_csv_of_integers_is_read(tmp_path):
    rows = 400_000
    path = csv_file(tmp_path, "a,b\n" + "123,7\n" * rows + "0.5,7\n")
    samples = read_csv(path, labels=None)
    assert samples.x.shape == (rows + 1, 2)
    assert samples.x[-1, 0] == 0.5


class TestGenerated:
    def test_the_gaussian_draw_is_standard_and_repeats_and_digits_are_whole(self):
        x = draw_gaussian(n=20_000, d=3, seed=4).x
        # Mean and variance have standard errors 1/sqrt(n) and sqrt(2/n); five of them.
        np.testing.assert_allclose(x.mean(axis=0), 0, atol=5 / 20_000**0.5)
        np.testing.assert_allclose(x.var(axis=0), 1, atol=5 * (2 / 20_000) ** 0.5)
        np.testing.assert_array_equal(x, draw_gaussian(n=20_000, d=3, seed=4).x)
        assert not np.array_equal(x, draw_gaussian(n=20_000, d=3, seed=5).x)
        digits = load_digits()
        assert digits.x.shape == (1797, 64)
        assert (digits.x.min(), digits.x.max()) == (0, 16)
        assert np.unique(digits.y).tolist() == list(range(10))

    def test_patches_lie_on_the_grid_of_the_photographs(self):
        size, stride = 40, 60
        samples = cut_patches(size=size, stride=stride, samples=41)
        assert samples.y.tolist() == [0] * 21 + [1] * 20
        for label, photograph in enumerate(load_sample_images().images):
            height, width, _ = photograph.shape
            corners = product(*(range(0, end - size + 1, stride) for end in (height, width)))
            patches = [photograph[top : top + size, left : left + size] for top, left in corners]
            chosen = samples.x[samples.y == label]
            expected = [patches[i * len(patches) // len(chosen)] for i in range(len(chosen))]
            np.testing.assert_array_equal(chosen, expected)
        with pytest.raises(UserError, match=r"1108 patches .* 427 × 640 pixels, 1107 do"):
            cut_patches(size=32, stride=15, samples=2 * 1107 + 1)
