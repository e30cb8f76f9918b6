"""Numbers of a dataset's samples, against NumPy by hand."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.angles.pairs import find_duplicates
from ntk_conditioning.data.datasheets import class_sizes, geometry
from ntk_conditioning.errors import UserError


def samples(n: int, d: int, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def angle(a: np.ndarray, b: np.ndarray) -> float:
    """Return the angle in degrees by Kahan's formula, which is right for any angle."""
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return math.degrees(2 * math.atan2(np.linalg.norm(a - b), np.linalg.norm(a + b)))


@pytest.mark.parametrize(("n", "d"), [(30, 4), (7, 20), (2, 1)])
def test_norms_rank_and_angle(n, d):
    x = samples(n, d)
    found = geometry(x)
    norms = np.sqrt((x**2).sum(axis=1))
    np.testing.assert_allclose(
        [found.norm_min, found.norm_median, found.norm_max],
        [norms.min(), np.median(norms), norms.max()],
        rtol=1e-15,
    )
    assert found.gram_rank == min(n, d)
    assert (found.duplicates, found.constant_columns) == (0, 0)
    angles = {pair: angle(*x[list(pair)]) for pair in combinations(range(n), 2)}
    assert (found.i, found.j) == min(angles, key=angles.__getitem__)
    assert found.min_angle == pytest.approx(min(angles.values()), rel=1e-12)


def test_equal_samples_are_counted_and_leave_the_angle_to_the_others():
    x = samples(10, 5)
    x[7] = x[9] = x[1]
    x[8] = x[4]
    found = geometry(x)
    assert found.duplicates == 3 + 1
    distinct = [0, 1, 2, 3, 4, 5, 6]
    angles = {pair: angle(*x[list(pair)]) for pair in combinations(distinct, 2)}
    assert (found.i, found.j) == min(angles, key=angles.__getitem__)
    assert found.min_angle == pytest.approx(min(angles.values()), rel=1e-12)


def test_samples_that_are_all_equal_have_no_angle():
    found = geometry(np.full((4, 3), 2.0))
    assert (found.min_angle, found.i, found.j) == (None, None, None)
    assert (found.duplicates, found.constant_columns, found.gram_rank) == (6, 3, 1)


@pytest.mark.parametrize("size", [1e-6, 1e-9, 1e-12])
def test_tiny_angles_keep_their_digits(size):
    """A cosine rounds all of these to 1."""
    x = samples(12, 6)
    across = samples(1, 6, seed=1)[0]
    across -= across @ x[3] / (x[3] @ x[3]) * x[3]
    x[10] = x[3] + size * np.linalg.norm(x[3]) / np.linalg.norm(across) * across
    found = geometry(x)
    assert (found.i, found.j) == (3, 10)
    # x[10] is rounded to float64, by up to eps of its size
    assert found.min_angle == pytest.approx(math.degrees(size), rel=4e-16 / size + 1e-12)


@pytest.mark.parametrize(("n", "d", "rank"), [(40, 9, 3), (6, 30, 4), (400, 9, 8)])
def test_rank_deficiency_and_constant_columns(n, d, rank):
    x = samples(n, rank - 1) @ samples(rank - 1, d, seed=1)
    x[:, 2] = x[:, 5] = 0.25  # one direction more
    found = geometry(x)
    assert found.constant_columns == 2
    assert found.gram_rank == np.linalg.matrix_rank(x) == rank


def test_a_rank_that_a_gram_matrix_cannot_show_is_seen():
    """Singular values of 1 and 1e-10: in the Gram matrix the second is below eps."""
    x = np.linalg.qr(samples(50, 2))[0] * [1.0, 1e-10] @ np.linalg.qr(samples(2, 2))[0]
    assert geometry(x).gram_rank == 2
    assert np.linalg.matrix_rank(x @ x.T) == 1


@pytest.mark.parametrize("value", [0.0, np.nan, 1e200])
def test_samples_without_direction_or_size_are_named(value):
    x = samples(5, 3)
    x[2] = value
    with pytest.raises(UserError), np.errstate(over="ignore"):
        geometry(x)


def test_class_sizes_are_by_label():
    assert class_sizes(np.array([5, -1, 5, 5, 2])).tolist() == [1, 1, 3]
    assert class_sizes(None) is None


class TestFindDuplicates:
    @given(seed=st.integers(0, 999), n=st.integers(1, 30), kinds=st.integers(1, 12))
    def test_against_all_pairs(self, seed, n, kinds):
        random = np.random.default_rng(seed)
        x = samples(kinds, 3)[random.integers(0, kinds, n)]
        pairs = [(i, j) for i, j in combinations(range(n), 2) if (x[i] == x[j]).all()]
        later = {j for _, j in pairs}
        found = find_duplicates(x)
        assert found.pairs == len(pairs)
        assert found.example == (min(pairs) if pairs else None)
        assert found.first.tolist() == [row for row in range(n) if row not in later]

    @pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
    def test_of_any_type(self, dtype):
        x = np.array([[1, 2], [3, 4], [1, 2], [0, 0]], dtype=dtype)
        found = find_duplicates(x)
        assert (found.first.tolist(), found.pairs, found.example) == ([0, 1, 3], 1, (0, 2))

    def test_zeros_of_either_sign_are_equal(self):
        assert find_duplicates(np.array([[0.0, 1.0], [-0.0, 1.0]])).pairs == 1

    def test_unequal_rows_with_one_hash_are_told_apart(self):
        """As float64, in which rows are hashed, both are 2⁵³."""
        found = find_duplicates(np.array([[2**53], [2**53 + 1], [2**53]]))
        assert (found.first.tolist(), found.pairs, found.example) == ([0, 1], 1, (0, 2))
