"""Rates to try: given, or in units of the critical one, rounded so that they are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning.training.learning_rates import AUTO, LearningRates, around


@given(st.floats(1e-12, 1e12), st.sampled_from([0.125, 0.5, 1.0, 512.0]))
def test_relative_rates_are_rounded_down_to_three_digits(critical, factor):
    (rate,) = LearningRates((factor,), relative=True).absolute(critical)
    exact = critical * factor
    # 1e-12 is what an exact decimal may lose as a product
    assert exact * (1 - 1e-2) < rate <= exact * (1 + 2e-12)
    assert rate == float(f"{rate:.3g}")


@pytest.mark.parametrize("rate", [0.001, 0.3, 1.0, 29.0, 0.57, 1.1, 1230.0, 4.35, 9.99, 1e-7])
def test_a_decimal_rate_stays_as_it_is(rate):
    assert around(rate, [1.0]) == [rate]
    # A product may lie just below the decimal number.
    assert around(rate / 3, [3.0]) == [rate]
    assert around(np.nextafter(rate, 0), [1.0]) == [rate]


def test_last_digits_of_an_eigenvalue_change_no_rate():
    for factor in (1, 1 - 1e-14, 1 + 1e-14):
        found = LearningRates.parse("auto", loss="square").absolute(0.0123456 * factor)
        assert found == [0.00154, 0.00308, 0.00617, 0.0123]


def test_rates_of_a_list_are_taken_as_they_are():
    assert LearningRates.parse([0.12345, 0.1], loss="square").absolute(7.0) == [0.12345, 0.1]


def test_each_loss_has_rates_in_ascending_order():
    for factors in AUTO.values():
        assert sorted(set(factors)) == list(factors)
    assert max(AUTO["square"]) <= 1  # beyond it gradient descent diverges
