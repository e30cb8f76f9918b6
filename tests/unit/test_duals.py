"""Dual activations against independent two-dimensional integrals."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.integrate

from ntk_conditioning import activations, duals

CASES = ["relu", "leaky_relu", "erf", "tanh", "gelu", "selu", "sigmoid", "softplus"]
CASES += ["normalized_relu", "normalized_selu"]


def integral(function, q: float, q2: float, theta: float) -> float:
    """Return E f(u) f(v) by nested adaptive quadrature, with panel edges where u or v is zero."""
    rho, rest = math.cos(theta), math.sin(theta)

    def inner(a: float) -> float:
        kink = -rho * a / rest
        points = np.array(sorted({-9.0, min(max(kink, -9.0), 9.0), 9.0}))
        nodes, weights = np.polynomial.legendre.leggauss(60)
        total = 0.0
        for low, high in pairwise(points):
            b = low + (high - low) * (nodes + 1) / 2
            v = math.sqrt(q2) * (rho * a + rest * b)
            density = np.exp(-(b**2) / 2) / math.sqrt(2 * math.pi)
            total += (high - low) / 2 * float(weights @ (function(v) * density))
        u = function(np.array([math.sqrt(q) * a]))[0]
        return float(u) * total * math.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)

    halves = [
        scipy.integrate.quad(inner, *limits, epsabs=1e-11, epsrel=1e-11, limit=200)[0]
        for limits in ((-9, 0), (0, 9))
    ]
    return sum(halves)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("q", "q2", "theta"), [(1.0, 1.0, 0.7), (0.5, 2.0, 2.0)])
def test_duals_are_the_gaussian_integrals(name, q, q2, theta):
    sigma = activations.get(name)
    variances, variances2 = np.array([q]), np.array([q2])
    angle = np.array([[theta]])
    w = 2 * np.sin(angle / 2) ** 2
    found = duals.dual(sigma, w, angle, variances, variances2)
    norms = math.sqrt(
        duals.variances_after(sigma, variances)[0] * duals.variances_after(sigma, variances2)[0]
    )
    covariance = norms * (1 - found.radial - w * found.fall).item() / sigma.gain**2
    slope = (1 - found.loss).item() / sigma.gain**2
    assert covariance == pytest.approx(integral(sigma.values, q, q2, theta), rel=2e-9, abs=2e-10)
    assert slope == pytest.approx(integral(sigma.slopes, q, q2, theta), rel=2e-9, abs=2e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_stated_error_is_small_and_true(name):
    """A closed form seen through the quadrature differs by no more than is stated."""
    sigma = activations.get(name)
    q = np.linspace(0.5, 2, 6)
    theta = np.linspace(0, math.pi, 36).reshape(6, 6)
    found = duals.quadrature_dual(sigma, theta, q, q)
    assert found.error < 1e-10
    if name in ("relu", "leaky_relu", "erf"):
        w = 2 * np.sin(theta / 2) ** 2
        closed = duals.dual(sigma, w, theta, q, q)
        away = w > 0
        np.testing.assert_allclose(
            (w * found.fall)[away], (w * closed.fall)[away], rtol=0, atol=1e-10
        )
        np.testing.assert_allclose(found.loss, closed.loss, rtol=0, atol=1e-10)


def test_an_error_that_is_not_small_is_stated():
    """tanh of preactivations of variance 1e4 is nearly a step, which the tables do not resolve."""
    q = np.array([5e3, 1e4])
    found = duals.quadrature_dual(activations.get("tanh"), np.array([[0.5, 1.0]] * 2), q, q)
    assert found.error > 1e-10


@pytest.mark.parametrize("theta", [1e-8, 1e-4])
def test_small_angles_keep_their_relative_precision(theta):
    """For equal norms 1 - cos θ' is w E σ'² q / E σ² to first order, however small w is."""
    sigma = activations.get("tanh")
    z, weights = activations.gaussian_rule()
    expected = (weights @ sigma.slopes(z) ** 2) / (weights @ sigma.values(z) ** 2)
    found = duals.quadrature_dual(sigma, np.array([[theta]]), np.ones(1), np.ones(1))
    assert found.fall.item() == pytest.approx(expected, rel=1e-6)
    assert found.radial.item() < 1e-15


def test_a_registered_copy_goes_by_quadrature_and_agrees():
    sigma = replace(activations.get("relu"), name="anonymous", negative_slope=None)
    theta = np.array([[0.0, 1e-3], [0.4, 3.0]])
    q = np.array([0.5, 3.0])
    w = 2 * np.sin(theta / 2) ** 2
    by_table = duals.dual(sigma, w, theta, q, q)
    closed = duals.dual(activations.get("relu"), w, theta, q, q)
    np.testing.assert_allclose(by_table.loss, closed.loss, rtol=0, atol=1e-11)
    np.testing.assert_allclose(w * by_table.fall, w * closed.fall, rtol=1e-9, atol=1e-14)
