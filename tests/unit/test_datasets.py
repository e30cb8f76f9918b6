"""Datasets are read, checked, drawn from and described."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ntk_conditioning import datasets, files, samples, seeds
from ntk_conditioning.datasets import Entry, PartError, SubsetError, describe, read, subset
from ntk_conditioning.errors import UserError
from ntk_conditioning.prepared import (
    PreparedSamples,
    ScalingError,
    ZeroSampleError,
    content_digest,
    scaled,
)

ROOT = Path(__file__).parents[2]
CATALOGUE: dict[str, Any] = yaml.safe_load((ROOT / "datasets.yaml").read_text())
SCHEMA: dict[str, Any] = yaml.safe_load((ROOT / "schemas/datasets.schema.yaml").read_text())
REAL_DATA = ROOT.parent / "shared" / "data"


def idx(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


IMAGES = np.arange(5 * 4 * 3).reshape(5, 4, 3) ** 2 % 251  # also above 127
LABELS = np.array([3, 1, 4, 1, 5])
TINY = Entry("tiny", "idx", "symmetric", (0.0, 255.0), sha256={"train_x": (), "train_y": ()})


def tiny_parts(folder: Path, images: bytes, labels: bytes) -> dict[str, Path]:
    (folder / "images").write_bytes(images)
    (folder / "labels").write_bytes(labels)
    return {"train_x": folder / "images", "train_y": folder / "labels"}


class TestRead:
    def test_images_are_flattened_and_stay_bytes(self, tmp_path):
        found = read(TINY, tiny_parts(tmp_path, idx(IMAGES), gzip.compress(idx(LABELS))))
        assert found.x.dtype == np.uint8
        np.testing.assert_array_equal(found.x, IMAGES.reshape(5, 12))
        assert found.y.dtype == np.int64
        np.testing.assert_array_equal(found.y, LABELS)

    def test_the_test_part_is_read_on_request(self, tmp_path):
        parts = tiny_parts(tmp_path, idx(IMAGES), idx(LABELS))
        test = {"test_x": parts["train_x"], "test_y": parts["train_y"]}
        np.testing.assert_array_equal(read(TINY, test, split="test").y, LABELS)
        with pytest.raises(PartError, match="no file is given for its part train_x; give train_x="):
            read(TINY, test)

    def test_any_bit_flip_in_a_header_is_named_or_harmless(self, tmp_path):
        good = (idx(IMAGES), idx(LABELS))
        expected = read(TINY, tiny_parts(tmp_path, *good))
        refused = 0
        for which, length in ((0, 16), (1, 8)):
            for bit in range(8 * length):
                damaged = [bytearray(content) for content in good]
                damaged[which][bit // 8] ^= 1 << bit % 8
                try:
                    found = read(TINY, tiny_parts(tmp_path, *map(bytes, damaged)))
                except UserError:
                    refused += 1
                    continue
                np.testing.assert_array_equal(found.x, expected.x)
                np.testing.assert_array_equal(found.y, expected.y)
        assert refused == 8 * (16 + 8)  # datasets hold unsigned bytes, so also another type

    def test_any_bit_flip_in_a_packed_file_is_named_or_harmless(self, tmp_path):
        packed = gzip.compress(idx(IMAGES), mtime=0)
        expected = read(TINY, tiny_parts(tmp_path, packed, idx(LABELS)))
        for bit in range(8 * len(packed)):
            damaged = bytearray(packed)
            damaged[bit // 8] ^= 1 << bit % 8
            try:
                found = read(TINY, tiny_parts(tmp_path, bytes(damaged), idx(LABELS)))
            except UserError:
                continue
            np.testing.assert_array_equal(found.x, expected.x)

    @pytest.mark.parametrize(
        ("images", "labels", "error", "problem"),
        [
            (
                IMAGES,
                LABELS[:4],
                samples.LabelError,
                "labels has 4 labels, but .*images has 5 samp",
            ),
            (IMAGES, IMAGES, samples.LabelError, r"labels has shape \(5, 4, 3\)"),
            (LABELS, LABELS, samples.DimensionError, r"images has shape \(5,\)"),
            (IMAGES[:1], LABELS[:1], samples.TooFewSamplesError, "images has 1 samples"),
        ],
    )
    def test_files_that_do_not_fit_are_named(self, tmp_path, images, labels, error, problem):
        with pytest.raises(error, match=problem):
            read(TINY, tiny_parts(tmp_path, idx(images), idx(labels)))

    def test_files_must_be_given_and_used(self, tmp_path):
        parts = tiny_parts(tmp_path, idx(IMAGES), idx(LABELS))
        with pytest.raises(PartError, match="tiny: no file is given for its part train_y"):
            read(TINY, {"train_x": parts["train_x"]})
        with pytest.raises(PartError, match="no part is called train; parts are train_x"):
            read(TINY, {"train": parts["train_x"]})
        synthetic = Entry.from_catalogue("synthetic", CATALOGUE["synthetic"])
        with pytest.raises(PartError, match="synthetic needs no file and has only a training part"):
            read(synthetic, {"train_x": parts["train_x"]})
        with pytest.raises(PartError, match="only a training part"):
            read(synthetic, split="test")
        with pytest.raises(PartError, match="has the labels in train_x, not train_y"):
            read(Entry("mine", "npz", "none"), parts)

    def test_synthetic_data_are_drawn_with_the_role_data(self):
        entry = Entry.from_catalogue("synthetic", CATALOGUE["synthetic"])
        expected = seeds.generator(0, "data").standard_normal((2000, 5))
        np.testing.assert_array_equal(read(entry).x, expected)


def mine(
    folder: Path, scaling: Any = "none", value_range: Any = None, **arrays: Any
) -> PreparedSamples:
    """Return what `read` makes of a user's own archive of these arrays."""
    path = folder / "mine.npz"
    np.savez(path, **arrays)
    return read(Entry("mine", "npz", scaling, value_range, path=path))


