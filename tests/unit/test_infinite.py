"""Infinite-width kernels against Theorem 4.4, high precision, closed forms and their symmetries."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntk_conditioning import activations, infinite, theory
from ntk_conditioning.angles import ZeroRowError

ALL = (*activations.names(), "leaky_relu-0.3", "normalized_relu", "normalized_gelu")


def samples(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d)) / math.sqrt(d)


def exact_relu_ntk(x: np.ndarray, depth: int) -> mpmath.matrix:
    """Return the ReLU NTK of float64 rows by the printed recursion, at the working precision."""
    rows = [[mpmath.mpf(float(value)) for value in row] for row in x]
    n = len(rows)
    gram = [[mpmath.fdot(a, b) for b in rows] for a in rows]
    kernel = mpmath.matrix(n, n)
    for i in range(n):
        for j in range(i + 1):
            scale = mpmath.sqrt(gram[i][i] * gram[j][j])
            cosine = mpmath.mpf(1) if i == j else gram[i][j] / scale
            total = cosine
            for _ in range(depth):
                theta = mpmath.acos(cosine)
                cosine = ((mpmath.pi - theta) * mpmath.cos(theta) + mpmath.sin(theta)) / mpmath.pi
                total = cosine + total * (1 - theta / mpmath.pi)
            kernel[i, j] = kernel[j, i] = scale * total
    return kernel


@pytest.mark.parametrize("depth", [0, 1, 3, 10])
def test_relu_is_theorem_4_4(depth):
    x = samples(12, 7)
    norms = np.linalg.norm(x, axis=1)
    theta = np.arccos(np.clip(x @ x.T / np.outer(norms, norms), -1, 1))
    np.fill_diagonal(theta, 0)
    expected = (depth + 1) * np.outer(norms, norms) * np.cos(theory.gradient_angle(theta, depth))
    found = infinite.ntk(x, depth=depth, activation="relu")
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("depth", [1, 3, 10])
def test_relu_is_the_recursion_in_high_precision(depth):
    x = samples(6, 5)
    x[1] = x[0] + 1e-7 * x[2]
    with mpmath.workdps(50):
        exact = np.array(exact_relu_ntk(x, depth).tolist(), dtype=float)
    found = infinite.ntk(x, depth=depth, activation="relu")
    np.testing.assert_allclose(found, exact, rtol=1e-12)


@pytest.mark.parametrize(
    ("delta", "kappa"), [(1e-6, 1e7), (1e-9, 1e10), (1e-11, 1e12)], ids=lambda v: f"{v:g}"
)
def test_lambda_min_is_right_for_near_duplicates(delta, kappa):
    """numerics: the arccosine of a rounded cosine is 1 % off at 3e8 and meaningless at 3e10."""
    x = samples(20, 10)
    x[1] = x[0] + delta * x[2]
    with mpmath.workdps(50):
        eigenvalues = mpmath.eigsy(exact_relu_ntk(x, 3), eigvals_only=True)
        exact_min, exact_kappa = float(eigenvalues[0]), float(eigenvalues[19] / eigenvalues[0])
    assert exact_kappa > kappa / 10
    found = np.linalg.eigvalsh(infinite.ntk(x, depth=3, activation="relu"))
    # rounding of K alone moves lambda_min by about eps kappa
    assert abs(found[0] / exact_min - 1) < 1e-12 + 20 * 2.2e-16 * exact_kappa


@pytest.mark.parametrize("theta", [1e-9, 1e-6, 1e-3, 0.5, 3.0])
@pytest.mark.parametrize("depth", [0, 1, 5])
def test_gradient_angles_keep_tiny_angles(theta, depth):
    x = np.array([[1.0, 0.0, 0.0], [math.cos(theta), math.sin(theta), 0.0]]) * [[1.0], [2.5]]
    # what float64 holds of the second row is the angle to be found
    true = math.atan2(x[1, 1], x[1, 0])
    found = infinite.gradient_angles(x, depth=depth, activation="relu")
    assert found[0, 1] == pytest.approx(float(theory.gradient_angle(true, depth)), rel=1e-12, abs=0)
    assert found[0, 0] == found[1, 1] == 0


def test_antipodal_pairs_keep_their_angle():
    x = np.array([[1.0, 0.0], [-1.0, 1e-9]])
    _, theta = infinite.input_angles(x)
    assert math.pi - theta[0, 1] == pytest.approx(1e-9, rel=1e-6, abs=0)


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("name", ["relu", "linear", "leaky_relu"])
def test_gradients_have_norm_squared_l_plus_1(name, depth):
    x = samples(5, 4)
    diagonal = np.diag(infinite.ntk(x, depth=depth, activation=name))
    np.testing.assert_allclose(diagonal, (depth + 1) * np.sum(x**2, axis=1), rtol=1e-14)


def test_linear_networks_keep_the_gram_matrix():
    x = samples(8, 5)
    np.testing.assert_allclose(
        infinite.ntk(x, depth=6, activation="linear"), 7 * x @ x.T, rtol=1e-12, atol=1e-14
    )


def erf_ntk(x: np.ndarray, depth: int) -> np.ndarray:
    """Return the NTK of erf networks by Williams's closed form (1997), layer by layer."""
    gain = activations.get("erf").gain
    sigma = x @ x.T
    theta = sigma
    for _ in range(depth):
        q = 1 + 2 * np.diag(sigma)
        outer = np.outer(q, q)
        slope = gain**2 * 4 / math.pi / np.sqrt(outer - 4 * sigma**2)
        sigma = gain**2 * 2 / math.pi * np.arcsin(2 * sigma / np.sqrt(outer))
        theta = sigma + theta * slope
    return theta


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_erf_is_the_closed_form_for_unequal_norms(depth):
    x = samples(15, 6) * np.linspace(0.5, 2, 15)[:, None]
    expected = erf_ntk(x, depth)
    found = infinite.ntk(x, depth=depth, activation="erf")
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13 * expected.max())
    # the same function under another name goes by quadrature, of error below 1e-11 a layer
    anonymous = replace(activations.get("erf"), name="anonymous")
    found = infinite.ntk(x, depth=depth, activation=anonymous)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * expected.max())


