"""Laws of samples whose directions differ in variance, against special cases."""

import math

import numpy as np
import pytest

from ntk_conditioning.kernels.interpolated_kernels import tables
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.elliptical_inputs import elliptical, on_sphere
from ntk_conditioning.theory.random_matrix_predictions import equicorrelated, uniform


def test_variances_on_the_sphere_are_those_of_draws():
    s = np.arange(1.0, 9.0) ** -2
    z = np.random.default_rng(0).standard_normal((200_000, 8)) * np.sqrt(s)
    drawn = (z**2 / np.square(z).sum(axis=1)[:, None]).mean(axis=0)
    np.testing.assert_allclose(on_sphere(s), drawn, atol=4 / math.sqrt(200_000))
    np.testing.assert_allclose(on_sphere(np.ones(7)), 1 / 7)


@pytest.mark.parametrize(("name", "depth"), [("relu", 1), ("tanh", 4)])
def test_equal_variances_are_a_round_sphere(name, depth):
    kernel = tables(activations.get(name), [depth])[depth]
    for n, d in ((100, 400), (400, 100)):
        for c, known in (
            (0.0, uniform(kernel, n=n, d=d)),
            (0.7, equicorrelated(kernel, 0.7, n=n, d=d + 1)),
        ):
            law = elliptical(kernel, np.ones(d), c=c, n=n)
            assert law.low == pytest.approx(known.low, rel=0.01)
            assert law.largest == pytest.approx(known.largest, rel=0.03)