X = np.arange(6.0).reshape(3, 2) + 1


class TestOwnData:
    def test_npz_parquet_and_csv_agree(self, tmp_path):
        x, y = X.copy(), np.array([0, 1, 0])
        archive = mine(tmp_path, x=x, y=y)
        pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1], "c": y}), tmp_path / "t.parquet")
        (tmp_path / "t.csv").write_text("a,b,c\n1,2,0\n3,4,1\n5,6,0\n")
        for reader in ("parquet", "csv"):
            entry = {
                "title": "Mine",
                "reader": reader,
                "path": str(tmp_path / f"t.{reader}"),
                "options": {"labels": "c"},
                "scaling": "none",
            }
            found = read(Entry.from_catalogue("mine", entry))
            np.testing.assert_array_equal(found.x, archive.x)
            np.testing.assert_array_equal(found.y, archive.y)

    def test_a_given_file_comes_before_the_entrys_path(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=X)
        entry = Entry("mine", "npz", "none", path=tmp_path / "absent.npz")
        assert len(read(entry, {"train_x": tmp_path / "a.npz"}).x) == 3
        with pytest.raises(files.MissingFileError, match=r"absent.npz does not exist"):
            read(entry)

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
        entry = Entry("t", "csv", "none", options={"labels": None}, path=tmp_path / "t.csv")
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
            ("unit_interval", [1, 1], r"mine: value_range \[1.0, 1.0\] is empty"),
            ("symmetric", [1, 0], "not in order"),
            ("symmetric", [0, float("nan")], "not in order"),
            ("unit", None, "no scaling is called unit; they are none, unit_interval"),
        ],
    )
    def test_a_scaling_without_sense_is_named(self, scaling, value_range, problem):
        entry = {"reader": "npz", "path": "x", "scaling": scaling, "value_range": value_range}
        with pytest.raises(ScalingError, match=problem):
            Entry.from_catalogue("mine", entry)


