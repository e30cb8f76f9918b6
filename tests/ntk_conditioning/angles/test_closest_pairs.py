"""The search of the closest pair against every pair's angle from its difference."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.angles import closest_pairs
from ntk_conditioning.angles.closest_pairs import closest_pair
from ntk_conditioning.angles.directions import angles_between


def cosine(w, _theta):
    return w


def near_or_opposite(w, _theta):
    """The distance of cos² θ: rows are also close to the opposite of each other."""
    return w * (2 - w)


def brute_force(x, distance=cosine):
    i, j = np.triu_indices(len(x), 1)
    theta = angles_between(x[i], x[j])
    values = distance(2 * np.sin(theta / 2) ** 2, theta)
    return min(zip(values.tolist(), i.tolist(), j.tolist(), strict=True))


def found(x, distance=cosine, **options):
    pair = closest_pair(x, distance, opposite=distance is near_or_opposite, **options)
    return pair.distance, pair.i, pair.j


def spherical(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def low_contrast(n, d, contrast, seed=0):
    return 1 + contrast * spherical(n, d, seed)


DATA = {
    "random": spherical(70, 9),
    "few entries": spherical(300, 2),
    "as many as entries": spherical(40, 40),
    "obtuse": np.vstack([np.eye(12) - 1 / 12, np.eye(12)[:1]]) - 0.02,
    "contrast 1e-2": low_contrast(80, 60, 1e-2),
    "contrast 1e-5": low_contrast(80, 60, 1e-5),
    "contrast 1e-9": low_contrast(80, 60, 1e-9),
    "low contrast, either sign": low_contrast(80, 60, 1e-4) * np.resize([1, -1, -1], (80, 1)),
    "two clusters": np.vstack([low_contrast(30, 20, 1e-6), spherical(30, 20)]),
    "norms": spherical(60, 8) * 10 ** np.random.default_rng(1).uniform(-6, 6, (60, 1)),
    "tiny": spherical(30, 8) * 1e-300,
    "huge": spherical(30, 8) * 1e300,
    "tiny and huge": spherical(30, 8) * np.resize([1e-300, 1e300, 1], (30, 1)),
}


@pytest.mark.parametrize("distance", [cosine, near_or_opposite])
@pytest.mark.parametrize("name", DATA)
def test_the_pair_is_that_of_all_pairs(name, distance):
    x = DATA[name]
    expected = brute_force(x, distance)
    tiles = (None, 7, 1) if name == "low contrast, either sign" else (None, 7)
    assert [found(x, distance, tile=tile) for tile in tiles] == [expected] * len(tiles)


@given(
    seed=st.integers(0, 2**32 - 1),
    contrast=st.sampled_from([1e-3, 1.0, 1e3]),
    exponent=st.floats(-14, -8),
    sign=st.sampled_from([1, -1]),
    tile=st.integers(1, 40),
)
def test_a_pair_that_float32_cannot_tell_is_found(seed, contrast, exponent, sign, tile):
    rng = np.random.default_rng(seed)
    x = low_contrast(30, 6, contrast, seed)
    i, j = sorted(rng.choice(30, 2, replace=False))
    x[j] = sign * 2 * (x[i] + 10**exponent * spherical(1, 6, seed + 1)[0])
    pair = closest_pair(x, near_or_opposite, opposite=True, tile=tile)
    assert (pair.i, pair.j) == (i, j)
    # of the n pairs of rows whose copies float32 cannot tell apart none else is this close
    assert (pair.distance, i, j) == brute_force(x, near_or_opposite)


def test_of_equal_distances_the_lowest_pair_is_returned():
    x = spherical(20, 5)
    x[[17, 9]] = 2 * x[[4, 13]]  # exactly parallel: (4, 17) and (9, 13)
    for tile in (1, 3, 100):
        assert found(x, tile=tile) == (0, 4, 17)
        assert found(np.eye(9), tile=tile)[1:] == (0, 1)


def test_candidates_are_few(monkeypatch):
    """Of 30,000 pairs only those near the smallest are computed, whatever the contrast."""
    for x in (spherical(256, 50), low_contrast(256, 50, 1e-2), low_contrast(256, 50, 1e-9)):
        assert closest_pair(x, cosine, opposite=False).candidates < 50
    monkeypatch.setattr(closest_pairs, "GATHERED", 100)
    assert found(x) == brute_force(x)


@pytest.mark.parametrize("size", [1e-9, 1e-15])
@pytest.mark.parametrize("sign", [1, -1])
def test_near_duplicates_are_told_apart(size, sign):
    x = spherical(2, 30)[np.arange(100) % 2] + size * spherical(100, 30, 1)
    x *= np.resize([1, 3, sign], (100, 1))
    for distance in (cosine, near_or_opposite):
        assert found(x, distance) == brute_force(x, distance)


@pytest.mark.parametrize("delta", [1.0, 1e-8, 1e-15])
@pytest.mark.parametrize("ratio", [1.0, -1.7, 1e-150])
def test_angles_are_those_of_60_digits(ratio, delta):
    x = spherical(3, 6)
    x[1] = ratio * (x[0] + delta * x[2])
    with mpmath.workdps(60):
        a, b = (mpmath.matrix([mpmath.mpf(float(value)) for value in row]) for row in x[:2])
        lengths = mpmath.norm(a) * mpmath.norm(b)
        expected = float(mpmath.acos(mpmath.fdot(a, b) / lengths))
    assert float(angles_between(x[:1], x[1:2])[0]) == pytest.approx(expected, rel=4e-15)
