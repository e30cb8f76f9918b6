"""Hermite expansions of activations, and how far from affine they are.

With h_k the Hermite polynomials that are orthonormal under N(0, 1), and a_k = E σ(z) h_k(z), the
dual activation of agarwal2021deep (Appendix C) is σ̂(ρ) = Σ a_k² ρ^k, of σ scaled to E σ² = 1: what
one layer of infinite width does to the cosine ρ of two inputs of norm 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial import hermite_e, polynomial
from scipy.special import factorial

from ntk_conditioning.networks.activations import Activation, Array
from ntk_conditioning.networks.calculus import gaussian_rule

ORDERS = (48, 72)  # of quadrature on each panel: the finer counts, their difference is an error
REACH = 24.0  # where the panels end: polynomials of degree 64 grow until 16
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Expansion:
    """The Hermite expansion of a function under N(0, 1).

    ``coefficients`` (k,) are a_0, a_1, …, right to ``errors`` (k,). ``square`` is E σ², ``bend`` is
    E (σ - a_0 - a_1 z)², and ``error`` bounds the errors of `non_linearity` and `non_affinity`.
    """

    coefficients: Array
    errors: Array
    square: float
    bend: float
    error: float = 0.0

    @property
    def non_linearity(self) -> float:
        """μ = 1 - a_1² of the normalised σ (Definition 2): 0 for affine functions, at most 1."""
        return self.bend / (self.bend + float(self.coefficients[1]) ** 2)

    @property
    def non_affinity(self) -> float:
        """μ̃ = 1 - a_0² - a_1² of σ scaled to E σ² = 1 (Definition 29)."""
        return self.bend / self.square

    @property
    def tail(self) -> float:
        """The share of E σ² beyond the last coefficient."""
        return (self.bend - float(np.sum(self.coefficients[2:] ** 2))) / self.square

    def dual(self, rho: Array | float) -> Array:
        """Return Σ a_k² ρ^k, not divided by E σ²."""
        return np.asarray(polynomial.polyval(rho, self.coefficients**2))


def expand(
    function: Callable[[Array], Array], *, kinks: tuple[float, ...] = (), count: int = 65
) -> Expansion:
    """Return the first ``count`` >= 2 coefficients of a function of arrays.

    It is smooth between 0 and ``kinks``, where it may jump. Errors are of quadrature and rounding.

    >>> np.abs(expand(lambda z: z**2 - 1, count=4).coefficients).round(12)
    array([0.        , 0.        , 1.41421356, 0.        ])
    """
    degrees, found = np.arange(count), []
    for order in ORDERS:
        z, weights = gaussian_rule(kinks, order=order, reach=REACH)
        values, polynomials = function(z), hermite_e.hermevander(z, count - 1).T
        terms = weights * values * polynomials / np.sqrt(factorial(degrees))[:, None]
        coefficients = _sums(terms)
        rest = values - coefficients[0] - coefficients[1] * z
        square, bend = _sums(weights * np.square([values, rest])).tolist()
        # of the weights some roundings, of every step of the recurrence two
        rounding = (20 + 2 * degrees) * EPS * np.abs(terms).sum(axis=1)
        found.append(Expansion(coefficients, rounding, square, bend))
    coarse, fine = found
    changes = coarse.non_linearity - fine.non_linearity, coarse.non_affinity - fine.non_affinity
    errors = np.abs(coarse.coefficients - fine.coefficients) + fine.errors
    return replace(fine, errors=errors, error=max(map(abs, changes)) + 8 * EPS)


def expansion(activation: Activation, *, count: int = 65) -> Expansion:
    """Return the Hermite expansion of an activation, without its gain."""
    return expand(activation.values, kinks=activation.kinks, count=count)


def _sums(terms: Array) -> Array:
    """Return the sums (k,) of rows (k, n), without rounding on the way."""
    return np.array([math.fsum(row) for row in terms])
