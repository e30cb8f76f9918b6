"""What layers do, read off the dual activation, against the layers themselves."""

import math

import numpy as np
import pytest

from ntk_conditioning.kernels.interpolated_kernels import ntk_distances
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.depth import close_gain, deep_rate, far_samples, phase
from ntk_conditioning.theory.random_matrix_predictions import uniform

SMOOTH = ["erf", "tanh", "gelu", "sigmoid", "softplus", "normalized_sigmoid"]


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("depth", [1, 3, 10])
def test_close_samples_part_by_their_gain(name, depth):
    sigma, w = activations.get(name), np.array([1e-7])
    gain = ntk_distances(sigma, depth)(w).item() / w.item()
    assert close_gain(sigma, depth) == pytest.approx(gain, rel=1e-5)


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu"])
def test_far_samples_have_the_laws_of_all_degrees_in_many_dimensions(name):
    kernel, off = ntk_distances(activations.get(name), 2), []
    for n in (64, 256, 1024):
        law, far = uniform(kernel, n=n, d=4 * n), far_samples(kernel, n=n, d=4 * n)
        off.append(abs(math.log(far.low / law.low)) + abs(math.log(far.largest / law.largest)))
    assert off[-1] < 1e-3
    assert np.polyfit(np.log([64, 256, 1024]), np.log(off), 1)[0] < -0.8  # like 1/n


def test_deep_networks_are_ordered_critical_or_chaotic():
    at = np.array([0.3, 0.6])
    for name in (*SMOOTH, "relu", "normalized_relu"):
        sigma = activations.get(name)
        one, two = (ntk_distances(sigma, depth)(at) for depth in (60, 90))
        if phase(sigma) == "ordered":  # all distances vanish, and kappa is n over them
            rate = np.log(one / two) / 30
            np.testing.assert_allclose(rate, deep_rate(sigma), rtol=0.02)
        elif phase(sigma) == "critical":
            assert deep_rate(sigma) == 0
        elif deep_rate(sigma) > -0.4:  # else there is nothing left of it
            rate = np.log((1 - two) / (1 - one)) / 30
            # each of L layers adds as much to the NTK where cosines tend to 0
            rate -= math.log(90 / 60) / 30 if name != "gelu" else 0
            np.testing.assert_allclose(rate, deep_rate(sigma), rtol=0.07)
