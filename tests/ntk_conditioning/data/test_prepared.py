"""Prepared files keep what they are given, are scaled when loaded, and described as they are."""

import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.preprocessing import StandardScaler

from ntk_conditioning.angles.pairs import find_duplicates
from ntk_conditioning.data import prepared
from ntk_conditioning.data.archives import ContentError
from ntk_conditioning.data.datasheets import geometry
from ntk_conditioning.data.prepared import PreparedSamples, Scaling, save_prepared, scaled
from ntk_conditioning.errors import UserError
from ntk_conditioning.theory.sphere import unit_rows
from tests.ntk_conditioning.references import samples

SCALINGS = get_args(Scaling)
IMAGES = (np.arange(5 * 12).reshape(5, 12) ** 2 % 251).astype(np.uint8)
LABELS = np.array([3, 1, 4, 1, 5])
TINY = PreparedSamples("tiny", IMAGES, LABELS, "symmetric", (0.0, 255.0))


def by(scaling, x, limits=None, **options):
    return scaled(PreparedSamples("mine", x, None, scaling, limits), **options)


def part(n, seed, scaling="standardize"):
    x = 3 + 2 * np.random.default_rng(seed).standard_normal((n, 4))
    return PreparedSamples("tiny", x, None, scaling, (-90.0, 90.0))


def test_the_formulas():
    x = np.array([[0, 51], [255, 102]], dtype=np.uint8)
    assert by("none", x).tolist() == [[0, 51], [255, 102]]
    assert by("unit_interval", x, (0, 255)).tolist() == [[0, 0.2], [1, 0.4]]
    assert by("unit_interval", x, (-255, 255)).tolist() == [[0.5, 0.6], [1, 0.7]]
    normed = [[0, 1], [5 / 29**0.5, 2 / 29**0.5]]
    np.testing.assert_allclose(by("unit_norm", x), normed, rtol=1e-15)
    np.testing.assert_allclose(by("standardize", x), [[-1, -1], [1, 1]], rtol=1e-15)
    narrow = by("standardize", np.array([[1e9, 0], [1e9 + 2**-12, 1]]))
    np.testing.assert_allclose(narrow, [[-1, -1], [1, 1]], rtol=1e-15)
    assert all(by(name, x, (0, 255)).dtype == np.float64 for name in SCALINGS)
    assert x.tolist() == [[0, 51], [255, 102]]


def test_zero_rows_and_values_beyond_float64_are_named():
    zeros = np.array([[1.0, 0], [0, 0], [0, 0]])
    for scaling in ("none", "unit_interval", "unit_norm"):
        problem = f"mine: 2 samples are zero after scaling {scaling}, the first in row 1"
        with pytest.raises(ContentError, match=problem):
            by(scaling, zeros, (0.0, 1.0))
    for scaling in ("unit", "symmetric"):
        with pytest.raises(ContentError, match=f"mine: scaling {scaling} is unknown or has n"):
            by(scaling, zeros)
    x = np.array([[1e308, 1], [1e308, 0], [1.7e308, 1]])
    with pytest.raises(ContentError, match=r"mine: row 0, column 0 is .* after scaling stand"):
        by("standardize", x)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_squares_of_values_may_leave_float64(size):
    x = part(9, 0).x / 16
    units, standardized = by("unit_norm", size * x), by("standardize", size * x)
    np.testing.assert_allclose(units, unit_rows(x), rtol=1e-14)  # a few roundings per feature
    np.testing.assert_allclose(standardized, StandardScaler().fit_transform(x), rtol=1e-11)


def test_test_samples_are_standardized_as_scikit_learn_fitted_to_the_training_part(tmp_path):
    train, test = part(20, 0), part(7, 1)
    train.x[:, 2] = 0.1  # constant, but its mean is rounded
    train.x[:, 3] = 0.3 + 2**-52 * (np.arange(20) % 2)  # and this up to rounding
    train.x[:, 1] = 1 + 1e-9 * train.x[:, 0]  # known to 1e-7 of its spread
    test.x[:, 0] = 5  # constant in the test alone: that is no reason for anything
    expected = StandardScaler().fit(train.x[:, :2]).transform(test.x[:, :2])
    narrow = PreparedSamples("narrow", test.x[:, :3], None)
    paths = [tmp_path / f"{name}.npz" for name in ("train", "test", "narrow")]
    for path, data in zip(paths, (train, test, narrow), strict=True):
        save_prepared(path, data)
    x = prepared.load_prepared(paths[1], like=paths[0]).x
    np.testing.assert_allclose(x[:, :2], expected, rtol=1e-6)
    assert not x[:, 2:].any()
    assert not scaled(train)[:, 2:].any()
    with pytest.raises(ContentError, match=r"narrow.npz has 3 features and .*train.npz has 4"):
        prepared.load_prepared(paths[2], like=paths[0])
    test.x[3] = train.x.mean(axis=0)
    with pytest.raises(ContentError, match="tiny: 1 samples are zero after scaling standardi"):
        scaled(test, like=train)
    for scaling in {*SCALINGS} - {"standardize"}:
        others = part(7, 1, scaling)
        np.testing.assert_array_equal(scaled(others, like=train), scaled(others))


