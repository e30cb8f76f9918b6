"""Data are read exactly as their formats have them, and a file that is not sound is named."""

import gzip
import io
import shutil
import zipfile
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


@pytest.mark.parametrize("packed", [False, True])
def test_svhn_of_known_checksum_has_images_and_its_label_0(tmp_path, packed):
    path = write(tmp_path, svhn_bytes(300, packed=packed, note="a text", z=np.eye(3)))
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


def cifar_archive(folder, members, *, prefix=f"{FOLDER}/"):
    files = {prefix + name: content for name, content in members.items()}
    return write(folder, gzip.compress(sources.tar_bytes(files), 1), "cifar-10-binary.tar.gz")


def archive_and_folder(folder, members):
    archive = cifar_archive(folder, members)
    shutil.unpack_archive(archive, folder / "unpacked", filter="data")
    return archive, folder / "unpacked" / FOLDER


@pytest.mark.parametrize("split", BATCHES)
def test_cifar10_has_images_and_labels(tmp_path, split):
    content = np.frombuffer(b"".join(GOOD[name] for name in BATCHES[split]), np.uint8)
    packed, inner = archive_and_folder(tmp_path, GOOD)
    for path in (packed, inner, inner.parent):
        samples = read_cifar10(path, split=split)
        np.testing.assert_array_equal(samples.y, content[::RECORD])
        assert (samples.x.shape, samples.x.dtype) == ((len(samples.y), 32, 32, 3), np.uint8)
        n, row, column, colour = np.indices(samples.x.shape)
        places = n * RECORD + 1 + 1024 * colour + 32 * row + column
        np.testing.assert_array_equal(samples.x, content[places])
    others = {"readme.html": b"<html>", "batches.meta.txt": b"airplane\n", "more.bin": b"x"}
    for prefix in ("", f"./{FOLDER}/", "elsewhere/"):  # nor does the members' order matter
        path = cifar_archive(tmp_path, others | dict(reversed(GOOD.items())), prefix=prefix)
        np.testing.assert_array_equal(read_cifar10(path, split=split).x, samples.x)


def test_a_wrong_batch_is_named(tmp_path):
    members = {name: batch for name, batch in GOOD.items() if name != "data_batch_3.bin"}
    for content, problem in (
        ({}, "has no data_batch_3.bin; take CIFAR-10's binary version, cifar-10-binary"),
        ({"data_batch_3.bin": bytes(2 * RECORD + 5)}, "data_batch_3.bin cannot be read as records"),
    ):
        for path in archive_and_folder(tmp_path, members | content):
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


def test_types_are_kept_and_categories_are_labels(tmp_path):
    path = write(tmp_path, PARQUET)
    assert read_parquet(path, labels=None, features=["a"]).x.dtype == np.int16
    assert read_parquet(path, labels=None, features=["flag"]).features().dtype == np.uint8
    folder = tmp_path / "year=2020"  # which adds no column
    folder.mkdir()
    for kinds in (["v", "u"], [7, 5]):
        content = parquet_bytes({"a": [1, 2], "kind": pa.array(kinds).dictionary_encode()})
        samples = read_parquet(write(folder, content), labels="kind")
        assert (samples.y.tolist(), samples.columns) == (kinds, ("a",))


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


def test_a_fraction_far_down_a_csv_of_integers_is_read(tmp_path):
    rows = 400_000
    samples = read_csv(write(tmp_path, "a,b\n" + "123,7\n" * rows + "0.5,7\n"), labels=None)
    assert samples.x.shape == (rows + 1, 2)
    assert samples.x[-1, 0] == 0.5


PACKED = gzip.compress(idx_bytes(np.zeros((5, 4, 3))), mtime=0)
SVHN = [b"", svhn_bytes()[:124] + b"\x00\x02IM", b"x" * 200, svhn_bytes(y=None)]  # version 7.3
SVHN += [svhn_bytes()[:-9], svhn_bytes()[:136] + b"no zlib!" * 9]
NPZ = [npz_bytes(x=np.array([{}], dtype=object)), npz_bytes(lambda file: np.save(file, np.eye(2)))]
for shape in (b"(9999999999999,)", b"(2, 3", b"(2L,)", b"(-1,)", b"((((2,", b"(0,)"):
    described = b"{'descr': '<f8', 'fortran_order': False, 'shape': %s, }" % shape
    header = b"\x93NUMPY\x01\x00" + len(described).to_bytes(2, "little") + described
    with zipfile.ZipFile(stream := io.BytesIO(), "w") as file:
        file.writestr("x.npy", header + bytes(8))
    NPZ.append(stream.getvalue())
