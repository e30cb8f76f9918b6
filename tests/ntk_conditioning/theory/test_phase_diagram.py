"""The map at random places against kernels made by other code, and the laws against samples."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.spatial.distance import squareform

from ntk_conditioning.kernels.infinite import InfiniteNetwork
from ntk_conditioning.kernels.interpolated_kernels import ntk_distances, tables
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.phase_diagram import RandomPlace, measure
from ntk_conditioning.theory.sphere import SHAPES


def random_place(rng: np.random.Generator) -> tuple[RandomPlace, str, int]:
    shape, n = str(rng.choice([*SHAPES])), int(rng.integers(16, 97))
    d = max(3, round(n / np.exp(rng.uniform(np.log(1 / 16), np.log(16)))))
    # closer samples lose, in the other code, digits that the map keeps
    parameter = 1 - 10 ** rng.uniform(-4, 0) if shape != "power_law" else rng.uniform(0.2, 2)
    name = str(rng.choice(["relu", "erf", "tanh", "selu", "normalized_gelu", "softplus"]))
    place = RandomPlace(shape=shape, parameter=0 if shape == "uniform" else parameter, n=n, d=d)
    return place, name, int(2 ** rng.integers(0, 6))


def test_the_map_is_right_at_random_places():
    rng, resolved = np.random.default_rng(24), 0
    for number in range(40):
        where = place, name, depth = random_place(rng)
        sigma = activations.get(name)
        [row] = measure(place, sigma, tables(sigma, [depth]), seed=number)
        network = InfiniteNetwork(place.draw(number).samples, depth=depth, activation=name)
        low, *_, second, high = np.linalg.eigvalsh(network.ntk / network.ntk[0, 0])
        error = row["lambda_min_error"] + place.n * 1e-13
        assert row["lambda_max"] == pytest.approx(high, rel=1e-10), where
        assert row["lambda_2"] == pytest.approx(second, abs=error + 1e-10 * high), where
        assert row["lambda_min"] == pytest.approx(low, abs=error), where
        if row["kappa"] is not None and low > 1e-9 * high:
            assert row["kappa"] == pytest.approx(high / low, rel=1e-3)
            resolved += 1
    assert resolved > 28


def eigenvalues(place, kernel, seed=1):
    """Return the eigenvalues of samples that are drawn at a place, in descending order."""
    return np.linalg.eigvalsh(1 - squareform(kernel(place.draw(seed).distances)))[::-1]


TILTED = product(["equicorrelated", "two_clusters"], [0.3, 0.9, 1 - 1e-8])


@pytest.mark.parametrize(("n", "d"), [(256, 1024), (512, 512), (512, 64)])
@pytest.mark.parametrize(
    ("shape", "parameter"), [("uniform", 0), *TILTED, ("power_law", 0.5), ("power_law", 1.0)]
)
def test_samples_have_the_spectrum_of_the_laws(shape, parameter, n, d):
    """The laws of power laws are approximate: cosines have a variance of 1/25 and less."""
    place = RandomPlace(shape=shape, parameter=parameter, n=n, d=d)
    low, high = (0.3, 0.1) if shape == "power_law" else (0.05, 0.02)
    for name, depth in (("relu", 3), ("tanh", 1), ("tanh", 8), ("normalized_sigmoid", 16)):
        kernel = ntk_distances(activations.get(name), depth)
        law, values = place.law(kernel), eigenvalues(place, kernel)
        spikes, (bulk, *_) = np.split(values, [len(law.spikes)])
        assert values[-1] == pytest.approx(law.low, rel=low, abs=1e-11), name
        assert values[0] == pytest.approx(law.largest, rel=high), name
        assert spikes == pytest.approx(law.spikes, rel=high), name
        assert bulk == pytest.approx(law.high, rel=0.1), name


def test_laws_are_approached_as_samples_and_dimensions_grow():
    """Ends of a bulk fluctuate like n^(-2/3); here they come nearer at least like n^(-1/2)."""
    kernel, sizes, off = ntk_distances(activations.get("relu"), 2), [64, 256, 1024], []
    for n in sizes:
        place, distances = RandomPlace(shape="uniform", parameter=0, n=n, d=n), []
        law = place.law(kernel)
        for seed in range(8 if n < 1000 else 3):
            _, high, *_, low = eigenvalues(place, kernel, seed)
            distances.append(abs(math.log(low / law.low)) + abs(math.log(high / law.high)))
        off.append(np.mean(distances))
    assert np.polyfit(np.log(sizes), np.log(off), 1)[0] < -0.5