class TestSubset:
    DATASET = PreparedSamples(
        "letters", np.arange(40).reshape(20, 2), np.arange(20) % 3, "symmetric", (0.0, 40.0)
    )

    def draw(self, n: int, seed: int = 1, **options: Any) -> PreparedSamples:
        return subset(self.DATASET, n, generator=seeds.generator(seed, "data"), **options)

    def test_samples_are_distinct_in_order_and_keep_their_labels(self):
        drawn = self.draw(8)
        rows = drawn.x[:, 0] // 2
        assert len(set(rows)) == 8
        assert (np.diff(rows) > 0).all()
        np.testing.assert_array_equal(drawn.y, rows % 3)
        assert (drawn.name, drawn.scaling, drawn.value_range) == ("letters", "symmetric", (0, 40))

    def test_the_seed_decides(self):
        np.testing.assert_array_equal(self.draw(8).x, self.draw(8).x)
        assert not np.array_equal(self.draw(8).x, self.draw(8, seed=2).x)

    @pytest.mark.parametrize(
        ("n", "counts"), [(3, [1, 1, 1]), (17, [6, 6, 5]), (18, [6, 6, 6]), (20, [7, 7, 6])]
    )
    def test_balanced_draws_have_even_classes(self, n, counts):
        drawn = self.draw(n, balanced=True)
        assert np.bincount(drawn.y).tolist() == counts
        assert len(np.unique(drawn.x[:, 0])) == n

    @pytest.mark.parametrize(
        ("n", "balanced", "problem"),
        [
            (21, False, "letters: 21 samples asked for; it must be 2 to 20, or all"),
            (1, False, "it must be 2 to 20"),
            (2, True, "letters: 2 samples cannot hold each of 3 classes"),
        ],
    )
    def test_what_cannot_be_drawn_is_named(self, n, balanced, problem):
        with pytest.raises(SubsetError, match=problem):
            self.draw(n, balanced=balanced)

    def test_a_small_class_and_missing_labels_are_named(self):
        uneven = PreparedSamples("uneven", np.eye(6), np.array([0, 0, 0, 0, 0, 1]), "none")
        problem = "class 1 has 1 samples, but a balanced draw of 4 takes 2; at most 2 samples are"
        with pytest.raises(SubsetError, match=problem):
            subset(uneven, 4, generator=seeds.generator(1, "data"), balanced=True)
        bare = PreparedSamples("bare", np.eye(6), None, "none")
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

    def test_a_whole_dataset_without_labels(self):
        sheet = describe(PreparedSamples("two", np.eye(2), None, "none"), available=2)
        assert (sheet.classes, sheet.seed, sheet.balanced) == (None, None, False)

    def test_samples_that_have_no_direction_are_refused(self):
        with pytest.raises(ZeroSampleError, match="the first in row 1"):
            describe(PreparedSamples("two", np.diag([1.0, 0.0]), None, "none"), available=2)

    def test_json_repeats(self, tmp_path):
        dataset = PreparedSamples("tiny", IMAGES.reshape(5, 12), LABELS, "symmetric", (0.0, 255.0))
        sheet = describe(dataset, available=5)
        for name in ("a.json", "b.json"):
            datasets.save_datasheet(tmp_path / name, sheet)
        text = (tmp_path / "a.json").read_text()
        assert text == (tmp_path / "b.json").read_text()
        assert json.loads(text)["sha256"] == content_digest(dataset)


# From the data's description in the protocol's sources: counts of the labels 0 to 9.
MNIST_TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.skipif(
    not (REAL_DATA / "mnist").exists(), reason="the full MNIST files are not beside the repository"
)
@pytest.mark.parametrize(
    ("name", "counts"), [("mnist", MNIST_TEST_COUNTS), ("fashion_mnist", [1000] * 10)]
)
def test_the_full_files_are_those_of_the_catalogue(name, counts):
    entry = Entry.from_catalogue(name, CATALOGUE[name])
    specification = CATALOGUE[name]["files"]
    parts = {part: REAL_DATA / file["name"] for part, file in specification.items()}
    for part, path in parts.items():
        files.require_sha256(path, entry.sha256[part])
        assert path.stat().st_size == specification[part]["bytes"]
    dataset = read(entry, parts, split="test")
    assert dataset.x.shape == (10_000, 784)
    assert np.bincount(dataset.y).tolist() == counts
    x = scaled(dataset)
    assert (x.min(), x.max()) == (-1, 1)
