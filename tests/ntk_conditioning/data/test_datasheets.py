"""Numbers of a dataset's samples, against NumPy by hand."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.angles.pairs import find_duplicates
from ntk_conditioning.data.datasheets import geometry
from ntk_conditioning.errors import UserError


def samples(n, d, *, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def angle(a: np.ndarray, b: np.ndarray) -> float:
    """Return the angle in degrees by Kahan's formula, which is right for any angle."""
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return math.degrees(2 * math.atan2(np.linalg.norm(a - b), np.linalg.norm(a + b)))


@pytest.mark.parametrize(("n", "d"), [(30, 4), (7, 20), (2, 1)])
def test_norms_rank_and_angle(n, d):
    x = samples(n, d)
    numbers = geometry(np.concatenate([x, x[1:2], x[1:2], x[:1]]))  # equal samples are counted
    norms = np.linalg.norm(np.concatenate([x, x[[1, 1, 0]]]), axis=1)
    expected = [norms.min(), np.median(norms), norms.max()]
    measured = [numbers.norm_min, numbers.norm_median, numbers.norm_max]
    np.testing.assert_allclose(measured, expected, rtol=1e-15)
    assert numbers.gram_rank == min(n, d)
    assert (numbers.duplicates, numbers.constant_columns) == (3 + 1, 0)
    angles = {pair: angle(*x[list(pair)]) for pair in combinations(range(n), 2)}
    assert (numbers.i, numbers.j) == min(angles, key=angles.__getitem__)
    assert numbers.min_angle == pytest.approx(min(angles.values()), rel=1e-12)


@pytest.mark.parametrize(("n", "d", "rank"), [(40, 9, 3), (6, 30, 4), (400, 9, 8)])
def test_rank_deficiency_and_constant_columns(n, d, rank):
    x = samples(n, rank - 1) @ samples(rank - 1, d, seed=1)
    x[:, 2] = x[:, 5] = 0.25  # one direction more
    numbers = geometry(x)
    assert numbers.constant_columns == 2
    assert numbers.gram_rank == np.linalg.matrix_rank(x) == rank
    # of singular values 1 and 1e-10, the second is below eps in the Gram matrix
    x = np.linalg.qr(samples(50, 2))[0] * [1.0, 1e-10] @ np.linalg.qr(samples(2, 2))[0]
    assert (geometry(x).gram_rank, np.linalg.matrix_rank(x @ x.T)) == (2, 1)


@pytest.mark.parametrize("value", [0.0, np.nan, 1e200])
def test_samples_without_direction_or_size_are_named(value):
    x = samples(5, 3)
    x[2] = value
    with pytest.raises(UserError), np.errstate(over="ignore"):
        geometry(x)


#: As float64, in which rows are hashed, the last two are equal.
VALUES = [np.array([0.1, 0.2]), np.uint8([0, 3]), np.float32([0.0, -0.0, 1.0])]
VALUES += [np.array([2**53, 2**53 + 1])]


@given(st.integers(0, 999), st.integers(1, 30), st.sampled_from(VALUES))
def test_duplicates_are_those_among_all_pairs(seed, n, values):
    x = np.random.default_rng(seed).choice(values, (n, 3))
    pairs = [(i, j) for i, j in combinations(range(n), 2) if (x[i] == x[j]).all()]
    later = {j for _, j in pairs}
    duplicates = find_duplicates(x)
    assert duplicates.pairs == len(pairs)
    assert duplicates.examples[:1] == sorted(pairs)[:1]
    assert duplicates.first.tolist() == [row for row in range(n) if row not in later]
