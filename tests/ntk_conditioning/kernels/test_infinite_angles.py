"""Kernels of infinite width are symmetric and positive, and their angles those of their cosines."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from ntk_conditioning.kernels import infinite
from tests.ntk_conditioning.references import samples

rows = st.integers(0, 2**32 - 1).map(lambda seed: samples(7, 4, seed=seed, spread=1.0))
names = st.sampled_from(["relu", "leaky_relu-0.2", "linear", "erf"])


@given(x=rows, name=names, depth=st.integers(0, 6))
@example(x=samples(4, 4, spread=1.0), name="selu", depth=2)
def test_kernels_are_symmetric_positive_and_have_the_cosines_of_the_angles(x, name, depth):
    layer = infinite.InfiniteNetwork(x, depth=depth, activation=name)
    for k in (layer.ntk, layer.nngp):
        np.testing.assert_array_equal(k, k.T)
        eigenvalues = np.linalg.eigvalsh(k)
        assert eigenvalues[0] >= -1e-14 * eigenvalues[-1]
    angles, norms = infinite.gradient_angles(x, depth=depth, activation=name), np.diag(layer.ntk)
    np.testing.assert_array_equal(angles, angles.T)
    np.testing.assert_array_equal(np.diag(angles), 0)
    cosines = layer.ntk / np.sqrt(np.outer(norms, norms))
    np.testing.assert_allclose(np.cos(angles), cosines, rtol=0, atol=1e-14)
