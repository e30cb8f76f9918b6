"""Datasets are read, checked and described."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ntk_conditioning import files
from ntk_conditioning.data.archives import ContentError
from ntk_conditioning.data.datasets import Source, describe, read
from ntk_conditioning.errors import UserError
from tests.support.sources import cifar_batches, idx_bytes, svhn_bytes, tar_bytes

SYNTHETIC = Source("synthetic", "gaussian", "none", options={"n": 2000, "d": 5, "seed": 0})
IMAGES = np.arange(5 * 4 * 3).reshape(5, 4, 3) ** 2 % 251  # also above 127
LABELS = np.array([3, 1, 4, 1, 5])
TINY = Source("tiny", "idx", "symmetric", (0.0, 255.0), sha256={"train_x": (), "train_y": ()})
# checksum and path are the corpus', not the features'
CORPUS = {"sha256": {"train_x": ("0",)}, "path": Path("corpus")}
SPEECH = Source("speech", "librispeech", "none", options={"subset": "dev-clean"}, **CORPUS)
MINE = Source("mine", "npz", "none")
X = np.arange(6.0).reshape(3, 2) + 1


class TestFiles:
    def test_images_are_flattened_and_stay_bytes(self, tmp_path):
        parts = {"train_x": tmp_path / "images", "train_y": tmp_path / "labels"}
        parts["train_x"].write_bytes(idx_bytes(IMAGES))
        parts["train_y"].write_bytes(gzip.compress(idx_bytes(LABELS)))
        test = {"test_x": parts["train_x"], "test_y": parts["train_y"]}
        for dataset in (read(TINY, parts), read(TINY, test, split="test")):
            assert (dataset.x.dtype, dataset.y.dtype) == (np.uint8, np.int64)
            np.testing.assert_array_equal(dataset.x, IMAGES.reshape(5, 12))
            np.testing.assert_array_equal(dataset.y, LABELS)

    @pytest.mark.parametrize(
        ("source", "parts", "split", "problem"),
        [
            (TINY, "test_x test_y", "train", "no file is given for its part train_x; give tr"),
            (TINY, "train_x", "train", "tiny: no file is given for its part train_y"),
            (TINY, "train", "train", "tiny: reader idx takes train_x, train_y, .*, not train"),
            (SYNTHETIC, "train_x", "train", "synthetic: reader gaussian takes no files, not tr"),
            (SYNTHETIC, "", "test", "synthetic has only a training part"),
            (MINE, "train_x train_y", "train", "npz takes train_x, test_x, not train_y"),
            (SPEECH, "", "train", "no file is given for its part features; give features=PATH"),
        ],
    )
    def test_files_must_be_given_and_used(self, source, parts, split, problem):
        with pytest.raises(UserError, match=problem):
            read(source, dict.fromkeys(parts.split(), Path("file")), split=split)

    def test_a_dataset_of_speech_is_its_extracted_features(self, tmp_path):
        x = np.eye(3, dtype=np.float32)
        np.savez(tmp_path / "features.npz", x=x, y=np.arange(3))
        dataset = read(SPEECH, {"features": tmp_path / "features.npz"})
        np.testing.assert_array_equal(dataset.x, x)
        assert dataset.y.tolist() == [0, 1, 2]
        np.savez(tmp_path / "features.npz", x=x)
        with pytest.raises(ContentError, match="has no array 'y'"):
            read(SPEECH, {"features": tmp_path / "features.npz"})

    def test_files_of_both_parts_and_of_known_checksum_are_read(self, tmp_path):
        cifar, svhn = tmp_path / "cifar.tar", tmp_path / "svhn.mat"
        cifar.write_bytes(tar_bytes(cifar_batches(2, 1, 1, 3, 1, 2)))
        source = Source("cifar", "cifar10", "symmetric", (0.0, 255.0), path=cifar)
        for parts in ({}, {"train_x": cifar, "test_x": cifar}):
            assert read(source, parts).x.shape == (8, 3072)
            assert read(source, parts, split="test").x.shape == (2, 3072)
        svhn.write_bytes(svhn_bytes(3))
        known = {"train_x": (files.sha256(svhn),)}
        assert read(Source("s", "svhn", "none", path=svhn, sha256=known)).x.shape == (3, 3072)

    def test_npz_parquet_and_csv_agree(self, tmp_path):
        y = np.array([0, 1, 0])
        np.savez(tmp_path / "t.npz", x=X, c=y)
        pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "c": y}), tmp_path / "t.parquet")
        (tmp_path / "t.csv").write_text("a,b,c\n1,2,0\n3,4,1\n5,6,0\n")
        for reader in ("npz", "parquet", "csv"):
            path = tmp_path / f"t.{reader}"
            source = Source("mine", reader, "none", options={"labels": "c"}, path=Path("absent"))
            dataset = read(source, {"train_x": path})  # a given file comes before the entry's path
            np.testing.assert_array_equal(dataset.x, X)
            np.testing.assert_array_equal(dataset.y, y)
        path.write_text("width,height\n1,2\n3,inf\n")
        source = Source("t", "csv", "none", options={"labels": None}, path=path)
        with pytest.raises(ContentError, match=r"t.csv: line 3, column 'height' is inf"):
            read(source)


def mine(folder, scaling="none", limits=None, **arrays):
    np.savez(folder / "mine.npz", **arrays)
    return read(Source("mine", "npz", scaling, limits, path=folder / "mine.npz"))


WITH_GAPS = np.array([[1, 2], [3, np.nan], [np.inf, 4]])


class TestContent:
    @pytest.mark.parametrize("dtype", ["?", "i1", "u2", ">i4", "u8", "f2", ">f4", "f8"])
    def test_number_types_are_kept_in_the_machines_byte_order(self, tmp_path, dtype):
        x = np.array([[1, 0], [0, 1]], dtype=dtype)
        dataset = mine(tmp_path, x=x, y=np.array(["pear", "apple"]))
        assert dataset.y.tolist() == [1, 0]  # in sorted order
        assert dataset.x.dtype == (np.uint8 if dtype == "?" else x.dtype.newbyteorder("="))
        np.testing.assert_array_equal(dataset.x, x)

    @pytest.mark.parametrize(
        ("arrays", "problem"),
        [
            ({"x": X.astype(complex)}, r"\(x\) holds complex128"),
            ({"x": X.astype(np.longdouble)}, "holds .*128|holds .*96"),
            ({"x": X[:, 0]}, r"\(x\) has shape \(3,\)"),
            ({"x": X[:, :0]}, r"has shape \(3, 0\)"),
            ({"x": X[:1]}, "has 1 samples; a dataset needs 2 or more"),
            ({"x": WITH_GAPS}, r"\(x\): row 1, column 1 is nan, one of 2 values .* not finite"),
            ({"x": X, "y": np.arange(2)}, r"\(y\) has 2 labels, but .* 3 sam"),
            ({"x": X, "y": np.eye(3, dtype=int)}, r"has shape \(3, 3\)"),
            ({"x": X, "y": np.arange(3.0)}, r"\(y\) holds float64; .* integ"),
        ],
    )
    def test_each_fault_is_named(self, tmp_path, arrays, problem):
        with pytest.raises(ContentError, match=f"mine.npz.*{problem}") as caught:
            mine(tmp_path, **arrays)
        assert len(str(caught.value).splitlines()) == 1

    def test_values_outside_the_range_are_named(self, tmp_path):
        problem = r"row 2, column 1 is 6.0, outside value_range \[1, 5.5\]; .* lie in \[1, 6\]"
        with pytest.raises(ContentError, match=problem):
            mine(tmp_path, "unit_interval", (1.0, 5.5), x=X)
        # checked whatever the scaling, and in the type of the data
        with pytest.raises(ContentError, match="row 0, column 0 is 1"):
            mine(tmp_path, "none", (2.0, 300.0), x=X.astype(np.uint8))
        mine(tmp_path, "symmetric", (0.1, 0.3), x=np.array([[0.1, 0.3]] * 2, np.float32))
        mine(tmp_path, "none", (-1e9, 1e9), x=X.astype(np.float16))

    def test_senseless_scalings_other_shapes_and_zero_samples_are_named(self, tmp_path):
        with pytest.raises(ContentError, match="mine: scaling symmetric needs a value_range"):
            mine(tmp_path, "symmetric", x=X)
        with pytest.raises(ContentError, match=r"mine: value_range \[1, 1\] is empty"):
            mine(tmp_path, "unit_interval", (1, 1), x=X)
        with pytest.raises(ContentError, match="no scaling is called unit; they are none, unit_i"):
            mine(tmp_path, "unit", x=X)
        source = Source("mine", "npz", "none", shape=(5, 2), path=tmp_path / "mine.npz")
        with pytest.raises(ContentError, match=r"3 samples of 2 features .* \[5, 2\]"):
            read(source)
        assert len(read(replace(source, shape=(3, 2))).x) == 3
        with pytest.raises(ContentError, match="the first in row 1"):  # it has no direction
            describe(mine(tmp_path, x=np.diag([1.0, 0.0])), available=2)