READ = {
    "idx": partial(read_idx, y=None),
    "svhn": lambda path: read_svhn(path, sha256=[sha256(path)]),
    "npz": read_npz,
    "npz y": partial(read_npz, labels="y"),
    "csv": partial(read_csv, labels=None),
    "csv y": partial(read_csv, labels="y"),
    "parquet": lambda path: read_parquet(path, labels="y"),
}
FORMAT_FAULTS = [
    ("idx", b"", "starts with b'', not as an IDX file"),
    ("idx", b"\0\0\x0d\x01", "starts with .*, or save other arrays as npz and take reader npz"),
    ("idx", b"\0\0\x08\x02\0\0\0\x05", "cannot be read as an IDX file: .*fetch or save it again"),
    ("idx", b"\0\0\x08\x01\0\0\0\x02" + b"7", "cannot be read .* size 1 into shape"),
    ("idx", b"\0\0\x08\x03" + b"\xff" * 12, "cannot be read as an IDX file"),
    ("idx", b"\x1f\x8bnot gzip at all", "cannot be read as an IDX file"),
    ("idx", PACKED + b"x", "cannot be read as an IDX file: Not a gzipped file"),
    ("idx", PACKED * 2, "cannot be read .* size 136 into shape"),
    *(("svhn", content, "cannot be read as a MATLAB file") for content in SVHN),
    *(("npz", content, "cannot be read as a NumPy archive, as numpy.savez") for content in NPZ),
    ("csv", "a,b\n1,2\n1,2,3\n", "cannot be read as CSV: .* in line 3, saw 3"),
    ("csv", "a,b\n1,2,3\n1,2,3\n", "cannot be read as CSV: Length of header"),
    ("csv", "", "cannot be read as CSV"),
    ("csv", "größe,b\n1,2\n".encode("latin-1"), "line 1 has the byte 0xf6, which is"),
    ("parquet", {"a": [1, 2], "y": pa.array([b"u", b"\xc3"]).view(pa.string())}, ".*UTF"),
]
ALIKE = "column 'y' has '.*' and '.*', which are read as one label"
TWICE = pa.table([pa.array([1, 2]), pa.array([0, 1])], names=["a", "a"])
CONTENT_FAULTS = [
    ("npz y", npz_bytes(x=np.eye(3)), "has no array 'y'; its arrays: 'x'"),
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
    ("csv y", "a,y\n0,cat\n1,\n2,dog\n", "column 'y' has 1 missing values, the first in line 3"),
    ("csv y", "a,y\n0,1\n1,2\n2,nan\n", "column 'y' has 1 missing values, the first in line 4"),
    ("csv y", "a,y\n0,01\n1,1\n2,2\n", ALIKE),
    ("csv y", "a,y\n0,true\n1,TRUE\n2,false\n", ALIKE),
    ("csv", "a;b\n1,234;5\n900;6\n", "1,234 may have a decimal comma or one between thousands"),
    ("csv", "sep=;\na;b\n1;2\n3;4\n", "starts with 'sep=;', a line for Excel; remove it"),
    ("csv y", "a,y\n0,1.0\n1,1\n2,2\n", ALIKE),
    ("parquet", {"a": [1, 2], "y": [None, 1]}, "column 'y' has 1 missing values, the .* in row 0"),
    ("parquet", {"a": [1, 2], "y": ["", "u"]}, "column 'y' has 1 missing values, the .* in row 0"),
    ("parquet", {"a": [[1], [2]], "y": [0, 1]}, r"row 0, column 'a' is '\[1\]', not a num"),
    ("parquet", TWICE, "has several columns named 'a'"),
    ("parquet", {"__index_level_0__": [0, 1], "y": [0, 1]}, "has a row index or columns .*, '__in"),
]
FAULTS = {FormatError: FORMAT_FAULTS, ContentError: CONTENT_FAULTS}


@pytest.mark.parametrize(("error", "fault"), [(e, fault) for e in FAULTS for fault in FAULTS[e]])
def test_a_file_that_is_not_sound_is_named(tmp_path, error, fault):
    kind, content, problem = fault
    path = write(tmp_path, parquet_bytes(content) if kind == "parquet" else content)
    with pytest.raises(error, match=f"mine:? {problem}"):
        READ[kind](path)


def test_the_gaussian_draw_is_standard_and_repeats_and_digits_are_whole():
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
