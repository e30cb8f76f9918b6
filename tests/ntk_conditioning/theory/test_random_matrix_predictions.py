"""Laws of random samples on the sphere, against eigenvalues and against known special cases."""

import math

import numpy as np
import pytest
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
    else:  # nearly the powers of the cosine, the first of which are known
        np.testing.assert_allclose(of.weights, [1, 1, 1 / 2, 1 / 6], rtol=0.01)


@pytest.mark.parametrize("activation", ["relu", "tanh", "normalized_sigmoid"])
@pytest.mark.parametrize("depth", [1, 16])
@pytest.mark.parametrize(("n", "d"), [(256, 1024), (512, 512), (512, 32)])
def test_uniform_samples_have_the_spectrum_of_the_laws(activation, depth, n, d):
    x = sphere.uniform(np.random.default_rng(n + d), n=n, d=d).samples
    law = uniform(ntk_distances(activations.get(activation), depth), n=n, d=d)
    values = eigenvalues(x, activation=activation, depth=depth)
    ends = values[[0, -1, -1 - len(law.spikes)]]
    assert ends == pytest.approx([law.low, law.largest, law.high], rel=0.1)


@pytest.mark.parametrize("shape", ["equicorrelated", "two_clusters"])
@pytest.mark.parametrize(("c", "n", "d"), [(0.3, 256, 1024), (0.9, 512, 64), (1 - 1e-8, 512, 64)])
def test_tilted_samples_have_the_spectrum_of_the_laws(shape, c, n, d):
    x = sphere.SHAPES[shape](np.random.default_rng(1), n=n, d=d, c=c).samples
    law = getattr(random_matrix_predictions, shape)(
        ntk_distances(activations.get("relu"), 3), c, n=n, d=d
    )
    values = eigenvalues(x, activation="relu", depth=3)[::-1]
    spikes, (high, *_) = np.split(values, [len(law.spikes)])
    assert values[-1] == pytest.approx(law.low, rel=0.05)
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
        law, distances = uniform(f, n=n, d=n), []
        for seed in range(8 if n < 1000 else 3):
            x = sphere.uniform(np.random.default_rng(seed), n=n, d=n).samples
            low, *_, high, _ = eigenvalues(x, activation="relu", depth=2)
            distances.append(abs(math.log(low / law.low)) + abs(math.log(high / law.high)))
        off.append(np.mean(distances))
    assert np.polyfit(np.log(sizes), np.log(off), 1)[0] < -0.5


def test_laws_hold_on_any_scale():
    """As of the distances between samples in deep networks of the ordered phase."""
    law, small = (
        spectrum([0.5 * s, 0.1 * s], [50, 3000], 100, rest=0.2 * s, spikes=[0.2])
        for s in (1.0, 1e-250)
    )
    assert small.low == pytest.approx(1e-250 * law.low, rel=1e-12, abs=0)
    assert small.high == pytest.approx(1e-250 * law.high, rel=1e-12, abs=0)
    assert small.spikes[0] == pytest.approx(20, rel=1e-12)
