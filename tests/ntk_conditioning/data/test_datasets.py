"""Datasets are read, checked and drawn from; official files too, where they are at hand."""

import gzip
import itertools
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning import files, seeds
from ntk_conditioning.data.archives import ContentError
from ntk_conditioning.data.datasets import Source, describe, read
from ntk_conditioning.data.subsets import draw, draw_on_sphere, draw_two_classes, seed_stream
from ntk_conditioning.errors import UserError
from ntk_conditioning.spectra.block_kernels import draw_blocks
from ntk_conditioning.theory.sphere import unit_rows
from ntk_workflow.catalogue import dataset_source, read_entry
from tests.support.sources import cifar_batches, idx_bytes, svhn_bytes, tar_bytes

TINY = Source("tiny", "idx", "symmetric", (0.0, 255.0), sha256={"train_x": (), "train_y": ()})
SPEECH = Source("speech", "librispeech", "none", path=Path("corpus"))  # not the features' path
X = np.arange(6.0).reshape(3, 2) + 1


def test_files_must_be_given():
    for source, parts, split, problem in (
        (TINY, "test_x test_y", "train", "no file is given for its part train_x; give tr"),
        (TINY, "train_x", "train", "tiny: no file is given for its part train_y"),
        (Source("synthetic", "gaussian", "none"), "", "test", "synthetic has only a training part"),
        (SPEECH, "", "train", "no file is given for its part features; give features=PATH"),
    ):
        with pytest.raises(UserError, match=problem):
            read(source, dict.fromkeys(parts.split(), Path("file")), split=split)


@pytest.mark.parametrize("split", ["train", "test"])
def test_images_of_both_parts_are_flattened_and_stay_bytes(tmp_path, split):
    images = np.arange(5 * 4 * 3).reshape(5, 4, 3) ** 2 % 251  # also above 127
    (tmp_path / "x").write_bytes(idx_bytes(images))
    (tmp_path / "y").write_bytes(gzip.compress(idx_bytes(np.array([3, 1, 4, 1, 5]))))
    dataset = read(TINY, {f"{split}_{part}": tmp_path / part for part in "xy"}, split=split)
    assert (dataset.x.dtype, dataset.y.dtype) == (np.uint8, np.int64)
    np.testing.assert_array_equal(dataset.x, images.reshape(5, 12))
    assert dataset.y.tolist() == [3, 1, 4, 1, 5]
    path = tmp_path / "cifar.tar"
    path.write_bytes(tar_bytes(cifar_batches(2, 1, 1, 3, 1, 2)))
    # the shape is the training part's
    source = Source("cifar", "cifar10", "symmetric", (0.0, 255.0), (8, 3072), path=path)
    for parts in ({}, {f"{split}_x": path}):
        assert read(source, parts, split=split).x.shape == (8 if split == "train" else 2, 3072)


def test_files_of_known_checksum_and_of_ones_own_are_read(tmp_path):
    svhn, mine = tmp_path / "svhn.mat", tmp_path / "t.csv"
    svhn.write_bytes(svhn_bytes(3))
    known = {"train_x": (files.sha256(svhn),)}
    assert read(Source("s", "svhn", "none", path=svhn, sha256=known)).x.shape == (3, 3072)
    mine.write_text("a,b,c\n1,2,dog\n3,4,cat\n")
    source = Source("m", "csv", "none", options={"labels": "c"}, path=Path("absent"))
    dataset = read(source, {"train_x": mine})  # a given file comes before the entry's path
    assert (dataset.x.tolist(), dataset.y.tolist()) == ([[1, 2], [3, 4]], [1, 0])
    named = replace(source, options={"labels": "c", "features": ["a", "b"]})
    for of, problem in ((source, "list the feature columns"), (named, "as integers")):
        with pytest.raises(UserError, match=problem):  # numbers and places of one part alone
            read(of, {"test_x": mine}, split="test")
    mine.write_text("a,b,c\n1,2,dog\n3,inf,cat\n")
    with pytest.raises(ContentError, match=r"t.csv: line 3, column 'b' is inf"):
        read(source, {"train_x": mine})


