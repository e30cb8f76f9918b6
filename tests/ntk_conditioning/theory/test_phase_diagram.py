"""The map at random places, against eigenvalues of kernels made by other code."""

import numpy as np
import pytest

from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.interpolated_kernels import tables
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.phase_diagram import PARAMETERS, RandomPlace, measure


def random_place(rng: np.random.Generator) -> tuple[RandomPlace, str, int]:
    shape = str(rng.choice(["uniform", "equicorrelated", "two_clusters", "power_law"]))
    n = int(rng.integers(16, 97))
    d = max(3, round(n / np.exp(rng.uniform(np.log(1 / 16), np.log(16)))))
    # closer samples lose, in the other code, digits that the map keeps
    parameter = 1 - 10 ** rng.uniform(-4, 0) if shape != "power_law" else rng.uniform(0.2, 2)
    name = str(rng.choice(["relu", "erf", "tanh", "selu", "normalized_gelu", "softplus"]))
    place = RandomPlace(shape=shape, parameter=parameter if PARAMETERS.get(shape) else 0, n=n, d=d)
    return place, name, int(2 ** rng.integers(0, 6))


def test_the_map_is_right_at_random_places():
    rng, resolved = np.random.default_rng(24), 0
    for number in range(40):
        place, name, depth = random_place(rng)
        sigma = activations.get(name)
        [row] = measure(place, sigma, tables(sigma, [depth]), seed=number)
        x = place.draw(number).samples
        kernel = infinite.InfiniteNetwork(x, depth=depth, activation=name).ntk
        kernel /= kernel[0, 0]
        eigenvalues = np.linalg.eigvalsh(kernel)
        error = row["lambda_min_error"] + place.n * 1e-13
        assert row["lambda_max"] == pytest.approx(eigenvalues[-1], rel=1e-10), (place, name, depth)
        assert row["lambda_2"] == pytest.approx(
            eigenvalues[-2], abs=error + 1e-10 * eigenvalues[-1]
        )
        assert row["lambda_min"] == pytest.approx(eigenvalues[0], abs=error), (place, name, depth)
        if row["kappa"] is not None and eigenvalues[0] > 1e-9 * eigenvalues[-1]:
            assert row["kappa"] == pytest.approx(eigenvalues[-1] / eigenvalues[0], rel=1e-3)
            resolved += 1
    assert resolved > 28
