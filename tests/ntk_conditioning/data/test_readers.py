"""Data are read exactly as their formats have them, and a file that is not sound is named."""

import gzip
import shutil
from decimal import Decimal
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.io
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_sample_images

from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.data.generated import cut_patches, draw_gaussian, load_digits
from ntk_conditioning.data.readers.images import BATCHES, FOLDER, read_cifar10, read_idx, read_svhn
from ntk_conditioning.data.readers.tables import read_csv, read_npz, read_parquet
from ntk_conditioning.errors import UserError
from ntk_conditioning.files import ChecksumError, MissingFileError, sha256
from ntk_conditioning.seeds import generator
from tests.support import sources
from tests.support.sources import idx_bytes, npz_bytes, parquet_bytes, svhn_bytes


def write(folder, content, name="mine"):
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4)), st.booleans())
def test_idx_files_give_every_byte(tmp_path_factory, array, packed):
    content = gzip.compress(idx_bytes(array)) if packed else idx_bytes(array)
    path = write(tmp_path_factory.getbasetemp(), content)
    samples = read_idx(path, path)
    np.testing.assert_array_equal(samples.x, array)
    np.testing.assert_array_equal(samples.y, array)
    assert read_idx(path, None).y is None


def test_svhn_of_known_checksum_has_images_and_its_label_0(tmp_path):
    path = write(tmp_path, svhn_bytes(300, note="a text", z=np.eye(3)))
    samples, reference = read_svhn(path, sha256=[sha256(path)]), scipy.io.loadmat(path)
    np.testing.assert_array_equal(np.moveaxis(samples.x, 0, 3), reference["X"])
    digits = reference["y"][:, 0]
    np.testing.assert_array_equal(samples.y, np.where(digits == 10, 0, digits))
    assert (samples.x.dtype, samples.x.flags.c_contiguous) == (np.uint8, True)
    path = write(tmp_path, "no MATLAB file")  # which is not even opened
    for known, problem in (((), "that of its entry, which must be given"), (["00"], "00")):
        with pytest.raises(ChecksumError, match=f"mine has sha256 .*, not {problem}"):
            read_svhn(path, sha256=known)


RECORD = 3073
GOOD = sources.cifar_batches(2, 1, 1, 3, 1, 2)


def cifar_files(folder, members, prefix=f"{FOLDER}/"):
    """Return an archive with these members, and the folder that it unpacks to."""
    files = {prefix + name: content for name, content in members.items()}
    archive = write(folder, gzip.compress(sources.tar_bytes(files), 1), "cifar-10-binary.tar.gz")
    shutil.unpack_archive(archive, folder / "unpacked", filter="data")
    return archive, folder / "unpacked" / prefix


