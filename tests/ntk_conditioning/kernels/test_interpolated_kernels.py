"""Kernels as tabulated functions of the distance, against the layers themselves."""

import numpy as np
import pytest

from ntk_conditioning.kernels.interpolated_kernels import ntk_distances, tables
from ntk_conditioning.networks import activations

DEPTHS = [0, 1, 7, 64]


@pytest.mark.parametrize("name", ["relu", "erf", "tanh", "selu", "sigmoid", "normrelu"])
def test_a_table_is_within_its_error_at_all_scales(name):
    sigma, rng = activations.get(name), np.random.default_rng(0)
    theta = np.exp(rng.uniform(np.log(2e-8), np.log(3.1), 3000))
    theta = np.append(theta, np.pi - theta[:300])
    w = 2 * np.sin(theta / 2) ** 2
    for depth, table in tables(sigma, DEPTHS).items():
        exact = ntk_distances(sigma, depth)(w)
        for part in (slice(None), w < 1e-3, w < 1e-12):
            assert np.abs(table(w[part]) - exact[part]).max() <= table.error(w[part])
        inner = (w > 1e-6) & (w < 1.9)
        np.testing.assert_allclose(table(w[inner]), exact[inner], rtol=1e-9)


def test_distances_of_0_stay_0_and_their_errors_are_told():
    table = tables(activations.get("relu"), [3])[3]
    assert table(np.array([0.0, 1e-300])).tolist() == [0.0, pytest.approx(0, abs=1e-280)]
    # e rises like the root of w: what is lost of a small distance counts
    assert table.error(np.array([1e-12, 1.0]), 1e-16) > 1e-11
    assert table.error(np.array([0.1, 1.0]), 1e-16) < 3e-14