def mine(folder, x=X, scaling="none", limits=None, shape=None, **labels):
    np.savez(folder / "mine.npz", x=x, **labels)
    return read(Source("mine", "npz", scaling, limits, shape, path=folder / "mine.npz"))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", ">i4", "u8", "f2", ">f4", "f8"])
def test_number_types_are_kept_and_samples_have_directions(tmp_path, dtype):
    x = np.array([[1, 0], [0, 1]], dtype=dtype)
    dataset = mine(tmp_path, x, shape=(2, 2), y=np.array(["pear", "apple"]))
    assert dataset.y.tolist() == [1, 0]  # in sorted order
    assert dataset.x.dtype == (np.uint8 if dtype == "?" else x.dtype.newbyteorder("="))
    np.testing.assert_array_equal(dataset.x, x)
    with pytest.raises(ContentError, match="the first in row 1"):
        describe(replace(dataset, x=np.diag([1, 0])), available=2)
    # ranges are compared in the type of the data
    mine(tmp_path, np.array([[0.1, 0.3]] * 2, np.float32), limits=(0.1, 0.3))
    mine(tmp_path, X.astype(np.float16), limits=(-1e9, 1e9))


WITH_GAPS = np.array([[1, 2], [3, np.nan], [np.inf, 4]])
OUTSIDE = r"row 2, column 1 is 6.0, outside value_range \[1, 5.5\]; .* lie in \[1, 6\]"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"x": X.astype(complex)}, r"npz \(x\) holds complex128"),
        ({"x": X.astype(np.longdouble)}, "npz .*holds .*128|holds .*96"),
        ({"x": X[:, 0]}, r"npz \(x\) has shape \(3,\)"),
        ({"x": X[:, :0]}, r"npz .*has shape \(3, 0\)"),
        ({"x": X[:1]}, r"npz .*has shape \(1, 2\); it must be \(2 or more sam"),
        ({"x": WITH_GAPS}, r"npz \(x\): row 1, column 1 is nan, one of 2 values .* not finite"),
        ({"y": np.arange(2)}, r"npz \(y\) has labels of shape \(2,\), but .* 3 sam"),
        ({"y": np.eye(3, dtype=int)}, r"npz .*has labels of shape \(3, 3\)"),
        ({"y": np.arange(3.0)}, r"npz \(y\) holds float64; .* integ"),
        ({"limits": (1.0, 5.5)}, OUTSIDE),
        ({"x": X.astype(np.uint8), "limits": (2.0, 300.0)}, "row 0, column 0 is 1, outside"),
        ({"shape": (5, 2)}, r"3 samples of 2 features .* \[5, 2\]"),
    ],
)
def test_each_fault_is_named(tmp_path, given, problem):
    with pytest.raises(ContentError, match=f"mine.*{problem}"):
        mine(tmp_path, **given)


ROOT = Path(__file__).parents[3]
# Counts of the labels 0 to 9, as the authors have them, and mean and standard deviation of the
# training part's pixels in units of 255, as they are commonly published to normalise them.
MNIST = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
OFFICIAL = [("mnist", MNIST, MNIST_TEST, (0.1307, 0.3081))]
OFFICIAL += [("fashion_mnist", [6000] * 10, [1000] * 10, (0.2860, 0.3530))]


@pytest.mark.parametrize(("name", "train", "test", "pixels"), OFFICIAL)
def test_official_files_have_the_published_counts_and_pixels(name, train, test, pixels):
    entry = read_entry([str(ROOT / "datasets.yaml")], name)
    parts = {part: ROOT.parent / "shared/data" / f["name"] for part, f in entry["files"].items()}
    for part, path in parts.items():
        if not path.is_file():
            pytest.skip(f"{path.name} is not in ../shared/data")
        files.require_sha256(path, entry["files"][part]["sha256"])
        assert path.stat().st_size == entry["files"][part]["bytes"]
    sets = [read(dataset_source(name, entry), parts, split=split) for split in ("train", "test")]
    assert [np.bincount(part.y).tolist() for part in sets] == [train, test]
    assert [part.x.shape for part in sets] == [(60_000, 784), (10_000, 784)]
    x = sets[0].x
    assert (x.dtype, x.min(), x.max()) == (np.uint8, 0, 255)
    np.testing.assert_allclose([x.mean() / 255, x.std() / 255], pixels, atol=5e-5)