@pytest.mark.parametrize("split", BATCHES)
def test_cifar10_has_images_and_labels(tmp_path, split):
    content = np.frombuffer(b"".join(GOOD[name] for name in BATCHES[split]), np.uint8)
    n, row, column, colour = np.indices((len(content) // RECORD, 32, 32, 3))
    images = content[n * RECORD + 1 + 1024 * colour + 32 * row + column]
    archive, inner = cifar_files(tmp_path, GOOD)
    others = {"readme.html": b"<html>", "batches.meta.txt": b"airplane\n", "more.bin" * 30: b"x"}
    (tmp_path / "other").mkdir()  # the members' order does not matter
    more, _ = cifar_files(tmp_path / "other", others | dict(reversed(GOOD.items())), "./elsewhere/")
    for path in (archive, inner, inner.parent, more):
        samples = read_cifar10(path, split=split)
        np.testing.assert_array_equal(samples.y, content[::RECORD])
        np.testing.assert_array_equal(samples.x, images)
        assert samples.x.dtype == np.uint8


def test_a_wrong_batch_is_named(tmp_path):
    members = {name: batch for name, batch in GOOD.items() if name != "data_batch_3.bin"}
    for content, problem in (
        ({}, "has no data_batch_3.bin; take CIFAR-10's binary version, cifar-10-binary"),
        ({"data_batch_3.bin": bytes(2 * RECORD + 5)}, "data_batch_3.bin cannot be read as records"),
    ):
        for path in cifar_files(tmp_path, members | content):
            with pytest.raises((ContentError, FormatError), match=f"{path.name}.*{problem}"):
                read_cifar10(path)
            read_cifar10(path, split="test")  # which it is no part of


def test_labels_of_an_npz_are_read_if_there_or_as_asked(tmp_path):
    x, y = np.eye(3), np.arange(3)
    assert read_npz(write(tmp_path, npz_bytes(x=x))).y is None
    assert read_npz(write(tmp_path, npz_bytes(x=x, y=y)), labels=None).y is None
    path = write(tmp_path, npz_bytes(data=np.zeros((3, 4, 2)), target=y))
    np.testing.assert_array_equal(read_npz(path, features="data", labels="target").y, y)


COLUMNS = {"a": np.array([1, 2, 3], np.int16), "b": [0.5, 1.5, 2.5], "flag": [True, False, True]}
PARQUET = parquet_bytes(COLUMNS | {"label": [2, 0, 1], "kind": ["u", "v", "u"]})
CSV = "a,b,flag,label,kind\n1,0.5,true,2,u\n2,1.5,false,0,v\n3,2.5,true,1,u\n"
MADE = {
    "plain": CSV,
    "packed": gzip.compress(CSV.encode(), mtime=0),
    "byte order mark": CSV.encode("utf-8-sig"),
    "UTF-16, tabs": CSV.replace(",", "\t").encode("utf-16"),
    "UTF-16, big-endian": b"\xfe\xff" + CSV.encode("utf-16-be"),
    "decimal commas": CSV.replace(",", ";").replace(".", ","),
    "Windows": CSV.replace("\n", "\r\n"),
    "blank lines": "\n" + CSV.replace("\n", "\n  \n\n"),
    "parquet": PARQUET,
}


@pytest.mark.parametrize("name", MADE)
def test_columns_are_chosen_by_name(tmp_path, name):
    read, path = read_parquet if name == "parquet" else read_csv, write(tmp_path, MADE[name])
    samples = read(path, labels="label", features=["b", "a", "flag"])
    np.testing.assert_array_equal(samples.x, [[0.5, 1, 1], [1.5, 2, 0], [2.5, 3, 1]])
    np.testing.assert_array_equal(samples.y, [2, 0, 1])
    assert samples.columns == ("b", "a", "flag")
    assert read(path, labels=None, features=["a"]).y is None
    for absent, problem in (("absent", "absent does not exist"), ("", "is not a file")):
        with pytest.raises(MissingFileError, match=problem):
            read(tmp_path / absent, labels=None)
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
    for read, content in (
        (read_parquet, parquet_bytes(pa.Table.from_pandas(frame))),
        (read_csv, frame.to_csv(index=False)),
    ):
        np.testing.assert_array_equal(read(write(folder, content), labels=None).x, x)


def test_types_are_kept_decimals_are_numbers_and_categories_labels(tmp_path):
    path = write(tmp_path, PARQUET)
    assert read_parquet(path, labels=None, features=["a"]).x.dtype == np.int16
    assert read_parquet(path, labels=None, features=["flag"]).features().dtype == np.uint8
    folder = tmp_path / "year=2020"  # which adds no column
    folder.mkdir()
    for kinds in (["v", "u", "v "], [1, 0, 1]):
        columns = {"a": [Decimal("1.5"), 2, 3], "kind": pa.array(kinds).dictionary_encode()}
        samples = read_parquet(write(folder, parquet_bytes(columns)), labels="kind")
        assert (samples.x.tolist(), samples.labels().tolist()) == ([[1.5], [2], [3]], [1, 0, 1])
        assert samples.columns == ("a",)


def test_labels_may_have_commas_and_are_read_without_spaces_and_zeros_before_them(tmp_path):
    for text, features, labels in (
        ("a;y\n1.5;b, c\n2.5;1,2\n", [[1.5], [2.5]], [1, 0]),
        ("a, y \n1, dog\n2,cat\n3,dog \n", [[1], [2], [3]], [1, 0, 1]),
        ("a,y\n1,01\n2,02\n3,01\n", [[1], [2], [3]], [1, 2, 1]),
        ('"a; mm; cm",y\n1,True\n2,False\n', [[1], [2]], [1, 0]),
        ("a;y\n0,125;1\n1,125;0\n", [[0.125], [1.125]], [1, 0]),
        ("a,y\n99999999999999999999,1\n5,0\n", [[1e20], [5]], [1, 0]),
    ):
        samples = read_csv(write(tmp_path, text), labels="y")
        assert (samples.x.tolist(), samples.labels().tolist()) == (features, labels)


PACKED = gzip.compress(idx_bytes(np.zeros((5, 4, 3))), mtime=0)
SVHN = [b"", svhn_bytes()[:124] + b"\x00\x02IM", svhn_bytes(y=None), svhn_bytes()[:-9]]
NPZ = [npz_bytes(x=np.array([{}], dtype=object)), npz_bytes(lambda file: np.save(file, np.eye(2)))]
READ = {
    "idx": partial(read_idx, y=None),
    "svhn": lambda path: read_svhn(path, sha256=[sha256(path)]),
    "npz": read_npz,
    "csv": partial(read_csv, labels=None),
    "csv y": partial(read_csv, labels="y"),
    "parquet": lambda path: read_parquet(path, labels="y"),
}
ALIKE = "column 'y' has '.*' and '.*', which are read as one label"
TWICE = pa.table([pa.array([1, 2]), pa.array([0, 1])], names=["a", "a"])
FAULTS = [
    ("idx", b"", "starts with b'', not as an IDX file"),
    ("idx", b"\0\0\x0d\x01", "starts with .*, or save other arrays as npz and take reader npz"),
    ("idx", b"\0\0\x08\x01\0\0\0\x02" + b"7", "cannot be read .* size 1 into shape"),
    ("idx", b"\0\0\x08\x03" + b"\xff" * 12, "cannot be read as an IDX file"),
    ("idx", PACKED + b"x", "cannot be read as an IDX file: Not a gzipped file"),
    *(("svhn", content, "cannot be read as a MATLAB file") for content in SVHN),
    *(("npz", content, "cannot be read as a NumPy archive, as numpy.savez") for content in NPZ),
    ("csv", "a,b\n1,2\n1,2,3\n", "cannot be read as CSV: .* in line 3, saw 3"),
    ("csv", "a,b\n1,2,3\n1,2,3\n", "cannot be read as CSV: Length of header"),
    ("csv", "", "cannot be read as CSV"),
    ("csv", "größe,b\n1,2\n".encode("latin-1"), "line 1 has the byte 0xf6, which is"),
    ("parquet", {"a": [1, 2], "y": pa.array([b"u", b"\xc3"]).view(pa.string())}, ".*UTF"),
    ("npz", npz_bytes(a=np.eye(3), b=np.eye(3)), "has no array 'x'; its arrays: 'a', 'b'"),
    ("csv", "a,b\n1,2\n3,\n5,NA\n", "column 'b' has 2 missing values, the first in line 3"),
    ("csv", "a,b\n1,2\n3\n", "column 'b' has 1 missing values, the first in line 3"),
    ("csv", "a,b\n", "has no samples, only columns"),
    ("csv", "a,b\n\n1,2\n\n3,x\n", "line 5, column 'b' is 'x', not a number; encode"),
    ("csv", 'a,b\n1,"2\n3"\n4,x\n', r"line 3, column 'b' is '2\\n3', not a number"),
    ("csv", "a;b\n1,5;3\n1,5;2.5\n", "line 3, column 'b' is '2.5', not a number"),
    ("csv", ",a\n0,1\n1,2\n", "has a row index or columns without names, 'Unnamed: 0'"),
    ("csv", "a,a\n1,2\n3,4\n", "has several columns named 'a'"),
    ("csv", "1,2\n3,4\n5,6\n", "starts with numbers; its first line must name the columns"),
    ("csv y", "a,y\n0,1\n1,2\n2,nan\n", "column 'y' has 1 missing values, the first in line 4"),
    ("csv y", "a,y\n0,01\n1,1\n2,2\n", ALIKE),
    ("csv y", "a,y\n0,true\n1,TRUE\n2,false\n", ALIKE),
    ("csv", "a;b\n1,234;5\n900;6\n", "1,234 may have a decimal comma or one between thousands"),
    ("csv", "sep=;\na;b\n1;2\n3;4\n", "starts with 'sep=;', a line for Excel; remove it"),
    ("parquet", {"a": [1, 2], "y": [None, 1]}, "column 'y' has 1 missing values, the .* in row 0"),
    ("parquet", {"a": [1, 2], "y": ["", "u"]}, "column 'y' has 1 missing values, the .* in row 0"),
    ("parquet", {"a": [[1], [2]], "y": [0, 1]}, r"row 0, column 'a' is '\[1\]', not a num"),
    ("parquet", TWICE, "has several columns named 'a'"),
    ("parquet", {"__index_level_0__": [0, 1], "y": [0, 1]}, "has a row index or columns .*, '__in"),
]


@pytest.mark.parametrize(("kind", "content", "problem"), FAULTS)
def test_a_file_that_is_not_sound_is_named(tmp_path, kind, content, problem):
    path = write(tmp_path, parquet_bytes(content) if kind == "parquet" else content)
    with pytest.raises((FormatError, ContentError), match=f"mine:? {problem}"):
        READ[kind](path)


def test_gaussian_samples_have_their_stream_and_digits_are_whole():
    expected = generator(4, "data").standard_normal((20, 3))
    np.testing.assert_array_equal(draw_gaussian(n=20, d=3, seed=4).x, expected)
    digits = load_digits()
    assert (digits.x.shape, digits.x.min(), digits.x.max()) == ((1797, 64), 0, 16)
    assert np.unique(digits.y).tolist() == list(range(10))


def test_patches_lie_on_the_grid_of_the_photographs():
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
