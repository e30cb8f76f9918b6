"""One layer of infinite width as a map of correlations: the paper's σ̂, by `duals`.

It is of gain · σ, so that E σ(z)² = 1 (Eq. (8)), and comes from closed forms or quadrature over
pairs, not from the Hermite series by which the paper argues.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning.claim_experiments import Array
from ntk_conditioning.duals.closed_forms import dual, pair_cosine_distances
from ntk_conditioning.duals.fixed_points import fixed_point
from ntk_conditioning.duals.hermite import expansion
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation


class CorrelationMap:
    """σ̂ of an activation, by name or itself; of samples of norm 1.

    ``a0`` and ``a1`` are E σ(z) and E z σ(z), ``mu`` is the coefficient of non-linearity
    (Definition 2) and ``mu_tilde`` that of non-affinity (Definition 29); ``fixed_point`` is ρ̄ and
    ``slope_at_one`` σ̂'(1) = E σ'(z)².
    """

    def __init__(self, activation: Activation | str) -> None:
        if isinstance(activation, str):
            activation = activations.get(activation)
        self._dual = dual(activation, np.ones(1))
        self.slope_at_one = float(self._dual.slopes[0])
        self.fixed_point = fixed_point(activation).rho
        first = expansion(activation, count=2).coefficients
        self.a0, self.a1 = (activation.gain * float(each) for each in first)
        self.mu = 1 - self.a1**2
        self.mu_tilde = self.mu - self.a0**2

    def cosine_distances(self, w: ArrayLike) -> tuple[Array, Array]:
        """Return 1 - σ̂(ρ) and 1 - σ̂'(ρ)/σ̂'(1) at ρ = 1 - ``w``, right for tiny w too."""
        return pair_cosine_distances(self._dual, np.asarray(w, dtype=np.float64))

    def __call__(self, rho: ArrayLike) -> Array:
        """Return σ̂(ρ)."""
        return self.iterated(rho, 1)

    def slope(self, rho: ArrayLike) -> Array:
        """Return σ̂'(ρ)."""
        return self.slope_at_one * (1 - self.cosine_distances(1 - np.asarray(rho, float))[1])

    def iterated(self, rho: ArrayLike, depth: int) -> Array:
        """Return σ̂^(L)(ρ), the correlations after ``depth`` layers."""
        w = 1 - np.asarray(rho, dtype=np.float64)
        for _ in range(depth):
            w, _ = self.cosine_distances(w)
        return np.asarray(1 - w)


def correlation_of(activation: str, q: ArrayLike, q2: ArrayLike, rho: ArrayLike) -> Array:
    """Return σ̂_c(x, y) over the root of σ̂_c(x, x) σ̂_c(y, y), for any norms and a smooth σ.

    ``q`` and ``q2`` are squared norms and ``rho`` correlations, all (n,). By Gauss and Hermite's
    rule over both variables: right to 1e-9 for squared norms up to 4.
    """
    sigma = activations.get(activation)
    nodes, weights = np.polynomial.hermite_e.hermegauss(90)
    u, v = np.meshgrid(nodes, nodes)
    mass = np.outer(weights, weights) / (2 * np.pi)
    near = mass > 1e-17  # corners that weigh nothing
    u, v, mass = u[near], v[near], mass[near]
    correlations = []
    for first, second, cosine in np.broadcast(q, q2, rho):
        one = sigma.values(np.sqrt(first) * u)
        two = sigma.values(np.sqrt(second) * (cosine * u + np.sqrt(1 - cosine**2) * v))
        squares = (one**2 @ mass) * (two**2 @ mass)
        correlations.append((one * two) @ mass / np.sqrt(squares))
    return np.array(correlations)
