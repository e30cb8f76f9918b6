"""Laws of random samples on the sphere against known special cases."""

import math

import numpy as np
import pytest
from scipy.special import comb

from ntk_conditioning.theory.random_matrix_predictions import harmonics, spectrum


@pytest.mark.parametrize("d", [2, 3, 8, 1000])
def test_harmonics_are_counted_and_add_up(d):
    weights, counts = harmonics(lambda w: np.exp(1 - w), d)
    known = [comb(d + j - 1, j) - comb(d + j - 3, j - 2) for j in range(2, len(counts))]
    np.testing.assert_allclose(counts, [1.0, d, *known], rtol=1e-9)
    if d < 1000:
        assert weights.sum() == pytest.approx(math.e, rel=1e-10)  # by a recurrence
    else:  # nearly the powers of the cosine, the first of which are known
        np.testing.assert_allclose(weights, [1, 1, 1 / 2, 1 / 6], rtol=0.01)


def test_the_laws_of_a_linear_kernel_are_those_of_marchenko_and_pastur():
    for n, d in ((100, 400), (100, 100), (400, 100)):
        law = spectrum([1.0], [d], n)
        assert law.high == pytest.approx((1 + math.sqrt(n / d)) ** 2)
        assert law.low == pytest.approx(max(0.0, 1 - math.sqrt(n / d)) ** 2, abs=1e-9)
        assert law.spikes == ()
    # a spike within the bulk is none, and beyond it stands where theory says (Baik & Silverstein)
    assert spectrum([0.9], [200.0], 100, rest=0.099, spikes=[0.001]).spikes == ()


def test_laws_hold_on_any_scale():
    """As of the distances between samples in deep networks of the ordered phase."""
    law, small = (
        spectrum([0.5 * s, 0.1 * s], [50, 3000], 100, rest=0.2 * s, spikes=[0.2])
        for s in (1.0, 1e-250)
    )
    assert small.low == pytest.approx(1e-250 * law.low, rel=1e-12, abs=0)
    assert small.high == pytest.approx(1e-250 * law.high, rel=1e-12, abs=0)
    assert small.spikes[0] == pytest.approx(20, rel=1e-12)
