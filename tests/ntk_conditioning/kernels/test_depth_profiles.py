"""Kernels along depth, in one pass and in tables, are those of each depth, with honest errors."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from ntk_conditioning.duals.closed_forms import angle_of
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.depth_profiles import Correlations, along_depth, layer_by_layer
from ntk_conditioning.kernels.interpolated_kernels import tables
from ntk_conditioning.networks import activations
from tests.ntk_conditioning.references import erf_layer, relu_angles


def close_pair(theta: float) -> np.ndarray:
    return np.array([[1.0, 0.0], [math.cos(theta), math.sin(theta)]])


@pytest.mark.parametrize("name", ["relu", "erf", "linear", "normrelu", "normalized_gelu"])
def test_one_pass_is_the_recursion_of_every_depth(name):
    """Also of nearly opposite samples, with their digits."""
    x = np.random.default_rng(0).standard_normal((12, 4))
    x[2:4] = -x[:2] + [[1e-2], [1e-7]] * x[2:4]
    x /= np.linalg.norm(x, axis=1)[:, None]
    upper, depths = np.triu_indices(12, 1), [0, 1, 3, 9]
    for found in along_depth(x, depths=reversed(depths), activation=name):
        assert found.depth == depths.pop(0)
        layer = infinite.InfiniteNetwork(x, depth=found.depth, activation=name)
        for kernel, correlations in ((layer.nngp, found.nngp), (layer.ntk, found.ntk)):
            error = np.abs(kernel[upper] / kernel[0, 0] - correlations.pairs).max()
            assert error <= 2 * correlations.error < (1e-11 if "norm" in name else 1e-12)
    assert depths == []


@pytest.mark.parametrize("theta", [1e-7, 1e-2, 1.3])
def test_errors_bound_those_of_deep_kernels(theta):
    """erf and ReLU after 400 layers, against 50 digits."""
    with mpmath.workdps(50):
        rho = mpmath.cos(mpmath.mpf(theta))
        for _ in range(400):
            rho, _ = erf_layer(1, 1, rho)
        exact = {"erf": rho, "relu": mpmath.cos(relu_angles(theta, 400)[-1])}
    for name, expected in exact.items():
        (found,) = along_depth(close_pair(theta), depths=[400], activation=name)
        assert abs(found.nngp.pairs[0] - expected) <= found.nngp.error < 2e-12


def test_the_excess_keeps_digits_that_kappa_loses_unless_rounding_makes_the_kernel_singular():
    """Two samples: kappa - 1 = 2ρ / (1 - ρ), and ρ falls by σ̂'(0) per layer."""
    (deep,) = along_depth(close_pair(1.0), depths=[300], activation="erf")
    rho = deep.nngp.pairs[0]
    excess, error = deep.nngp.excess
    assert 1e-13 < rho < 1e-11
    assert excess == pytest.approx(2 * rho / (1 - rho), rel=1e-12)
    assert 2 * deep.nngp.error < error < 1e-12
    (singular,) = along_depth(close_pair(1e-9), depths=[1], activation="relu")
    assert singular.nngp.excess is None
    assert singular.nngp.eigenvalues[0] == pytest.approx(-1)


def test_errors_of_all_entries_at_once_move_eigenvalues_by_no_more_than_their_bound():
    error, distances = 1e-6, np.full(15, 0.5)  # of 6 samples
    here, there = (Correlations(distances + off, error) for off in (0, error))
    moved = np.abs(np.subtract(here.eigenvalues, there.eigenvalues)).max()
    assert 4 * error < moved <= here.eigenvalue_error < 10 * error


@pytest.mark.parametrize(
    ("x", "depth", "problem"),
    [
        ([[1.0, 0.0], [0.0, 2.0]], 1, "norms from 1 to 2; scale the samples to norm 1"),
        ([[3.0, 0.0], [0.0, 3.0]], 1, "norms from 3 to 3; scale the samples to norm 1"),
        ([[1.0, 0.0]], 1, "a single sample has no pair"),
        ([[1.0, 0.0], [0.0, 1.0]], -1, "depth -1 is negative"),
    ],
)
def test_samples_that_do_not_fit_are_refused(x, depth, problem):
    with pytest.raises(infinite.SamplesError, match=problem):
        list(along_depth(x, depths=[depth], activation="relu"))


@pytest.mark.filterwarnings("ignore::ntk_conditioning.duals.quadrature.InaccurateDualWarning")
def test_layers_that_are_too_steep_to_integrate_are_refused():
    functions = lambda z: (1e5 * z).tanh(), lambda z: 1e5 / (1e5 * z).cosh() ** 2
    steep = activations.Activation("steep", *functions)
    with pytest.raises(infinite.UnresolvedKernelError, match=r"^steep .* scale the data"):
        list(along_depth(np.eye(2), depths=[1], activation=steep))


@pytest.mark.parametrize("name", ["relu", "erf", "tanh", "selu", "sigmoid", "normrelu"])
def test_a_table_is_within_its_error_at_all_scales(name):
    sigma, rng = activations.get(name), np.random.default_rng(0)
    theta = np.exp(rng.uniform(np.log(2e-8), np.log(3.1), 3000))
    theta = np.append(theta, np.pi - theta[:300])
    w = 2 * np.sin(theta / 2) ** 2
    layers = list(itertools.islice(layer_by_layer(sigma, w, angle_of(w)), 65))
    for depth, table in tables(sigma, [0, 1, 7, 64]).items():
        exact = layers[depth].ntk.distances
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
