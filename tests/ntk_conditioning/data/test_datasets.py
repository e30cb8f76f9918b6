"""Datasets are read, checked, drawn from and described."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ntk_conditioning import files, seeds
from ntk_conditioning.data import datasets, samples
from ntk_conditioning.data.datasets import PartError, Source, SubsetError, describe, read, subset
from ntk_conditioning.data.prepared import (
    PreparedSamples,
    ScalingError,
    ZeroSampleError,
    content_digest,
)
from tests.sources import idx_bytes, svhn_bytes

SYNTHETIC = Source("synthetic", "gaussian", "none", options={"n": 2000, "d": 5, "seed": 0})
IMAGES = np.arange(5 * 4 * 3).reshape(5, 4, 3) ** 2 % 251  # also above 127
LABELS = np.array([3, 1, 4, 1, 5])
TINY = Source("tiny", "idx", "symmetric", (0.0, 255.0), sha256={"train_x": (), "train_y": ()})


def tiny_parts(folder: Path, images: bytes, labels: bytes) -> dict[str, Path]:
    (folder / "images").write_bytes(images)
    (folder / "labels").write_bytes(labels)
    return {"train_x": folder / "images", "train_y": folder / "labels"}


class TestRead:
    def test_images_are_flattened_and_stay_bytes(self, tmp_path):
        parts = tiny_parts(tmp_path, idx_bytes(IMAGES), gzip.compress(idx_bytes(LABELS)))
        test = {"test_x": parts["train_x"], "test_y": parts["train_y"]}
        for found in (read(TINY, parts), read(TINY, test, split="test")):
            assert (found.x.dtype, found.y.dtype) == (np.uint8, np.int64)
            np.testing.assert_array_equal(found.x, IMAGES.reshape(5, 12))
            np.testing.assert_array_equal(found.y, LABELS)
        with pytest.raises(PartError, match="no file is given for its part train_x; give train_x="):
            read(TINY, test)

    def test_files_must_be_given_and_used(self, tmp_path):
        parts = tiny_parts(tmp_path, idx_bytes(IMAGES), idx_bytes(LABELS))
        with pytest.raises(PartError, match="tiny: no file is given for its part train_y"):
            read(TINY, {"train_x": parts["train_x"]})
        with pytest.raises(PartError, match="no part is called train; parts are train_x"):
            read(TINY, {"train": parts["train_x"]})
        with pytest.raises(PartError, match="synthetic needs no file and has only a training part"):
            read(SYNTHETIC, {"train_x": parts["train_x"]})
        with pytest.raises(PartError, match="only a training part"):
            read(SYNTHETIC, split="test")
        with pytest.raises(PartError, match="has the labels in train_x, not train_y"):
            read(Source("mine", "npz", "none"), parts)

    def test_synthetic_data_are_drawn_with_the_role_data(self):
        expected = seeds.generator(0, "data").standard_normal((2000, 5))
        np.testing.assert_array_equal(read(SYNTHETIC).x, expected)


def mine(
    folder: Path, scaling: Any = "none", value_range: Any = None, **arrays: Any
) -> PreparedSamples:
    """Return what `read` makes of a user's own archive of these arrays."""
    path = folder / "mine.npz"
    np.savez(path, **arrays)
    return read(Source("mine", "npz", scaling, value_range, path=path))


X = np.arange(6.0).reshape(3, 2) + 1


