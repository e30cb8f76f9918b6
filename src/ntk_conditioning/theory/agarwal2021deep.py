"""What agarwal2021deep proves of deep networks of infinite width, as functions to compare with.

Agarwal, Awasthi & Kale 2021, "A deep conditioning treatment of neural networks". A normalised
activation has E σ(z) = 0 and E σ(z)² = 1 for z ~ N(0, 1) (Eq. (2)); μ = 1 - (E z σ(z))² in (0, 1]
is its coefficient of non-linearity (Definition 2). Samples have norm 1, and separation δ means

    |x_i · x_j| <= 1 - δ for i != j (Assumption A), or lambda_min(X Xᵀ) >= δ (Assumption B).

Depth L counts hidden layers. The kernel of the top layer, K̄, has a diagonal of ones; bounds on the
NTK are relative to its diagonal. Condition numbers are bounded as excess, kappa - 1. Where a
theorem says nothing, the bound is NaN.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.optimize import brentq

from ntk_conditioning.networks.activations import Array, normrelu_constants
from ntk_conditioning.theory import DomainError


def separating_depth(delta: float, mu: float) -> int:
    """Return L_0(δ), the layers after which correlations are at most 1/2 (before Theorem 3).

    >>> separating_depth(0.5, 1.0), separating_depth(0.01, 1.0)
    (0, 10)
    """
    _check(delta, mu)
    return max(0, math.ceil(math.log(1 / (2 * delta)) / math.log1p(mu / 2)))


def correlation_bound(depth: ArrayLike, delta: float, mu: float, *, ntk: bool = False) -> Array:
    """Return B_μ(L, δ), which bounds |K̄_ij| for i != j: Theorem 3.

    Of the NTK 2 B(L/2, δ), which bounds |Θ_ij| / Θ_11; NaN below 2 L_0: Theorem 5. Under
    Assumption B, 1 less the bound bounds lambda_min from below: Theorems 7 and 9.

    >>> correlation_bound([0, 1, 2], 0.5, 1.0)
    array([0.5  , 0.25 , 0.125])
    """
    first, layers = separating_depth(delta, mu), np.asarray(depth, dtype=np.float64)
    if ntk:
        half = 2 * correlation_bound(layers / 2, delta, mu)
        return np.where(layers >= 2 * first, half, math.nan)
    near = 1 - delta * np.exp(np.minimum(layers, first) * math.log1p(mu / 2))
    far = np.exp(np.maximum(layers - first, 0) * math.log1p(-mu / 2)) / 2
    return np.where(layers <= first, near, far)


def first_depth(n: int, delta: float, mu: float, *, ntk: bool = False) -> int:
    """Return L_1(δ), or L_2(δ) of the NTK: from there on kappa of ``n`` samples is bounded."""
    first, rate = separating_depth(delta, mu), math.log1p(-mu / 2)
    if ntk:
        return math.ceil(-2 * math.log(2 * n) / rate) + 2 * first
    return math.ceil(-math.log(n) / rate) + first


def excess_bound(
    depth: ArrayLike, n: int, delta: float, mu: float, *, ntk: bool = False, proof: bool = False
) -> Array:
    """Return the bound on kappa - 1 under Assumption A, NaN below `first_depth`.

    Corollary 4, or 6 of the NTK, where L/2 - L_2 is printed. With ``proof`` what the proofs give:
    no factor n, and (L - L_2)/2.

    >>> excess_bound([3, 4], 4, 0.5, 1.0)
    array([4., 2.])
    """
    layers, first = np.asarray(depth, dtype=np.float64), first_depth(n, delta, mu, ntk=ntk)
    power, factor = layers - first, 2 if proof else 2 * n
    if ntk:
        power, factor = (power / 2, 2) if proof else (layers / 2 - first, 4 * n)
    return np.where(layers >= first, factor * np.exp(power * math.log1p(-mu / 2)), math.nan)


def excess_bound_b(
    depth: ArrayLike, n: int, delta: float, mu: float, *, ntk: bool = False
) -> Array:
    """Return the bound on kappa - 1 under Assumption B: Corollary 8.

    Corollary 10 of the NTK, NaN below 4 L_0.
    """
    first, layers = separating_depth(delta, mu), np.asarray(depth, dtype=np.float64)
    if not ntk:
        return np.asarray(n / delta * np.exp(-layers * math.log1p(mu / 2)))
    bound = 2 * n / delta * np.exp(-layers / 2 * math.log1p(mu / 2))
    return np.where(layers >= 4 * first, bound, math.nan)


def convergence_depth(delta: float, rho: float, mu: float, dual_at_0: float) -> int:
    """Return L_0 of Lemma 35, from which on correlations approach the fixed point ρ̄ = ``rho``.

    ``mu`` is μ̃, the coefficient of non-affinity (Definition 29), and ``dual_at_0`` (E σ(z))² > 0.
    """
    _check(delta, mu)
    positive = math.ceil(1 / dual_at_0)
    if rho == 1:
        return positive
    descent = math.log((1 - rho) / (2 * delta)) / math.log1p(mu * (1 - rho) / 2)
    return max(math.ceil(descent), positive)


def convergence_bound(
    depth: int, delta: float, *, rho: float, mu: float, slope: float, dual_at_0: float
) -> float:
    """Return the bound on |K̄_ij - ρ̄|; NaN at depths below L_0: Lemma 35.

    A layer's factor on the distance is max {1 - μ̃ (1 - ρ̄)/2, ``slope``}, of the dual's slope at ρ̄;
    of ρ̄ = 1 it is the slope. If that is 1 too, as for ReLU, the bound is ε of Lemma 36: in (0, 1/2)
    with log(2/ε) / -log(1 - εμ̃/2) the depth.
    """
    first = convergence_depth(delta, rho, mu, dual_at_0)
    if depth < first:
        return math.nan
    if slope < 1:
        rate = slope if rho == 1 else max(1 - mu * (1 - rho) / 2, slope)
        return rate ** (depth - first) * (1 + rho) / 2

    def layers_above(epsilon: float) -> float:
        return math.log(2 / epsilon) / -math.log1p(-epsilon * mu / 2) - depth

    if layers_above(0.5) > 0:
        return math.nan
    return float(brentq(layers_above, 1e-300, 0.5, xtol=1e-300, rtol=1e-12))


class NormReLU:
    """NormReLU_c(z) = λ(c) (max(z - c, 0) + b(c)), normalised; ``c`` is the kink (Eq. (4)).

    ``scale`` is λ, ``offset`` b, and ``non_linearity`` μ = 1 - λ² (1 - Φ(c))² (Appendix C.4).

    >>> sigma = NormReLU(-1.5975)
    >>> round(sigma.scale, 4), round(sigma.offset, 4), round(sigma.non_linearity, 4)
    (1.05, -1.6209, 0.0156)
    """

    def __init__(self, c: float) -> None:
        self.c = c
        self.scale, self.offset = normrelu_constants(c)
        self.non_linearity = float(1 - (self.scale * special.ndtr(-c)) ** 2)

    def mean(self, gamma: ArrayLike) -> Array:
        """Return a_0 = E σ(√γ z), Appendix I.1."""
        root = np.sqrt(gamma)
        h = self.c / root
        shifted_relu = root * _density(h) - special.ndtr(-h) * self.c
        return np.asarray(self.scale * (shifted_relu + self.offset))

    def length_map(self, gamma: ArrayLike) -> Array:
        """Return σ̂_l(γ) = E σ(√γ z)², Appendix I.1.

        >>> NormReLU(-1.5975).length_map([0.5, 1.0]).round(5)
        array([0.53999, 1.     ])
        """
        c, b, root = self.c, self.offset, np.sqrt(gamma)
        h = c / root
        square = (c**2 + root**2 - 2 * c * b) * special.ndtr(-h)
        square += (2 * b - c) * root * _density(h) + b**2
        return np.asarray(self.scale**2 * square)

    def length_map_slope(self, gamma: ArrayLike) -> Array:
        """Return the derivative of σ̂_l by γ, Appendix I.1."""
        root = np.sqrt(gamma)
        h = self.c / root
        return np.asarray(self.scale**2 * (special.ndtr(-h) + self.offset / root * _density(h)))

    def bias(self, gamma: ArrayLike) -> Array:
        """Return a_0² / σ̂_l(γ), Appendix I.1."""
        return np.asarray(self.mean(gamma) ** 2 / self.length_map(gamma))


def _density(z: ArrayLike) -> Array:
    return np.asarray(np.exp(-np.square(z) / 2) / math.sqrt(2 * math.pi))


def _check(delta: float, mu: float) -> None:
    if not 0 < mu <= 1:
        raise DomainError(f"μ = {mu:g} is not in (0, 1]; linear activations have 0")
    if not 0 < delta <= 1:
        raise DomainError(f"δ = {delta:g} is not in (0, 1]; samples must differ in direction")