def test_every_seed_role_and_number_from_one_has_a_stream_that_stays_what_it_was():
    cases = list(itertools.product((1, 2), get_args(seeds.Role), (None, 1, 2, 1000)))
    streams = [*itertools.starmap(seeds.generator, cases), seed_stream(1), seed_stream(2)]
    assert len({stream.random() for stream in streams}) == len(streams)
    # beside the stream of a Gaussian dataset's values
    (of_draws,) = np.random.SeedSequence([1, 0]).spawn(1)
    for stream, entropy in (
        (seed_stream(1), of_draws),
        (seeds.generator(4, "init"), np.random.SeedSequence([4, 2])),
        (seeds.generator(4, "init", 7), np.random.SeedSequence([4, 2, 7])),
    ):
        assert stream.random() == np.random.default_rng(entropy).random()
    with pytest.raises(ValueError, match="number 0 is below 1"):
        seeds.generator(1, "batch", 0)


CLASSES = np.repeat([3, 7, 40], [6, 3, 11])


def drawn(n, seed=1, classes=None):
    return draw("tiny", 20, n, generator=seed_stream(seed), classes=classes)


def test_seeds_draw_their_own_rows_again_and_again_in_order_and_evenly_from_classes():
    rows = drawn(8)
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(drawn(8), rows)
    assert not np.array_equal(drawn(8, seed=2), rows)
    x = np.random.default_rng(0).standard_normal((20, 3))
    np.testing.assert_array_equal(draw_on_sphere("tiny", x, 8, seed=1), unit_rows(x[rows]))
    for n, counts in (3, [1, 1, 1]), (8, [3, 3, 2]), (9, [3, 3, 3]):
        assert np.unique_counts(CLASSES[drawn(n, classes=CLASSES)]).counts.tolist() == counts
    rows, signs = draw_two_classes("tiny", CLASSES, 6, generator=seed_stream(1))
    assert sorted(CLASSES[rows]) == [3] * 3 + [7] * 3
    np.testing.assert_array_equal(signs, np.where(CLASSES[rows] == 3, -1.0, 1.0))
    for n, classes, problem in (
        (21, None, "tiny: 21 samples asked for; it must be 2 to 20, or all"),
        (1, None, "it must be 2 to 20"),
        (2, CLASSES, "tiny: 2 samples cannot hold each of 3 classes"),
        (12, CLASSES, "class 7 has 3 samples, but a balanced draw of 12 takes 4; at most 9"),
    ):
        with pytest.raises(UserError, match=problem):
            drawn(n, classes=classes)
    for labels, problem in ((None, "no labels"), (CLASSES, r"\[3, 4\] are not")):
        with pytest.raises(UserError, match=f"tiny.*{problem}"):
            draw_two_classes("tiny", labels, 2, generator=seed_stream(1), classes=[3, 4])


def blocks(n, size, count):
    return draw_blocks(n, size=size, count=count, generator=seeds.generator(1, "blocks"))


@given(st.integers(1, 50), st.integers(0, 150))
def test_blocks_are_disjoint_and_fewer_are_the_first_of_more(size, more):
    n = size + more
    members = np.concatenate(every := blocks(n, size, "all"))
    assert [len(block) for block in every] == [size] * (n // size)
    assert all((np.diff(block) > 0).all() for block in every)
    assert len({*members.tolist()} & {*range(n)}) == len(members)
    few = (len(every) + 1) // 2
    np.testing.assert_array_equal(blocks(n, size, few), every[:few])
    np.testing.assert_array_equal(blocks(n, "all", 1), [range(n)])  # all in their order
    for wrong in ((n + 1, 1), (n + 1, "all"), (size, n // size + 1)):
        with pytest.raises(UserError):
            blocks(n, *wrong)
