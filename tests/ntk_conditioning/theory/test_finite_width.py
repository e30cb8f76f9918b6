"""Laws of the spread over random networks, against regression by other code."""

import numpy as np
import pytest
from scipy.stats import linregress

from ntk_conditioning.theory.finite_width import NORMAL, power_law


def test_the_interval_of_an_exponent_is_that_of_linear_regression():
    x, y = [1.0, 2.0, 3.0, 5.0], [1.1, 1.8, 3.3, 4.6]
    law, known = power_law(x, y), linregress(np.log(x), np.log(y))
    ends = [known.slope + sign * NORMAL * known.stderr for sign in (-1, 0, 1)]
    found = [law["exponent_low"], law["exponent"], law["exponent_high"]]
    assert found == pytest.approx(ends, rel=1e-12)
