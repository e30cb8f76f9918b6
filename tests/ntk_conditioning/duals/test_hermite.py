"""Hermite coefficients against closed forms and duals; fixed points against deep networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from ntk_conditioning.duals import length_map
from ntk_conditioning.duals.closed_forms import dual
from ntk_conditioning.duals.fixed_points import fixed_point
from ntk_conditioning.duals.hermite import expand, expansion
from ntk_conditioning.kernels import infinite
from ntk_conditioning.networks import activations
from ntk_conditioning.theory.agarwal2021deep import NormReLU

K = np.arange(65)


def relu_squares() -> np.ndarray:
    """Return a_k² of ReLU from the power series of its dual (Daniely et al. 2016, Table 1)."""
    squares = np.zeros(65)
    squares[:2] = 1 / (2 * math.pi), 1 / 4
    for j in range(32):  # (1/2π) binom(2j, j) / (4^j (2j+1) (2j+2)) ρ^(2j+2)
        squares[2 * j + 2] = math.comb(2 * j, j) / 4**j / (2 * j + 1) / (2 * j + 2) / (2 * math.pi)
    return squares


FUNCTIONS = {  # a function, its kinks, a_k² and μ: agarwal2021deep, Appendix C.4, corrected
    "identity": (lambda z: z, (), 1.0 * (K == 1), 0.0),
    "second Hermite": (lambda z: (z**2 - 1) / math.sqrt(2), (), 1.0 * (K == 2), 1.0),
    "ReLU": (
        lambda z: np.maximum(z, 0),
        (0.0,),
        relu_squares(),
        (math.pi - 2) / (2 * math.pi - 2),
    ),
    "exponential": (
        np.exp,
        (),
        np.array([math.e / math.factorial(k) for k in range(65)]),
        (math.e - 2) / (math.e - 1),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_coefficients_are_those_of_closed_forms(name):
    function, kinks, squares, mu = FUNCTIONS[name]
    found = expand(function, kinks=kinks)
    assert (np.abs(np.abs(found.coefficients) - np.sqrt(squares)) <= found.errors).all()
    assert found.errors.max() < 5e-14
    assert abs(found.non_linearity - mu) <= found.error
    assert found.tail == pytest.approx(1 - squares.sum() / found.square, abs=1e-14)


def test_a_jump_away_from_0_is_no_hindrance():
    """1[z >= 0.7]: a_k = φ(0.7) He_{k-1}(0.7) / √k!, and the mean is Φ(-0.7)."""
    found = expand(lambda z: 1.0 * (z >= 0.7), kinks=(0.7,), count=12)
    density = math.exp(-0.245) / math.sqrt(2 * math.pi)
    expected = [math.erfc(0.7 / math.sqrt(2)) / 2] + [
        density
        * np.polynomial.hermite_e.hermeval(0.7, [0] * (k - 1) + [1])
        / math.sqrt(math.factorial(k))
        for k in range(1, 12)
    ]
    assert found.coefficients == pytest.approx(expected, abs=found.errors.max())


def test_errors_are_large_where_a_kink_is_not_told():
    told = expand(lambda z: np.maximum(z - 0.7, 0), kinks=(0.7,))
    untold = expand(lambda z: np.maximum(z - 0.7, 0))
    wrong = np.abs(told.coefficients - untold.coefficients)
    assert untold.errors.max() > 1e-7
    assert (wrong <= 3 * untold.errors.max()).all()


@pytest.mark.parametrize("name", ["relu", "tanh", "selu", "normrelu", "normalized_gelu"])
def test_the_series_is_the_dual(name):
    sigma = activations.get(name)
    found, layer, one = expansion(sigma), dual(sigma, np.ones(1)), slice(0, 1)
    for rho in (-0.5, 0.0, 0.3, 0.5):
        w = np.full((1, 1), 1 - rho)
        cosine = 1 - layer.cosine_distances(one, one, w, np.arccos(1 - w))[0].item()
        assert found.dual(rho) / found.square == pytest.approx(cosine, abs=1e-13)


def test_affinity_is_measured_without_cancellation():
    """z + 1e-6 h_2(z) + 3: μ is 1e-12 / (1 + 1e-12)."""
    found = expand(lambda z: z + 1e-6 * (z**2 - 1) / math.sqrt(2) + 3)
    assert found.non_linearity == pytest.approx(1e-12, rel=1e-8)
    assert found.non_affinity == pytest.approx(1e-13, rel=1e-8)


# --- fixed points ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gelu", "normalized_relu", "tanh", "sigmoid"])
def test_deep_networks_tend_to_the_fixed_point_at_its_slope(name):
    """Cosines of inputs at 60 degrees; the first ones are those of `infinite`."""
    found, layer, one = (
        fixed_point(activations.get(name)),
        dual(activations.get(name), np.ones(1)),
        slice(0, 1),
    )
    cosines = [0.5]
    for _ in range(400):
        w = np.full((1, 1), 1 - cosines[-1])
        cosines.append(1 - layer.cosine_distances(one, one, w, np.arccos(1 - w))[0].item())
    x = np.array([[1.0, 0.0], [0.5, math.sqrt(0.75)]])
    assert infinite.nngp(x, depth=2, activation=name)[0, 1] == pytest.approx(cosines[2], abs=1e-12)
    assert cosines[-1] == pytest.approx(found.rho, abs=1e-11)
    gaps = np.abs(np.array(cosines) - found.rho)
    last = int(np.flatnonzero(gaps > 1e-7)[-1])
    assert gaps[last] / gaps[last - 1] == pytest.approx(found.slope, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "rho"),
    [("relu", 1), ("leaky_relu-0.2", 1), ("softplus", 1), ("linear", 0), ("normrelu", 0)],
)
def test_certain_fixed_points_are_exact(name, rho):
    found = fixed_point(activations.get(name))
    assert (found.rho, found.error) == (rho, 0)


# --- the length map -------------------------------------------------------------------------------

GAMMA = np.array([0.1, 0.5, 1.0, 2.0, 5.0])


@pytest.mark.parametrize("kink", [-1.5975, 0.3])
def test_quadrature_is_normrelus_closed_form(kink):
    sigma, theory = activations.normrelu(kink), NormReLU(kink)
    assert (sigma.shifted_relu.scale, sigma.shifted_relu.offset) == pytest.approx(
        (theory.scale, theory.offset)
    )
    found = length_map.length_map(sigma, GAMMA)
    np.testing.assert_allclose(found, theory.length_map(GAMMA), rtol=1e-13)
    slope = length_map.length_map_slope(sigma, GAMMA)
    np.testing.assert_allclose(slope, theory.length_map_slope(GAMMA), rtol=1e-12)
    biases = length_map.bias(sigma, GAMMA)
    np.testing.assert_allclose(biases, theory.bias(GAMMA), rtol=1e-11, atol=1e-15)
    step = 1e-4 * GAMMA
    quotient = (theory.length_map(GAMMA + step) - theory.length_map(GAMMA - step)) / (2 * step)
    np.testing.assert_allclose(slope, quotient, rtol=1e-6)
    assert expansion(sigma).non_linearity == pytest.approx(theory.non_linearity, rel=1e-12)


@pytest.mark.parametrize("name", ["selu", "gelu", "normalized_tanh"])
def test_length_maps_are_integrals(name):
    sigma = activations.get(name)

    def moment(power: int, gamma: float) -> float:
        def integrand(z: float) -> float:
            value = sigma.values(np.array([math.sqrt(gamma) * z])).item()
            return value**power * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

        sides = ((-10, 0), (0, 10))
        return sum(integrate.quad(integrand, a, b, epsabs=1e-12)[0] for a, b in sides)

    square, mean = moment(2, 0.5), moment(1, 0.5)
    assert length_map.length_map(sigma, 0.5) == pytest.approx(sigma.gain**2 * square, rel=1e-10)
    assert length_map.bias(sigma, 0.5) == pytest.approx(mean**2 / square, rel=1e-9)


def test_the_constants_of_fact_1():
    """agarwal2021deep, Fact 1 and Theorem 59; 0.5399 and 0.0798 are cut off and not rounded."""
    theory = NormReLU(-1.5975)
    assert math.floor(1e4 * theory.length_map(0.5)) == 5399
    assert [math.floor(1e4 * theory.rates[0]) - 1, round(1e4 * theory.rates[1])] == [798, 1572]
    assert theory.length_map_slope(1.0) == pytest.approx(0.8428, abs=5e-5)
    assert theory.bias([0.5, 2.0]) == pytest.approx([0.00086, 0.0029], rel=0.01)
    assert theory.unresolved_separation == pytest.approx(0.0185, abs=5e-5)
