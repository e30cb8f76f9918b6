"""Recipes of kappa against references in many digits."""

import itertools
import math
from collections import defaultdict

import mpmath
import numpy as np
import pytest

from ntk_conditioning.spectra import precision
from ntk_conditioning.spectra.condition_numbers import EPS
from ntk_conditioning.spectra.precision import Problem, ProblemError
from tests.ntk_conditioning.gradients import network
from tests.ntk_conditioning.references import exact_gradients, theorem_4_4


def pair(delta):
    x = np.random.default_rng(5).standard_normal((2, 4))
    x[1] = x[0] + delta * x[1]
    return x


FINITE = itertools.product([("linear", 0), ("linear", 2), ("relu", 2)], [0.3, 1e-4, 1e-9], [6])
INFINITE = itertools.product([("relu", 1), ("relu", 3)], [0.3, 1e-7, 1e-15], [None])


@pytest.mark.parametrize(("layers", "delta", "width"), [*FINITE, *INFINITE])
def test_references_are_kappas_of_exact_gradients_and_of_theorem_4_4(layers, delta, width):
    (activation, depth), x, mlp = layers, pair(delta), None
    with mpmath.workdps(60 if width else 100):
        if width is None:
            k = theorem_4_4(x, depth)
        else:
            mlp = network(4, depth=depth, width=width, activation=activation, seed=3)
            gradients = exact_gradients(mlp, x)
            k = gradients @ gradients.T
        low, high = mpmath.eigsy(mpmath.matrix(k.tolist()), eigvals_only=True)
        found = precision.reference(Problem(activation, depth, 0, 0.0, x, mlp))
        assert abs(found * low / high - 1) < mpmath.mpf(10) ** (-35 if width else -20)


def test_problems_that_have_no_kappa_are_refused():
    with pytest.raises(ProblemError, match="5 samples in 4 dimensions"):
        next(precision.problems(samples=5, dim=4, width=3, depths=[0], seeds=[1], points=2))
    with pytest.raises(ProblemError, match="singular"):
        precision.reference(Problem("linear", 0, 0, 0.0, pair(0.0), network(4, depth=0)))


@pytest.fixture(scope="module")
def measured():
    by_method, axes = defaultdict(list), {"depths": [0, 2], "seeds": [1, 2], "points": 9}
    for problem in precision.problems(samples=5, dim=8, width=12, **axes):
        for measurement in precision.measure(problem):
            by_method[measurement.method].append(measurement)
    return by_method


def test_every_recipe_is_right_where_kappa_is_small(measured):
    """An error of a few ε κ; of sqrt(ε) κ from arccosines, which are off by sqrt(ε) near 0."""
    assert measured.keys() == {
        *("float32_general", "float32_symmetric", "float32", "float64", "extremes", "factor"),
        *("cosine_float32", "cosine", "deficits"),
    }
    for method, found in measured.items():
        eps = np.finfo(np.float32 if "float32" in method else np.float64).eps
        small = [m for m in found if m.kappa_reference < 1e3]
        assert small
        entry_error = math.sqrt(eps) if "cosine" in method else 10 * eps
        assert all(m.relative_error < entry_error * m.kappa_reference for m in small), method
        assert all(m.resolved for m in small)


@pytest.mark.parametrize("method", ["float32", "float64", "extremes", "factor", "deficits"])
def test_a_guarded_recipe_reports_no_wrong_kappa(measured, method):
    mine = measured[method]
    reported = [m for m in mine if m.resolved]
    assert all(0 < m.ratio < m.floor_kappa for m in reported)
    assert all(m.relative_error < 0.3 for m in reported)  # ε κ is 1/n at the floor
    assert (len(reported) == len(mine)) == (method == "factor")
    if method == "factor":
        assert max(m.kappa_reference for m in reported) > 1e17
        # singular values are off by a few eps of the largest (Golub & Van Loan, section 8.6)
        assert all(m.relative_error < 100 * EPS * math.sqrt(m.kappa_reference) for m in reported)


@pytest.mark.parametrize("method", ["float32_general", "float32_symmetric", "cosine"])
def test_an_unguarded_recipe_reports_negative_and_wrong_kappas(measured, method):
    mine = measured[method]
    assert all(m.resolved for m in mine)
    assert any(m.ratio < 0 for m in mine)
    lost = [m for m in mine if m.kappa_reference > 1e10]
    assert np.median([m.relative_error for m in lost]) > 0.5
    assert any(m.ratio > 0 for m in lost)  # which looks like a result