class TestOwnData:
    def test_npz_parquet_and_csv_agree(self, tmp_path):
        y = np.array([0, 1, 0])
        archive = mine(tmp_path, x=X, y=y)
        pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "c": y}), tmp_path / "t.parquet")
        (tmp_path / "t.csv").write_text("a,b,c\n1,2,0\n3,4,1\n5,6,0\n")
        for reader in ("parquet", "csv"):
            path = tmp_path / f"t.{reader}"
            found = read(Source("mine", reader, "none", options={"labels": "c"}, path=path))
            np.testing.assert_array_equal(found.x, archive.x)
            np.testing.assert_array_equal(found.y, archive.y)

    def test_svhn_needs_a_checksum(self, tmp_path):
        path = tmp_path / "own.mat"
        path.write_bytes(svhn_bytes(3))
        with pytest.raises(files.ChecksumError, match=r"own.mat is of unknown .* give its sha256"):
            read(Source("own", "svhn", "none", path=path))
        known = Source("own", "svhn", "none", path=path, sha256={"train_x": (files.sha256(path),)})
        assert read(known).x.shape == (3, 3072)

    def test_a_given_file_comes_before_the_entrys_path(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=X)
        entry = Source("mine", "npz", "none", path=tmp_path / "absent.npz")
        assert len(read(entry, {"train_x": tmp_path / "a.npz"}).x) == 3

    @pytest.mark.parametrize("dtype", ["?", "i1", "u2", ">i4", "u8", "f2", ">f4", "f8"])
    def test_number_types_are_kept_in_the_machines_byte_order(self, tmp_path, dtype):
        x = np.array([[1, 0], [0, 1]], dtype=dtype)
        found = mine(tmp_path, x=x).x
        assert found.dtype == (np.uint8 if dtype == "?" else x.dtype.newbyteorder("="))
        np.testing.assert_array_equal(found, x)

    def test_texts_are_numbered_in_sorted_order(self, tmp_path):
        found = mine(tmp_path, x=X, y=np.array(["pear", "apple", "pear"]))
        assert found.y.tolist() == [1, 0, 1]

    @pytest.mark.parametrize(
        ("arrays", "error", "problem"),
        [
            ({"x": X.astype(complex)}, samples.NotNumericError, r"\(x\) holds complex128"),
            ({"x": X.astype(str)}, samples.NotNumericError, r"\(x\) holds <U"),
            ({"x": X.astype(np.longdouble)}, samples.NotNumericError, "holds .*128|holds .*96"),
            ({"x": X[:, 0]}, samples.DimensionError, r"\(x\) has shape \(3,\)"),
            ({"x": np.float64(3)}, samples.DimensionError, r"has shape \(\)"),
            ({"x": X[:, :0]}, samples.DimensionError, r"has shape \(3, 0\)"),
            ({"x": X[:0]}, samples.TooFewSamplesError, "has 0 samples; a dataset needs 2 or more"),
            ({"x": X[:1]}, samples.TooFewSamplesError, "has 1 samples; a dataset needs 2 or more"),
            ({"x": X, "y": np.arange(2)}, samples.LabelError, r"\(y\) has 2 labels, but .* 3 sam"),
            ({"x": X, "y": np.eye(3, dtype=int)}, samples.LabelError, r"has shape \(3, 3\)"),
            ({"x": X, "y": np.arange(3.0)}, samples.LabelError, r"\(y\) holds float64; .* integ"),
        ],
    )
    def test_each_fault_is_named(self, tmp_path, arrays, error, problem):
        with pytest.raises(error, match=f"mine.npz.*{problem}") as caught:
            mine(tmp_path, **arrays)
        assert len(str(caught.value).splitlines()) == 1

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_a_value_that_is_not_finite_is_named_with_its_place(self, tmp_path, value):
        x = X.copy()
        x[1, 1] = x[2, 0] = value
        problem = rf"mine.npz \(x\): row 1, column 1 is {value}, one of 2 values .* not finite"
        with pytest.raises(samples.NotFiniteError, match=problem):
            mine(tmp_path, x=x)

    def test_a_tables_column_is_called_by_its_name(self, tmp_path):
        (tmp_path / "t.csv").write_text("width,height\n1,2\n3,inf\n")
        entry = Source("t", "csv", "none", options={"labels": None}, path=tmp_path / "t.csv")
        with pytest.raises(samples.NotFiniteError, match=r"t.csv: row 1, column 'height' is inf"):
            read(entry)

    def test_values_outside_the_range_are_named(self, tmp_path):
        problem = r"row 2, column 1 is 6.0, outside value_range \[1, 5.5\]; .* lie in \[1, 6\]"
        with pytest.raises(samples.ValueRangeError, match=problem):
            mine(tmp_path, "unit_interval", (1.0, 5.5), x=X)
        # checked whatever the scaling, and in the type of the data
        with pytest.raises(samples.ValueRangeError, match="row 0, column 0 is 1"):
            mine(tmp_path, "none", (2.0, 300.0), x=X.astype(np.uint8))
        mine(tmp_path, "symmetric", (0.1, 0.3), x=np.array([[0.1, 0.3]] * 2, np.float32))
        mine(tmp_path, "none", (-1e9, 1e9), x=X.astype(np.float16))

    @pytest.mark.parametrize(
        ("scaling", "value_range", "problem"),
        [
            ("symmetric", None, "mine: scaling symmetric needs a value_range"),
            ("unit_interval", (1, 1), r"mine: value_range \[1, 1\] is empty"),
            ("symmetric", (1, 0), "not in order"),
            ("symmetric", (0, float("nan")), "not in order"),
            ("unit", None, "no scaling is called unit; they are none, unit_interval"),
        ],
    )
    def test_a_scaling_without_sense_is_named(self, scaling, value_range, problem):
        with pytest.raises(ScalingError, match=problem):
            Source("mine", "npz", scaling, value_range, path=Path("x"))


def test_a_subset_without_labels():
    bare = PreparedSamples("bare", np.eye(6), None)
    assert subset(bare, 2, generator=seeds.generator(1, "data")).y is None
    with pytest.raises(SubsetError, match="bare has no labels"):
        subset(bare, 2, generator=seeds.generator(1, "data"), balanced=True)


class TestDatasheet:
    def test_numbers_of_a_small_dataset(self):
        x = np.array([[3, 4, 9], [0, 5, 9], [3, 4, 9], [3, 4, 9]], dtype=np.uint8)
        four = PreparedSamples("four", x, np.array([1, 1, 7, 1]), "unit_interval", (0, 10))
        sheet = describe(four, available=9, seed=3, balanced=True)
        assert (sheet.name, sheet.n, sheet.d, sheet.classes) == ("four", 4, 3, 2)
        assert (sheet.dtype, sheet.scaling) == ("uint8", "unit_interval")
        assert (sheet.min, sheet.max) == (0, 9)
        assert (sheet.available, sheet.seed, sheet.balanced) == (9, 3, True)
        assert sheet.sha256 == content_digest(four)

    def test_a_whole_dataset_without_labels(self, tmp_path):
        sheet = describe(PreparedSamples("two", np.eye(2), None), available=2)
        datasets.save_datasheet(tmp_path / "two.json", sheet)
        written = json.loads((tmp_path / "two.json").read_text())
        assert (written["classes"], written["seed"], written["balanced"]) == (None, None, False)
        assert written["sha256"] == content_digest(PreparedSamples("two", np.eye(2), None))

    def test_samples_that_have_no_direction_are_refused(self):
        with pytest.raises(ZeroSampleError, match="the first in row 1"):
            describe(PreparedSamples("two", np.diag([1.0, 0.0]), None, "none"), available=2)