@pytest.mark.parametrize("scaling", SCALINGS)
def test_round_trip(tmp_path, scaling):
    labels = None if scaling == "none" else LABELS
    samples = PreparedSamples("tiny", IMAGES, labels, scaling, (0.0, 255.0))
    save_prepared(tmp_path / "tiny.npz", samples)
    loaded = prepared.load_prepared(tmp_path / "tiny.npz")
    np.testing.assert_array_equal(loaded.x, scaled(samples))
    assert (loaded.x.dtype, loaded.name, loaded.scaling) == (np.float64, "tiny", "none")
    np.testing.assert_array_equal(loaded.y, labels)


def test_other_archives_are_named(tmp_path):
    path, problem = tmp_path / "other.npz", "is no prepared dataset; save_prepared writes one"
    for about in ({}, {"about": "no JSON"}, {"about": "[]"}):
        np.savez(path, x=IMAGES, **about)
        with pytest.raises(ContentError, match=f"{path} {problem}"):
            prepared.load_prepared(path)


def test_the_digest_sees_values_labels_types_shapes_and_scaling():
    x, y = IMAGES, LABELS
    changes = [{"x": x + np.uint8(1)}, {"y": y + 1}, {"y": None}, {"x": x.astype(np.int8)}]
    changes += [{"x": x.reshape(10, 6), "y": None}]
    changes += [{"scaling": "unit_interval"}, {"value_range": (0.0, 256.0)}, {}]
    digests = {prepared.content_digest(replace(TINY, **change)) for change in changes}
    assert len(digests) == len(changes)
    assert prepared.content_digest(TINY) == prepared.content_digest(replace(TINY, x=x.copy()))


@pytest.mark.parametrize(("n", "d", "rank"), [(30, 4, 4), (7, 20, 7), (2, 1, 1), (400, 9, 8)])
def test_norms_rank_and_angle(n, d, rank):
    x = samples(n, d) if rank == min(n, d) else samples(n, rank) @ samples(rank, d, seed=1)
    repeated = np.concatenate([x, x[[1, 1, 0]]])  # equal samples are counted
    numbers, norms = geometry(repeated), np.linalg.norm(repeated, axis=1)
    measured = [numbers.norm_min, numbers.norm_median, numbers.norm_max]
    np.testing.assert_allclose(measured, np.quantile(norms, [0, 0.5, 1]), rtol=1e-15)
    counts = numbers.gram_rank, numbers.duplicates, numbers.constant_columns
    assert counts == (rank, 3 + 1, 0)
    chords, pairs = pdist(unit_rows(x)), [*combinations(range(n), 2)]
    assert (numbers.i, numbers.j) == pairs[chords.argmin()]
    angle = np.degrees(2 * np.arcsin(chords.min() / 2))
    assert numbers.min_angle == pytest.approx(angle, rel=1e-12)
    x[:, :1] = 0.25
    assert geometry(x).constant_columns == 1
    for value in (0.0, np.nan, 1e200):
        x[1] = value
        with pytest.raises(UserError), np.errstate(over="ignore"):
            geometry(x)
    # of singular values 1 and 1e-10, the second is below eps in the Gram matrix
    x = np.linalg.qr(samples(50, 2))[0] * [1.0, 1e-10] @ np.linalg.qr(samples(2, 2))[0]
    assert (geometry(x).gram_rank, np.linalg.matrix_rank(x @ x.T)) == (2, 1)


#: As float64, in which rows are hashed, the last two are equal.
VALUES = [np.uint8([0, 3]), np.float32([0.0, -0.0, 1.0]), np.array([2**53, 2**53 + 1])]


@given(st.integers(0, 999), st.integers(1, 30), st.sampled_from(VALUES))
def test_duplicates_are_those_among_all_pairs(seed, n, values):
    x = np.random.default_rng(seed).choice(values, (n, 3))
    pairs = [(i, j) for i, j in combinations(range(n), 2) if (x[i] == x[j]).all()]
    duplicates = find_duplicates(x)
    assert (duplicates.pairs, duplicates.examples[:1]) == (len(pairs), pairs[:1])
    assert [*duplicates.first] == [*np.setdiff1d(np.arange(n), [j for _, j in pairs])]


@pytest.mark.parametrize("module", ["data.prepared", "data.datasets"])
def test_libraries_are_imported_only_where_they_are_used(module):
    heavy = {"torch", "pandas", "sklearn", "pyarrow", "jsonschema"}
    if module == "data.prepared":  # else a computation would depend on how data are read
        heavy |= {"ntk_conditioning.data.readers"}
    code = f"import sys, ntk_conditioning.{module}; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
