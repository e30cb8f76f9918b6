"""Dual activations: what a layer of infinite width does to the angle between two samples.

Let u and v be jointly normal with variances q, q' and angle θ, that is with covariance
sqrt(q q') cos θ: the pre-activations of two samples. A layer of gain g turns them into embeddings
with inner product g² E σ(u)σ(v), and multiplies the inner product of the gradients below it by
g² E σ'(u)σ'(v). Everything here is in terms of cosine distances, 1 - cos:

    w = 1 - cos θ,   w' = 1 - cos θ' with θ' the angle between the embeddings,
    h = 1 - E σ'(u)σ'(v) / sqrt(E σ'(u)² E σ'(v)²).

A cosine near 1 keeps only half of the digits of its angle; cosine distances keep them all.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np

from ntk_conditioning.duals.bivariate_quadrature import ONE_NORM
from ntk_conditioning.duals.piecewise_linear import PiecewiseLinearDual, pieces_of
from ntk_conditioning.duals.quadrature import QuadratureDual
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.activations import Activation, Array

# Steps of log q by whose multiples tables end: blocks and depths of a dataset share a few.
STEP = 0.25

# Below this variance that of erf at angle 0 comes from its series, which is then right to rounding.
ERF_SERIES_BELOW = 0.2

# Below this angle sin θ - θ cos θ comes from its series, whose first dropped term is then 2e-17
# of the first.
SERIES_BELOW = 0.3


def dual(activation: Activation, q: Array) -> Dual:
    """Return the action of one layer on samples whose embeddings have squared norms ``q`` (n,).

    Its ``variances`` (n,) are those after the layer, g² E σ(√q z)², and ``slopes`` (n,) are
    g² E σ'(√q z)². ``cosine_distances`` returns w' and h of pairs of rows and columns at angles θ.
    ``error`` is the largest error seen in them beyond rounding, infinite where one is not a number,
    and ``relative_error`` the largest relative one.

    The leaky ReLUs and erf have closed forms. Others go by quadrature in the plane, cut at kinks,
    but piecewise linear functions with kinks beside 0 by single integrals where norms differ.
    """
    if activation.negative_slope is not None:
        return LeakyReLUDual(q, negative_slope=activation.negative_slope)
    if activation == activations.get("erf"):
        return ErfDual(q)
    low, high = float(q.min()), float(q.max())
    if 0 < low <= high <= low * (1 + ONE_NORM):
        one = float(f"{low:.15e}")  # samples of equal norm differ in the last bits
        return _tables(activation, one, one).at(np.full(len(q), one))
    if any(activation.kinks) and (pieces := pieces_of(activation)):
        return PiecewiseLinearDual(pieces, q, gain=activation.gain)
    below, above = np.floor(np.log(low) / STEP), np.ceil(np.log(high) / STEP)
    return _tables(activation, math.exp(STEP * below), math.exp(STEP * above)).at(q)


@lru_cache(maxsize=256)
def _tables(activation: Activation, low: float, high: float) -> QuadratureDual:
    """Return the dual of samples whose variances are ``low`` and ``high``."""
    return QuadratureDual(activation, np.unique([low, high]))


def pair_cosine_distances(layer: Dual, w: Array, theta: Array | None = None) -> tuple[Array, Array]:
    """Return w' and h of pairs with 1 - cos θ = ``w``, of any shape, for a dual of one variance.

    ``theta`` is θ, if it is known better than w near 2 tells.

    >>> relu = dual(activations.get("relu"), np.ones(1))
    >>> pair_cosine_distances(relu, np.array([0.0, 1.0]))[0].round(6)
    array([0.     , 0.68169])
    """
    one, flat = slice(0, 1), w.reshape(-1, 1)
    angles = angle_of(flat) if theta is None else theta.reshape(-1, 1)
    after, slopes = layer.cosine_distances(one, one, flat, angles)
    return after.reshape(w.shape), slopes.reshape(w.shape)


def angle_of(cosine_distance: Array) -> Array:
    """Return the angle whose cosine is 1 - ``cosine_distance``."""
    # near 2 only 2 less the distance has digits; rounding may put one a step above it
    nearer = np.minimum(cosine_distance, np.maximum(2 - cosine_distance, 0))
    angle = 2 * np.arcsin(np.sqrt(nearer / 2))
    return np.where(cosine_distance <= 1, angle, np.pi - angle)


class LeakyReLUDual:
    """The leaky ReLU of slope a: with c = (1-a)²/(1+a²), cos θ' = cos θ + c (sin θ - θ cos θ)/π.

    The derivative's dual is 1 - c θ/π. Norms stay as they are and do not enter. For ReLU, c = 1,
    this is liu2023relu, Eq. (7); Cho & Saul (2009, "Kernel methods for deep learning"). It is right
    to rounding at any angle.
    """

    error = relative_error = 0.0

    def __init__(self, q: Array, *, negative_slope: float) -> None:
        self.variances, self.slopes = q, np.ones_like(q)
        self._c = (1 - negative_slope) ** 2 / (1 + negative_slope**2)

    def cosine_distances(
        self, rows: slice, columns: slice, w: Array, theta: Array
    ) -> tuple[Array, Array]:
        difference: Array = np.sin(theta) - theta * (1 - w)  # sin θ - θ cos θ
        small = theta < SERIES_BELOW
        t2 = theta[small] ** 2
        series = 1 - t2 / 10 * (1 - t2 / 28 * (1 - t2 / 54 * (1 - t2 / 88 * (1 - t2 / 130))))
        difference[small] = theta[small] * t2 / 3 * series
        return w - self._c / math.pi * difference, self._c / math.pi * theta


class ErfDual:
    """The error function, for any norms (Williams 1996, "Computing with infinite networks").

    E σ(u)σ(v) = (2/π) asin(2 sqrt(q q') cos θ / sqrt((1 + 2q)(1 + 2q'))),
    E σ'(u)σ'(v) = (4/π) / sqrt((1 + 2q)(1 + 2q') - 4 q q' cos² θ).
    """

    error = relative_error = 0.0

    def __init__(self, q: Array) -> None:
        gain2 = activations.get("erf").gain ** 2
        self._q, self._root = q, np.sqrt(2 * q / (1 + 2 * q))
        self._arc = np.arctan2(2 * q, np.sqrt(1 + 4 * q))
        self.variances = gain2 * 2 / math.pi * self._arc
        self.slopes = gain2 * 4 / math.pi / np.sqrt(1 + 4 * q)

    def cosine_distances(
        self, rows: slice, columns: slice, w: Array, theta: Array
    ) -> tuple[Array, Array]:
        q, q2 = self._q[rows, None], self._q[columns]
        root, root2 = self._root[rows, None], self._root[columns]
        arc, arc2 = self._arc[rows, None], self._arc[columns]
        sine2 = w * (2 - w)
        # at θ = 0, from asin a, asin a' and asin sqrt(a a') by their differences, a = 2q / (1 + 2q)
        middle = root * root2
        total = 1 + 2 * q + 2 * q2
        # √a - √a', which are equal up to rounding where norms are large
        gap = 2 * (q - q2) / ((1 + 2 * q) * (1 + 2 * q2) * (root + root2))
        arc_middle = np.arctan2(2 * np.sqrt(q * q2), np.sqrt(total))
        cosine = np.sqrt(total / ((1 + 2 * q) * (1 + 2 * q2)))
        # the last arguments are cos asin(2q / (1 + 2q))
        above = _arcsine_step(middle, root * gap, cosine, np.sqrt(1 + 4 * q) / (1 + 2 * q))
        below = _arcsine_step(middle, -root2 * gap, cosine, np.sqrt(1 + 4 * q2) / (1 + 2 * q2))
        norm = np.sqrt(arc * arc2)
        radial = (arc_middle * (above + below) + above * below) / (norm * (norm + arc_middle))
        # where norms differ by far, it is that sum which cancels
        radial = np.where(np.maximum(above, below) > arc_middle, 1 - arc_middle / norm, radial)
        # from θ = 0 to θ
        fall = -_arcsine_step(middle, -middle * w, cosine, np.sqrt(cosine**2 + middle**2 * sine2))
        if (small := (q < ERF_SERIES_BELOW) & (q2 < ERF_SERIES_BELOW)).any():
            # above + below has lost its digits; log(arc arc' / arc_middle²) is Σ c_k (a^k - a'^k)²
            logarithm, first = np.zeros_like(middle), gap * (root + root2)
            difference, power = first, np.ones_like(root2)  # a^k - a'^k, a'^(k - 1)
            for coefficient in _log_asin_over_x():
                logarithm += coefficient * difference**2
                power = power * root2**2
                difference = root**2 * difference + power * first
            radial = np.where(small, -np.expm1(-logarithm / 2), radial)
        next_w = np.maximum(radial, 0) + fall / norm
        product = np.sqrt((1 + 4 * q) * (1 + 4 * q2))
        excess = 4 * (q - q2) ** 2 / (total + product) + 4 * q * q2 * sine2
        return next_w, excess / (product + excess + np.sqrt(product) * np.sqrt(product + excess))


@cache
def _log_asin_over_x(terms: int = 20) -> list[float]:
    """Return c_k of log(asin x / x) = Σ c_k x^2k, k >= 1, by n s_n = Σ_k k c_k s_(n-k)."""
    s = [math.comb(2 * k, k) / 4**k / (2 * k + 1) for k in range(terms + 1)]  # of asin x / x
    c = [0.0]
    for n in range(1, terms + 1):
        c.append(s[n] - sum(k * c[k] * s[n - k] for k in range(1, n)) / n)
    return c[1:]


Dual: TypeAlias = LeakyReLUDual | ErfDual | PiecewiseLinearDual | QuadratureDual


def _arcsine_step(x: Array, step: Array, cosine: Array, cosine_after: Array) -> Array:
    """Return asin(x + step) - asin(x), x >= 0, right for small steps; cosine² = 1 - x²."""
    y = x + step
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.arcsin(step * (x + y) / (x * cosine_after + y * cosine))
    far = np.arctan2(y, cosine_after) - np.arctan2(x, cosine)  # right where x or y is almost ±1
    return np.where(y > x / 2, near, far)
