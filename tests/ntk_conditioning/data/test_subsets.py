"""What a seed draws: samples, streams by number; and a test part scaled as its training part."""

from __future__ import annotations

import numpy as np
import pytest

from ntk_conditioning import seeds
from ntk_conditioning.data import datasets
from ntk_conditioning.data.prepared import (
    PreparedSamples,
    ZeroSampleError,
    load_prepared,
    save_prepared,
    scaled,
)
from ntk_conditioning.data.subsets import SubsetError, draw, seed_stream

CLASSES = np.repeat([3, 7, 40], [6, 3, 11])


def dataset(scaling="none", *, n=20, seed=0) -> PreparedSamples:
    chance = np.random.default_rng(seed)
    return PreparedSamples("tiny", 3 + 2 * chance.standard_normal((n, 4)), CLASSES[:n], scaling)


# --- draws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("balanced", [False, True])
def test_a_draw_is_that_of_a_subset(balanced):
    whole = dataset()
    classes = CLASSES if balanced else None
    rows = draw("tiny", 20, 8, generator=seed_stream(5), classes=classes)
    part = datasets.subset(whole, 8, generator=seed_stream(5), balanced=balanced)
    np.testing.assert_array_equal(whole.x[rows], part.x)
    np.testing.assert_array_equal(CLASSES[rows], part.y)
    assert rows.tolist() == sorted({*rows.tolist()})
    assert (part.name, part.scaling) == (whole.name, whole.scaling)


def test_seeds_draw_their_own_samples_again_and_again():
    drawn = [draw("tiny", 20, 8, generator=seed_stream(seed)).tolist() for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]


def test_the_draw_is_a_stream_beside_that_of_the_values():
    """A Gaussian dataset of the same seed is drawn from the parent."""
    values = seeds.generator(1, "data").standard_normal(100)
    assert not np.isin(seed_stream(1).standard_normal(100), values).any()
    (expected,) = np.random.SeedSequence([1, 0]).spawn(1)
    assert seed_stream(1).random() == np.random.default_rng(expected).random()


@pytest.mark.parametrize(("n", "counts"), [(3, [1, 1, 1]), (8, [3, 3, 2]), (9, [3, 3, 3])])
def test_a_balanced_draw_takes_one_more_of_the_first_classes(n, counts):
    rows = draw("tiny", 20, n, generator=seed_stream(1), classes=CLASSES)
    assert np.unique_counts(CLASSES[rows]).counts.tolist() == counts


@pytest.mark.parametrize(
    ("n", "classes", "problem"),
    [
        (21, None, "tiny: 21 samples asked for; it must be 2 to 20, or all"),
        (1, None, "it must be 2 to 20"),
        (2, CLASSES, "tiny: 2 samples cannot hold each of 3 classes"),
        (12, CLASSES, "tiny: class 7 has 3 samples, but a balanced draw of 12 takes 4; at most 9"),
    ],
)
def test_what_cannot_be_drawn_is_named(n, classes, problem):
    with pytest.raises(SubsetError, match=problem):
        draw("tiny", 20, n, generator=seed_stream(1), classes=classes)


# --- streams by number ----------------------------------------------------------------------------


def test_every_number_has_a_stream_of_its_own():
    first = [
        seeds.generator(seed, role, number).random()
        for seed in (1, 2)
        for role in ("init", "batch")
        for number in (None, 1, 2, 1000)
    ]
    assert len(set(first)) == len(first)
    assert first[1] == seeds.generator(1, "init", 1).random()


def test_a_stream_without_number_is_what_it_was():
    expected = np.random.default_rng(np.random.SeedSequence([4, 2])).random()
    assert seeds.generator(4, "init").random() == expected


@pytest.mark.parametrize("number", [0, -1])
def test_numbers_begin_with_one(number):
    with pytest.raises(ValueError, match=f"number {number} is below 1"):
        seeds.generator(1, "batch", number)


# --- scaling like the training part ---------------------------------------------------------------


def standardized(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return x - mean over standard deviation, with those of ``known``, as one writes it."""
    return (x - known.mean(axis=0)) / known.std(axis=0)


def test_a_test_part_is_standardized_with_the_training_parts_numbers():
    train, test = dataset("standardize"), dataset("standardize", n=7, seed=1)
    found = scaled(test, like=train)
    np.testing.assert_allclose(found, standardized(test.x, train.x), rtol=1e-12, atol=1e-12)
    assert np.abs(found.mean(axis=0)).max() > 0.1  # its own mean is not 0
    np.testing.assert_array_equal(scaled(train, like=train), scaled(train))


def test_a_column_that_is_constant_in_training_is_zero_in_the_test_too():
    train, test = dataset("standardize"), dataset("standardize", n=7, seed=1)
    train.x[:, 2] = 0.1
    found = scaled(test, like=train)
    assert not found[:, 2].any()
    assert found[:, [0, 1, 3]].all()
    test.x[:, 1] = 5  # constant in the test alone: that is no reason for anything
    assert scaled(test, like=train)[:, 1].all()


def test_a_sample_at_the_mean_of_training_is_named():
    train = PreparedSamples("two", np.array([[0.0, 0], [2, 4]]), None, "standardize")
    test = PreparedSamples("part", np.array([[1.0, 1], [1, 2]]), None, "standardize")
    with pytest.raises(ZeroSampleError, match="part: 1 samples are zero after scaling standardize"):
        scaled(test, like=train)


@pytest.mark.parametrize("scaling", ["none", "unit_norm", "unit_interval", "symmetric"])
def test_other_scalings_need_nothing_of_the_training_part(scaling):
    test = PreparedSamples("part", dataset(n=7, seed=1).x, None, scaling, (-9.0, 9.0))
    train = PreparedSamples("tiny", 5 * dataset().x, None, scaling, (-90.0, 90.0))
    np.testing.assert_array_equal(scaled(test, like=train), scaled(test))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_alone_a_dataset_is_standardized_with_the_bits_it_always_had(dtype, offset):
    """The steps as they were before there was a training part, in their order and in place."""
    source = (40 * np.abs(dataset(n=20).x) + offset).astype(dtype)
    source[:, 3] = source[0, 3]
    x = source.astype(np.float64)
    constant = x.min(axis=0) == x.max(axis=0)
    x -= x.mean(axis=0)
    x[:, constant] = 0
    x /= np.where(constant, 1, np.abs(x).max(axis=0))
    x /= np.where(constant, 1, np.sqrt(np.mean(x * x, axis=0)))
    np.testing.assert_array_equal(scaled(PreparedSamples("t", source, None, "standardize")), x)


def test_files_of_two_parts_are_loaded_alike(tmp_path):
    train, test = dataset("standardize"), dataset("standardize", n=7, seed=1)
    for name, part in (("train", train), ("test", test)):
        save_prepared(tmp_path / f"{name}.npz", part)
    found = load_prepared(tmp_path / "test.npz", like=tmp_path / "train.npz")
    np.testing.assert_array_equal(found.x, scaled(test, like=train))
    np.testing.assert_array_equal(load_prepared(tmp_path / "test.npz").x, scaled(test))
    np.testing.assert_array_equal(found.y, test.y)