def test_equal_norms_through_the_general_path_give_the_leaky_relus_closed_form():
    """A leaky ReLU that does not say so goes by quadrature."""
    sigma = activations.get("leaky_relu-0.3")
    anonymous = replace(sigma, name="anonymous", negative_slope=None, homogeneous=False)
    x = samples(10, 6) * np.linspace(0.5, 2, 10)[:, None]
    np.testing.assert_allclose(
        infinite.ntk(x, depth=4, activation=anonymous),
        infinite.ntk(x, depth=4, activation=sigma),
        rtol=1e-11,
    )


@pytest.mark.parametrize("name", ALL)
def test_kernels_are_symmetric_and_positive(name):
    x = samples(20, 5) * np.linspace(0.7, 1.4, 20)[:, None]
    for kernel in (infinite.nngp, infinite.ntk):
        k = kernel(x, depth=2, activation=name)
        np.testing.assert_allclose(k, k.T, rtol=0, atol=1e-14 * k.max())
        eigenvalues = np.linalg.eigvalsh(k)
        assert eigenvalues[0] > -1e-10 * eigenvalues[-1]


@pytest.mark.parametrize("name", ["relu", "tanh", "normalized_selu"])
def test_a_block_of_the_kernel_is_the_kernel_between_its_samples(name):
    x = samples(12, 5) * np.linspace(0.7, 1.4, 12)[:, None]
    whole = infinite.ntk(x, depth=3, activation=name)
    part = infinite.ntk(x[:5], x[5:], depth=3, activation=name)
    # the two are interpolated on other grids, of error below 1e-11
    np.testing.assert_allclose(part, whole[:5, 5:], rtol=1e-9)
    diagonal = infinite._diagonal(x, 3, name)
    np.testing.assert_allclose(np.diag(whole), diagonal, rtol=1e-9)


@pytest.mark.parametrize("name", ["normalized_relu", "normalized_tanh", "normalized_sigmoid"])
def test_normalised_activations_keep_unit_norms(name):
    x = samples(6, 5)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(np.diag(infinite.nngp(x, depth=6, activation=name)), 1, rtol=1e-12)


