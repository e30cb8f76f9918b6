"""What layers do to random samples and the laws of their spectra, against layers and samples."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.spatial.distance import squareform
from scipy.special import comb

from ntk_conditioning.kernels.infinite import InfiniteNetwork
from ntk_conditioning.kernels.interpolated_kernels import tables
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.theory.depth import close_gain, deep_rate, far_samples, phase
from ntk_conditioning.theory.phase_diagram import DataPlace, RandomPlace, measure
from ntk_conditioning.theory.random_matrix_predictions import harmonics, spectrum, uniform
from ntk_conditioning.theory.sphere import SHAPES

SMOOTH = ["erf", "tanh", "gelu", "sigmoid", "softplus", "normalized_sigmoid"]


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("depth", [1, 3, 10])
def test_close_samples_part_by_their_gain(name, depth):
    sigma, w = activations.get(name), np.array([1e-7])
    gain = tables(sigma, [depth])[depth](w).item() / w.item()
    assert close_gain(sigma, depth) == pytest.approx(gain, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "depth"), [("relu", 2), ("tanh", 2), ("gelu", 2), ("sigmoid", 64)]
)
def test_far_samples_have_the_laws_of_all_degrees_in_many_dimensions(name, depth):
    kernel, off = tables(activations.get(name), [depth])[depth], []
    for n in (64, 256, 1024):
        law, far = uniform(kernel, n=n, d=4 * n), far_samples(kernel, n=n, d=4 * n)
        off.append(abs(math.log(far.low / law.low)) + abs(math.log(far.largest / law.largest)))
    assert off[-1] < 1e-3
    assert np.polyfit(np.log([64, 256, 1024]), np.log(off), 1)[0] < -0.8  # like 1/n


def test_deep_networks_are_ordered_critical_or_chaotic():
    at = np.array([0.3, 0.6])
    for name in (*SMOOTH, "relu", "normalized_relu"):
        sigma = activations.get(name)
        one, two = (table(at) for table in tables(sigma, [60, 90]).values())
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


def test_kappa_of_even_activations_falls_faster_than_by_a_rate():
    """Each layer squares the cosines."""
    square = Activation("square", lambda z: (z * z - 1) / 2**0.5, lambda z: 2**0.5 * z)
    assert (phase(square), deep_rate(square)) == ("chaotic", None)
    assert close_gain(square, 2000) == math.inf


@pytest.mark.parametrize("d", [2, 3, 8, 1000])
def test_harmonics_are_counted_and_add_up(d):
    weights, counts = harmonics(lambda w: np.exp(1 - w), d)
    known = [comb(d + j - 1, j) - comb(d + j - 3, j - 2) for j in range(2, len(counts))]
    np.testing.assert_allclose(counts, [1.0, d, *known], rtol=1e-9)
    if d < 1000:
        assert weights.sum() == pytest.approx(math.e, rel=1e-10)  # by a recurrence
    else:  # nearly the powers of the cosine, the first of which are known
        np.testing.assert_allclose(weights, [1, 1, 1 / 2, 1 / 6], rtol=0.01)


def test_laws_hold_on_any_scale():
    """As of samples in deep networks of the ordered phase, whose kappa is beyond floats at last."""
    law, small = (
        spectrum([0.5 * s, 0.1 * s], [50, 3000], 100, rest=0.2 * s, spikes=[0.2])
        for s in (1.0, 1e-307)
    )
    assert small.low == pytest.approx(1e-307 * law.low, rel=1e-12, abs=0)
    assert small.high == pytest.approx(1e-307 * law.high, rel=1e-12, abs=0)
    assert small.spikes[0] == pytest.approx(20, rel=1e-12)
    place, sigma = RandomPlace(shape="uniform", parameter=0, n=20, d=50), activations.get("sigmoid")
    [row] = measure(place, sigma, tables(sigma, [400]), seed=1)
    assert row["kappa"] is row["kappa_error"] is None


def test_the_map_is_right_at_random_places():
    rng, resolved = np.random.default_rng(24), 0
    for number in range(40):
        shape, n = str(rng.choice([*SHAPES])), int(rng.integers(16, 97))
        d = max(3, round(n / np.exp(rng.uniform(np.log(1 / 16), np.log(16)))))
        # closer samples lose, in the other code, digits that the map keeps
        parameter = 1 - 10 ** rng.uniform(-4, 0) if shape != "power_law" else rng.uniform(0.2, 2)
        name = str(rng.choice(["relu", "erf", "tanh", "selu", "normalized_gelu", "softplus"]))
        place = RandomPlace(shape=shape, parameter=0 if shape == "uniform" else parameter, n=n, d=d)
        where = place, name, depth = place, name, int(2 ** rng.integers(0, 6))
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


def test_data_have_the_place_of_their_span_in_any_precision():
    x, kernel = np.random.default_rng(0).random((8, 20)), tables(activations.get("relu"), [1])[1]
    x = np.float32(x)
    span = DataPlace("x", x.astype(float) @ np.linalg.qr(x.T.astype(float))[0], 8)
    law, of_span = DataPlace("x", x, 8).law(kernel), span.law(kernel)
    assert (law.low, *law.spikes) == pytest.approx((of_span.low, *of_span.spikes), rel=1e-9)
    distances = DataPlace("x", x, 8).draw(1).distances
    np.testing.assert_allclose(distances, span.draw(1).distances, atol=1e-15)


LAWS = [*product(["equicorrelated", "two_clusters"], [0.3, 0.9, 1 - 1e-8]), ("uniform", 0)]
LAWS += product(["power_law"], [0.5, 1.0])


@pytest.mark.parametrize(("n", "d"), [(256, 1024), (512, 512), (512, 64)])
@pytest.mark.parametrize(("shape", "parameter"), LAWS)
def test_samples_have_the_spectrum_of_the_laws(shape, parameter, n, d):
    """The laws of power laws are approximate: cosines have a variance of 1/25 and less."""
    place = RandomPlace(shape=shape, parameter=parameter, n=n, d=d)
    low, high = (0.3, 0.1) if shape == "power_law" else (0.05, 0.02)
    for name, depth in (("relu", 3), ("tanh", 1), ("tanh", 8), ("normalized_sigmoid", 16)):
        kernel = tables(activations.get(name), [depth])[depth]
        law, k = place.law(kernel), 1 - squareform(kernel(place.draw(1).distances))
        values = np.linalg.eigvalsh(k)[::-1]
        spikes, (bulk, *_) = np.split(values, [len(law.spikes)])
        assert values[-1] == pytest.approx(law.low, rel=low, abs=1e-11), name
        assert values[0] == pytest.approx(law.largest, rel=high), name
        assert spikes == pytest.approx(law.spikes, rel=high), name
        assert bulk == pytest.approx(law.high, rel=0.1), name
