"""What agarwal2021deep proves of deep networks of infinite width, as functions to compare with.

Agarwal, Awasthi & Kale 2021, "A deep conditioning treatment of neural networks". A normalised
activation has E σ(z) = 0 and E σ(z)² = 1 for z ~ N(0, 1) (Eq. (2)); μ = 1 - (E z σ(z))² in (0, 1]
is its coefficient of non-linearity (Definition 2). Samples have norm 1, and separation δ means

    |x_i · x_j| <= 1 - δ for i != j (Assumption A), or lambda_min(X Xᵀ) >= δ (Assumption B).

Depth L counts hidden layers. The kernel of the top layer, K̄, has a diagonal of ones; bounds on the
NTK are relative to its diagonal. Condition numbers are bounded as excess, kappa - 1, which keeps
its digits. Where a theorem says nothing, the bound is NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.optimize import brentq

from ntk_conditioning.networks.activations import ShiftedReLU, normrelu
from ntk_conditioning.theory import DomainError

Array = NDArray[np.float64]


# --- normalised activations: Section 3 ------------------------------------------------------------


def separating_depth(delta: float, mu: float) -> int:
    """Return L_0(δ), the layers after which correlations are at most 1/2 (before Theorem 3).

    >>> separating_depth(0.5, 1.0), separating_depth(0.01, 1.0)
    (0, 10)
    """
    _check(delta, mu)
    return max(0, math.ceil(math.log(1 / (2 * delta)) / math.log1p(mu / 2)))


def correlation_bound(depth: ArrayLike, delta: float, mu: float) -> Array:
    """Return B_μ(L, δ), which bounds |K̄_ij| for i != j: Theorem 3.

    Under Assumption B, 1 - B bounds lambda_min of K̄ from below: Theorem 7. ``depth`` may be half a
    number of layers, as in Theorem 5.

    >>> correlation_bound([0, 1, 2], 0.5, 1.0)
    array([0.5  , 0.25 , 0.125])
    """
    first = separating_depth(delta, mu)
    layers = _layers(depth)
    near = 1 - delta * np.exp(np.minimum(layers, first) * math.log1p(mu / 2))
    far = np.exp(np.maximum(layers - first, 0) * math.log1p(-mu / 2)) / 2
    return np.where(layers <= first, near, far)


def ntk_correlation_bound(depth: ArrayLike, delta: float, mu: float) -> Array:
    """Return 2 B(L/2, δ), which bounds |Θ_ij| / Θ_11 for i != j; NaN below 2 L_0: Theorem 5.

    Under Assumption B, 1 less it bounds lambda_min of the NTK from below: Theorem 9.
    """
    layers = _layers(depth)
    bound = 2 * correlation_bound(layers / 2, delta, mu)
    return np.where(layers >= 2 * separating_depth(delta, mu), bound, math.nan)


def top_layer_depth(n: int, delta: float, mu: float) -> int:
    """Return L_1(δ), from which on Corollary 4 bounds kappa of K̄ of ``n`` samples."""
    return math.ceil(-math.log(n) / math.log1p(-mu / 2)) + separating_depth(delta, mu)


def ntk_depth(n: int, delta: float, mu: float) -> int:
    """Return L_2(δ), from which on Corollary 6 bounds kappa of the NTK of ``n`` samples."""
    return math.ceil(-2 * math.log(2 * n) / math.log1p(-mu / 2)) + 2 * separating_depth(delta, mu)


def top_layer_excess(depth: ArrayLike, n: int, delta: float, mu: float) -> Array:
    """Return the bound on kappa - 1 of K̄ under Assumption A; NaN below L_1: Corollary 4.

    >>> top_layer_excess([3, 4], 4, 0.5, 1.0)
    array([4., 2.])
    """
    return n * top_layer_excess_of_proof(depth, n, delta, mu)


def top_layer_excess_of_proof(depth: ArrayLike, n: int, delta: float, mu: float) -> Array:
    """Return what the proof of Corollary 4 gives: without the factor n that is printed.

    From L_1 on (n - 1) B(L) is at most half of (1 - μ/2)^(L - L_1), and kappa - 1 four times that.
    """
    layers, first = _layers(depth), top_layer_depth(n, delta, mu)
    return np.where(layers >= first, 2 * np.exp((layers - first) * math.log1p(-mu / 2)), math.nan)


def ntk_excess(depth: ArrayLike, n: int, delta: float, mu: float) -> Array:
    """Return the bound on kappa - 1 of the NTK under Assumption A; NaN below L_2: Corollary 6.

    The exponent is printed, L/2 - L_2.
    """
    layers, first = _layers(depth), ntk_depth(n, delta, mu)
    bound = 4 * n * np.exp((layers / 2 - first) * math.log1p(-mu / 2))
    return np.where(layers >= first, bound, math.nan)


def ntk_excess_of_proof(depth: ArrayLike, n: int, delta: float, mu: float) -> Array:
    """Return what the proof of Corollary 6 gives: 2 (1 - μ/2)^((L - L_2)/2).

    From L_2 on 2 (n - 1) B(L/2) is at most half of that power, and kappa - 1 four times that.
    """
    layers, first = _layers(depth), ntk_depth(n, delta, mu)
    bound = 2 * np.exp((layers - first) / 2 * math.log1p(-mu / 2))
    return np.where(layers >= first, bound, math.nan)


def top_layer_excess_b(depth: ArrayLike, n: int, delta: float, mu: float) -> Array:
    """Return the bound on kappa - 1 of K̄ under Assumption B: Corollary 8."""
    _check(delta, mu)
    return np.asarray(n / delta * np.exp(-_layers(depth) * math.log1p(mu / 2)))


def ntk_excess_b(depth: ArrayLike, n: int, delta: float, mu: float) -> Array:
    """Return that on kappa - 1 of the NTK under Assumption B; NaN below 4 L_0: Corollary 10."""
    layers = _layers(depth)
    bound = 2 * n / delta * np.exp(-layers / 2 * math.log1p(mu / 2))
    return np.where(layers >= 4 * separating_depth(delta, mu), bound, math.nan)


# --- activations whose mean is not zero: Section 3.4, Appendix C.3 --------------------------------


def convergence_depth(delta: float, rho: float, mu: float, dual_at_0: float) -> int:
    """Return L_0 of Lemma 35, from which on correlations approach the fixed point ρ̄ = ``rho``.

    ``mu`` is μ̃, the coefficient of non-affinity (Definition 29), and ``dual_at_0`` (E σ(z))² > 0.
    """
    _check(delta, mu)
    if not (0 <= rho <= 1 and 0 < dual_at_0 <= 1):
        raise DomainError(f"a fixed point {rho:g} and a dual of {dual_at_0:g} at 0 are not in 0…1")
    positive = math.ceil(1 / dual_at_0)
    if rho == 1:
        return positive
    descent = math.log((1 - rho) / (2 * delta)) / math.log1p(mu * (1 - rho) / 2)
    return max(math.ceil(descent), positive)


def convergence_rate(rho: float, mu: float, slope: float) -> float:
    """Return c_σ of Theorem 11: a layer's factor on the distance to ρ̄, where the dual's slope is.

    Lemma 35 prints max {1 - μ̃ (1 - ρ̄)/2, ``slope``}. The first is for correlations above ρ̄; for
    ρ̄ = 1, where there are none, it would be 1, and the bound would say nothing.
    """
    return slope if rho == 1 else max(1 - mu * (1 - rho) / 2, slope)


def convergence_bound(
    depth: ArrayLike, delta: float, *, rho: float, mu: float, slope: float, dual_at_0: float
) -> Array:
    """Return the bound on |K̄_ij - ρ̄|; NaN at depths below L_0: Lemma 35, with `convergence_rate`.

    If the slope at ρ̄ = 1 is 1, as for ReLU, it is ε of Lemma 36: the ε in (0, 1/2) after whose
    depth, log(2/ε) / -log(1 - εμ̃/2) or ⌈1/σ̂(0)⌉ layers, correlations are at least 1 - ε.
    """
    layers = _layers(depth)
    first = convergence_depth(delta, rho, mu, dual_at_0)
    if slope < 1:
        power = convergence_rate(rho, mu, slope) ** np.maximum(layers - first, 0)
        return np.where(layers >= first, power * (1 + rho) / 2, math.nan)
    epsilon = [_slow_bound(each, mu) if each >= first else math.nan for each in layers.flat]
    return np.array(epsilon).reshape(layers.shape)


def _slow_bound(depth: float, mu: float) -> float:
    """Return ε of Lemma 36, or NaN if it would have to be 1/2 or more."""

    def layers(epsilon: float) -> float:
        return math.log(2 / epsilon) / -math.log1p(-epsilon * mu / 2) - depth

    if layers(0.5) > 0:
        return math.nan
    return float(brentq(layers, 1e-300, 0.5, xtol=1e-300, rtol=1e-12))


# --- NormReLU: Section 7, Appendix I.1 ------------------------------------------------------------


@dataclass(frozen=True)
class NormReLU:
    """NormReLU_c(z) = λ(c) (max(z - c, 0) + b(c)), normalised; ``c`` is the kink (Eq. (4)).

    >>> sigma = NormReLU(-1.5975)
    >>> round(sigma.scale, 4), round(sigma.offset, 4), round(sigma.non_linearity, 4)
    (1.05, -1.6209, 0.0156)
    """

    c: float

    @property
    def offset(self) -> float:
        """b(c), Section 7."""
        return self._shifted_relu.offset

    @property
    def scale(self) -> float:
        """λ(c), Section 7."""
        return self._shifted_relu.scale

    @cached_property
    def _shifted_relu(self) -> ShiftedReLU:
        shifted_relu = normrelu(self.c).shifted_relu
        assert shifted_relu is not None
        return shifted_relu

    @property
    def non_linearity(self) -> float:
        """μ = 1 - λ(c)² (1 - Φ(c))², Appendix C.4."""
        return float(1 - (self.scale * special.ndtr(-self.c)) ** 2)

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

    @property
    def rates(self) -> tuple[float, float]:
        """α⁻ = 2 σ̂_l(1/2) - 1 and α⁺ = 1 - σ̂_l'(1), at which norms tend to 1 (Appendix I.1)."""
        return float(2 * self.length_map(0.5) - 1), float(1 - self.length_map_slope(1.0))

    @property
    def unresolved_separation(self) -> float:
        """δ' of Theorem 59, what the biases of all layers add up to at most."""
        below, above = self.rates
        return max(float(self.bias(0.5)) / below, float(self.bias(2.0)) / above)


def _density(z: ArrayLike) -> Array:
    return np.asarray(np.exp(-np.square(z) / 2) / math.sqrt(2 * math.pi))


def _layers(depth: ArrayLike) -> Array:
    layers = np.asarray(depth, dtype=np.float64)
    if (layers < 0).any():
        raise DomainError("a depth is negative; it counts hidden layers")
    return layers


def _check(delta: float, mu: float) -> None:
    if not 0 < mu <= 1:
        raise DomainError(f"μ = {mu:g} is not in (0, 1]; linear activations have 0")
    if not 0 < delta <= 1:
        raise DomainError(f"δ = {delta:g} is not in (0, 1]; samples must differ in direction")
