"""Laws of random samples on the sphere, against eigenvalues and against known special cases."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.spatial.distance import squareform
from scipy.special import comb

from ntk_conditioning.kernels.depth_profiles import along_depth
from ntk_conditioning.kernels.interpolated_kernels import ntk_distances
from ntk_conditioning.networks import activations
from ntk_conditioning.theory import random_matrix_predictions, sphere
from ntk_conditioning.theory.random_matrix_predictions import harmonics, spectrum, uniform


def eigenvalues(x, *, activation: str, depth: int):
    [kernels] = along_depth(x, depths=[depth], activation=activation)
    return np.linalg.eigvalsh(np.eye(len(x)) + squareform(kernels.ntk.pairs))


@pytest.mark.parametrize("d", [2, 3, 8, 1000])
def test_harmonics_are_counted_and_add_up(d):
    of = harmonics(lambda w: np.exp(1 - w), d)
    k = np.arange(len(of.counts))
    counts = [1.0, d, *(comb(d + j - 1, j) - comb(d + j - 3, j - 2) for j in k[2:])]
    np.testing.assert_allclose(of.counts, counts, rtol=1e-9)
    if d < 1000:
        assert of.weights.sum() == pytest.approx(math.e, rel=1e-10)  # by a recurrence
    else:  # nearly the powers of the cosine, of which the first are told
        np.testing.assert_allclose(of.weights, [1, 1, 1 / 2, 1 / 6], rtol=0.01)


@pytest.mark.parametrize("activation", ["relu", "tanh", "normalized_sigmoid"])
@pytest.mark.parametrize("depth", [1, 4, 16])
@pytest.mark.parametrize(("n", "d"), [(256, 1024), (512, 512), (512, 128), (512, 32)])
def test_uniform_samples_have_the_spectrum_of_the_laws(activation, depth, n, d):
    x = sphere.uniform(np.random.default_rng(n + d), n=n, d=d).samples
    law = uniform(ntk_distances(activations.get(activation), depth), n=n, d=d)
    found = eigenvalues(x, activation=activation, depth=depth)
    ends = found[[0, -1, -1 - len(law.spikes)]]
    assert ends == pytest.approx([law.low, law.largest, law.high], rel=0.1)


@pytest.mark.parametrize("shape", ["equicorrelated", "two_clusters"])
@pytest.mark.parametrize("c", [0.3, 0.9, 1 - 1e-8])
@pytest.mark.parametrize(("n", "d"), [(256, 1024), (512, 64)])
def test_tilted_samples_have_the_spectrum_of_the_laws(shape, c, n, d):
    x = sphere.SHAPES[shape](np.random.default_rng(1), n=n, d=d, c=c).samples
    law = getattr(random_matrix_predictions, shape)(
        ntk_distances(activations.get("relu"), 3), c, n=n, d=d
    )
    found = eigenvalues(x, activation="relu", depth=3)[::-1]
    spikes, (high, *_) = np.split(found, [len(law.spikes)])
    assert found[-1] == pytest.approx(law.low, rel=0.05)
    assert spikes == pytest.approx(law.spikes, rel=0.02)
    assert high == pytest.approx(law.high, rel=0.1)


def test_the_laws_of_a_linear_kernel_are_those_of_marchenko_and_pastur():
    for n, d in ((100, 400), (100, 100), (400, 100)):
        law = spectrum([1.0], [d], n)
        assert law.high == pytest.approx((1 + math.sqrt(n / d)) ** 2)
        assert law.low == pytest.approx(max(0.0, 1 - math.sqrt(n / d)) ** 2, abs=1e-9)
        assert law.spikes == ()
    # a spike within the bulk is none, and beyond it stands where theory says (Baik & Silverstein)
    assert spectrum([0.9], [200.0], 100, rest=0.099, spikes=[0.001]).spikes == ()


def test_laws_are_approached_as_samples_and_dimensions_grow():
    """Ends of a bulk fluctuate like n^(-2/3); here they come nearer at least like n^(-1/2)."""
    f, sizes, off = ntk_distances(activations.get("relu"), 2), [64, 256, 1024], []
    for n in sizes:
        law, each = uniform(f, n=n, d=n), []
        for seed in range(8 if n < 1000 else 3):
            x = sphere.uniform(np.random.default_rng(seed), n=n, d=n).samples
            found = eigenvalues(x, activation="relu", depth=2)
            each.append(abs(math.log(found[0] / law.low)) + abs(math.log(found[-2] / law.high)))
        off.append(np.mean(each))
    assert np.polyfit(np.log(sizes), np.log(off), 1)[0] < -0.5


def flip(n: int, depth: int) -> float:
    """Return the d/n at which the laws have kappa of ReLU and of the Gram matrix equal."""
    relu, gram = (ntk_distances(activations.get("relu"), each) for each in (depth, 0))

    def behind(ratio: float) -> float:
        d = ratio * n
        return math.log(uniform(relu, n=n, d=d).kappa / uniform(gram, n=n, d=d).kappa)

    return brentq(behind, 1.05, 10, rtol=1e-6)


@pytest.mark.parametrize(
    ("depth", "expected"), [(1, [2.59, 1.92, 1.61, 1.42, 1.29, 1.19]), (8, [2.32, 1.19])]
)
def test_relu_loses_in_fewer_dimensions_the_more_samples_there_are(depth, expected):
    """Found from means over draws, by code of its own, where kappa is the Gram matrix's."""
    sizes = [32, 64, 128, 256, 512, 1024] if depth == 1 else [32, 1024]
    for n, ratio in zip(sizes, expected, strict=True):
        # the ends of a bulk are approached like n^(-2/3)
        assert flip(n, depth) == pytest.approx(ratio, rel=2 * n ** (-2 / 3))


def test_laws_hold_on_any_scale():
    """As of the distances between samples in deep networks of the ordered phase."""
    law, small = (
        spectrum([0.5 * s, 0.1 * s], [50, 3000], 100, rest=0.2 * s, spikes=[0.2])
        for s in (1.0, 1e-250)
    )
    assert small.low == pytest.approx(1e-250 * law.low, rel=1e-12)
    assert small.high == pytest.approx(1e-250 * law.high, rel=1e-12)
    assert small.spikes[0] == pytest.approx(20, rel=1e-12)