class TestProperties:
    seeds = st.integers(0, 2**16)

    @given(seed=seeds, depth=st.integers(0, 6))
    def test_permuting_samples_permutes_the_kernel(self, seed, depth):
        x = samples(9, 4, seed)
        order = np.random.default_rng(seed).permutation(9)
        k = infinite.ntk(x, depth=depth, activation="relu")
        np.testing.assert_allclose(
            infinite.ntk(x[order], depth=depth, activation="relu"),
            k[np.ix_(order, order)],
            rtol=1e-12,
            atol=1e-14,
        )

    @given(seed=seeds, depth=st.integers(0, 6), c=st.floats(1e-3, 1e3))
    def test_scaling_inputs_scales_the_relu_kernel_by_its_square(self, seed, depth, c):
        x = samples(6, 4, seed)
        np.testing.assert_allclose(
            infinite.ntk(c * x, depth=depth, activation="relu"),
            c**2 * infinite.ntk(x, depth=depth, activation="relu"),
            rtol=1e-10,
        )

    @given(seed=seeds, depth=st.integers(0, 6), c=st.floats(1e-3, 1e3))
    def test_angles_are_symmetric_and_free_of_scale(self, seed, depth, c):
        x = samples(6, 4, seed)
        angles = infinite.gradient_angles(x, depth=depth, activation="relu")
        np.testing.assert_allclose(angles, angles.T, rtol=1e-9)
        scaled = infinite.gradient_angles(c * x, depth=depth, activation="relu")
        np.testing.assert_allclose(scaled, angles, rtol=1e-9)

    @given(seed=seeds, tile=st.integers(1, 20), depth=st.integers(0, 3))
    def test_the_smallest_angle_is_the_smallest_of_all(self, seed, tile, depth):
        x = samples(11, 3, seed)
        found = infinite.min_angle(x, depth=depth, activation="relu", tile=tile)
        angles = infinite.gradient_angles(x, depth=depth, activation="relu")
        upper = angles[np.triu_indices(11, 1)]
        assert found.angle == pytest.approx(upper.min(), rel=1e-9)
        assert angles[found.i, found.j] == pytest.approx(found.angle, rel=1e-9)
        assert found.i < found.j


class TestDuplicates:
    x = np.vstack([samples(6, 3), samples(6, 3)[2], samples(6, 3)[2]])

    def test_they_are_counted_and_have_angle_zero(self):
        found = infinite.min_angle(self.x, depth=2, activation="relu")
        assert (found.angle, found.i, found.j, found.duplicates) == (0.0, 2, 6, 3)

    def test_on_request_they_are_left_out(self):
        found = infinite.min_angle(self.x, depth=2, activation="relu", exclude_duplicates=True)
        alone = infinite.min_angle(self.x[:6], depth=2, activation="relu")
        assert found.duplicates == 3
        assert (found.angle, found.i, found.j) == (alone.angle, alone.i, alone.j)


def test_zero_rows_are_refused():
    with pytest.raises(ZeroRowError, match="row 1"):
        infinite.ntk(np.array([[1.0, 0.0], [0.0, 0.0]]), depth=1, activation="relu")


def test_closed_forms_do_without_torch():
    program = (
        "import sys, numpy as np\n"
        "from ntk_conditioning import infinite\n"
        "infinite.ntk(np.eye(3), depth=2, activation='relu')\n"
        "infinite.min_angle(np.eye(3), depth=2, activation='leaky_relu-0.2')\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": "src"})


def test_the_error_of_tabulated_duals_is_stated_and_raises_the_floor():
    from ntk_conditioning import spectra

    x = samples(12, 5) * np.linspace(0.7, 1.4, 12)[:, None]
    assert infinite.layer_at(x, depth=3, activation="erf").error == 0
    layer = infinite.layer_at(x, depth=3, activation="tanh")
    assert 0 < layer.error < 1e-9
    found = spectra.conditioning(layer.ntk, entry_error=layer.error)
    assert found.resolution_floor == pytest.approx(12 * layer.error * found.lambda_max)
