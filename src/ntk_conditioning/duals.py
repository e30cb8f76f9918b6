"""Dual activations: how the angle between two samples changes in a layer of infinite width.

For u, v jointly normal with variances q, q' and angle θ (correlation cos θ), a layer needs

    E σ(u) σ(v)    and    E σ'(u) σ'(v).

Both are carried as functions of the angle itself. What is stored of the first is by how much it
falls from θ = 0 on, E σ(u)σ(v) at 0 less that at θ, divided by 1 - cos θ: that ratio is smooth, is
computed without cancellation, and keeps small angles right to relative precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ntk_conditioning.activations import Activation, gaussian_rule

Array = NDArray[np.float64]

#: Radius up to which the quadrature integrates; the density beyond is below 1e-17.
RADIUS = 9.0
#: Grids in (angles, variances), tried in turn until the measured error is below the tolerance.
GRIDS = ((48, 16), (96, 24), (192, 32))
TOLERANCE = 1e-11


def sine_deficit(theta: Array) -> Array:
    """Return sin θ - θ cos θ, right to relative precision for small θ too.

    >>> import numpy as np
    >>> float(sine_deficit(np.array([1e-5]))[0] * 3e15).__round__(9)
    1.0
    """
    squared = theta * theta
    series = (
        theta
        * squared
        / 3
        * (1 - squared / 10 * (1 - squared / 28 * (1 - squared / 54 * (1 - squared / 88))))
    )
    return np.where(theta < 0.3, series, np.sin(theta) - theta * np.cos(theta))


def angle_of(w: Array) -> Array:
    """Return the angle θ with 1 - cos θ = ``w``."""
    return 2 * np.arcsin(np.sqrt(np.clip(w, 0, 2) / 2))


@dataclass(frozen=True)
class Dual:
    """A layer's action on pairs: 1 - cos of the next angle is ``radial`` + w · ``fall``.

    ``loss`` is 1 - gain² E σ'(u)σ'(v), kept as such because for ReLU it is θ/π, however small.
    Arrays are (n, n') or broadcast to it. ``error`` is the largest error of the interpolation of
    E σσ's fall and of E σ'σ', as measured between its nodes, relative to their largest value; it
    is 0 for closed forms.
    """

    fall: Array
    loss: Array
    radial: Array
    error: float


def leaky_relu_dual(w: Array, theta: Array, *, negative_slope: float) -> Dual:
    """Return the dual of a leaky ReLU (Cho & Saul 2009; liu2023relu, Eq. (7) for slope 0).

    With c = (1 - a)² / (1 + a²): cos θ' = cos θ + c (sin θ - θ cos θ) / π, and the derivative's
    dual is 1 - c θ / π. The norms do not enter.
    """
    c = (1 - negative_slope) ** 2 / (1 + negative_slope**2)
    if c == 0:
        return Dual(np.ones_like(w), np.zeros_like(w), np.zeros(()), 0.0)
    deficit = np.divide(sine_deficit(theta), w, out=np.zeros_like(w), where=w > 0)
    return Dual(1 - c * deficit / math.pi, c * theta / math.pi, np.zeros(()), 0.0)


def erf_dual(w: Array, q: Array, q2: Array, *, gain: float) -> Dual:
    """Return the dual of erf (Williams 1997) for variances ``q`` (n,) and ``q2`` (n',).

    E erf(u) erf(v) = (2/π) arcsin a with a = 2 √(q q') cos θ / √((1 + 2q)(1 + 2q')), and
    E erf'(u) erf'(v) = (4/π) / √((1 + 2q)(1 + 2q') - 4 q q' cos² θ).
    """
    product, scale = np.outer(q, q2), np.outer(1 + 2 * q, 1 + 2 * q2)
    top = 2 * np.sqrt(product / scale)
    a = top * (1 - w)
    own, own2 = (np.arcsin(2 * values / (1 + 2 * values)) for values in (q, q2))
    norms = np.sqrt(np.outer(own, own2))
    # arcsin(top) - arcsin(a), without cancellation while cos θ > 0
    sine = top**2 * w * (2 - w) / (top * np.sqrt(1 - a**2) + np.abs(a) * np.sqrt(1 - top**2))
    difference = np.where(a > 0, np.arcsin(np.minimum(sine, 1)), np.arcsin(top) - np.arcsin(a))
    fall = np.divide(difference, w, out=np.zeros_like(w), where=w > 0) / norms
    slope = gain**2 * (4 / math.pi) / np.sqrt(scale - 4 * product * (1 - w) ** 2)
    return Dual(fall, 1 - slope, np.maximum(0, 1 - np.arcsin(top) / norms), 0.0)


def dual(activation: Activation, w: Array, theta: Array, q: Array, q2: Array) -> Dual:
    """Return a layer's action on pairs, in closed form where one is known.

    ``w`` is 1 - cos θ and ``theta`` θ, (n, n'); ``q`` (n,) and ``q2`` (n',) are the variances.
    """
    if activation.negative_slope is not None:
        return leaky_relu_dual(w, theta, negative_slope=activation.negative_slope)
    if activation.name == "erf":
        return erf_dual(w, q, q2, gain=activation.gain)
    return quadrature_dual(activation, theta, q, q2)


def gradient_deficit(deficit: Array, w: Array, loss: Array, layer: int) -> Array:
    """Return l + 1 - P_l from l - P_(l-1), for the normalised NTK P_l = cos θ_l + s_l P_(l-1).

    ``w`` is 1 - cos θ_l, ``loss`` 1 - s_l and ``layer`` l. Every term is positive, so that the
    gradients' angle, with 1 - cos φ = (l + 1 - P_l) / (l + 1), keeps its relative precision.
    """
    return w + deficit + (layer - deficit) * loss


def variances_after(activation: Activation, q: Array) -> Array:
    """Return gain² E σ(u)² for u ~ N(0, q) and each variance q (n,)."""
    if activation.negative_slope is not None:
        return q
    responses = _responses(activation, q)
    return np.asarray(np.einsum("nk,nk->n", responses, responses))


def _responses(activation: Activation, q: Array) -> Array:
    """Return rows (n, k) whose inner products are gain² E σ(√q z) σ(√q' z), the same z."""
    z, weights = gaussian_rule()
    values = activation.values(np.sqrt(q)[:, None] * z)
    return activation.gain * np.sqrt(weights) * values


def quadrature_dual(activation: Activation, theta: Array, q: Array, q2: Array) -> Dual:
    """Return the dual of any activation by Gaussian quadrature and Chebyshev interpolation.

    ``theta`` is (n, n'), the variances ``q`` (n,) and ``q2`` (n',). The result is smooth in
    (log q, log q', θ), so it is tabulated on a tensor grid that is refined until its error, seen
    between the nodes, is below `TOLERANCE` or the last of `GRIDS` is reached.
    """
    both = np.concatenate([q, q2])
    table = _tabulate(activation, float(both.min()), float(both.max()))
    fall, slope = table(theta, q, q2)
    rows, rows2 = _responses(activation, q), _responses(activation, q2)
    norms = np.sqrt(variances_after(activation, q)[:, None] * variances_after(activation, q2))
    radial = np.maximum(0.0, 1 - rows @ rows2.T / norms)
    gain2 = activation.gain**2
    return Dual(gain2 * fall / norms, 1 - gain2 * slope, radial, table.error)


@dataclass(frozen=True)
class _Table:
    """Chebyshev coefficients (2, a, b, k) of E σσ's fall and E σ'σ', in (log q, log q', θ)."""

    coefficients: Array
    low: float
    high: float
    error: float

    def __call__(self, theta: Array, q: Array, q2: Array) -> Array:
        """Return both functions (2, n, n') by Clenshaw's recurrence in θ."""
        basis, basis2 = self._basis(q), self._basis(q2)
        x = 2 * theta / math.pi - 1
        result = np.empty((2, *theta.shape))
        for out, coefficients in zip(result, self.coefficients, strict=True):
            ahead, last = np.zeros_like(theta), np.zeros_like(theta)
            for k in range(coefficients.shape[-1] - 1, -1, -1):
                term: Array | float = coefficients[0, 0, k]
                if len(coefficients) > 1:
                    term = basis @ coefficients[:, :, k] @ basis2.T
                factor = x if k == 0 else 2 * x
                last, ahead = term + factor * last - ahead, last
            out[...] = last
        return result

    def _basis(self, q: Array) -> Array:
        """Return the Chebyshev polynomials (n, a) in log q; only the constant if q is constant."""
        count = self.coefficients.shape[1]
        if count == 1:
            return np.ones((len(q), 1))
        x = 2 * np.log(q / self.low) / math.log(self.high / self.low) - 1
        return np.asarray(chebyshev.chebvander(np.clip(x, -1, 1), count - 1))


@cache
def _tabulate(activation: Activation, low: float, high: float) -> _Table:
    """Return the coarsest table of one activation whose measured error is small enough."""
    constant = math.log(high / low) < 1e-12
    for angles, variances in GRIDS:
        table = _interpolate(activation, low, high, angles, 1 if constant else variances)
        if table.error < TOLERANCE:
            break
    return table


def _interpolate(
    activation: Activation, low: float, high: float, angles: int, variances: int
) -> _Table:
    def in_range(x: Array, a: float, b: float) -> Array:
        return a + (b - a) * (x + 1) / 2

    def tabulated(x_angles: Array, x_variances: Array, *, finer: int) -> Array:
        theta = in_range(x_angles, 0, math.pi)
        q = np.exp(in_range(x_variances, math.log(low), math.log(high)))
        return _integrate(activation, theta, q, nodes=finer)

    x_angles = chebyshev.chebpts1(angles)
    x_variances = chebyshev.chebpts1(variances)
    values = tabulated(x_angles, x_variances, finer=32)
    coefficients = values
    for axis, x in ((1, x_variances), (2, x_variances), (3, x_angles)):
        # the discrete transform; exact for polynomials at Chebyshev points
        transform = np.linalg.inv(chebyshev.chebvander(x, len(x) - 1))
        coefficients = np.moveaxis(np.tensordot(transform, coefficients, axes=(1, axis)), 0, axis)
    table = _Table(coefficients, low, high, 0.0)
    # Between the nodes, by a rule with other nodes: this sees the quadrature's error too.
    between = np.linspace(-0.995, 0.995, 23)
    some = np.linspace(-0.97, 0.97, 5 if variances > 1 else 1)
    truth = tabulated(between, some, finer=44)
    q = np.exp(in_range(some, math.log(low), math.log(high)))
    theta = in_range(between, 0, math.pi)
    found = np.stack([table(np.full((len(q), len(q)), angle), q, q) for angle in theta], axis=-1)
    largest = np.abs(truth).max(axis=(1, 2, 3), keepdims=True)
    error = float(np.max(np.abs(found - truth) / largest))
    return _Table(coefficients, low, high, error)


def _integrate(activation: Activation, theta: Array, q: Array, *, nodes: int) -> Array:
    """Return (2, a, a, k): the fall of E σσ over 1 - cos θ, and E σ'σ', on a grid of (q, q', θ).

    In polar coordinates u = √q r cos φ and v = √q' r cos(φ - θ), with density
    r exp(-r²/2) / 2π. The plane is cut where u or v changes sign, so that in each sector the
    integrand is smooth even if σ has a kink at 0, and Gauss-Legendre converges geometrically.
    """
    gauss, weights = np.polynomial.legendre.leggauss(nodes)
    panels = np.linspace(0, RADIUS, 4)
    half = np.diff(panels)[:, None] / 2
    r = (panels[:-1, None] + half * (gauss + 1)).reshape(-1)
    r_weights = (half * weights).reshape(-1) * r * np.exp(-(r**2) / 2) / (2 * math.pi)
    result = np.empty((2, len(q), len(q), len(theta)))
    for index, angle in enumerate(theta):
        widths = np.array([math.pi - angle, angle, math.pi - angle, angle])
        starts = angle - math.pi / 2 + np.concatenate([[0], np.cumsum(widths)[:-1]])
        phi = (starts[:, None] + widths[:, None] * (gauss + 1) / 2).reshape(-1)
        phi_weights = (widths[:, None] * weights / 2).reshape(-1)
        joint = (phi_weights[:, None] * r_weights).reshape(-1)
        u = (np.cos(phi)[:, None] * r).reshape(-1)
        v = (np.cos(phi - angle)[:, None] * r).reshape(-1)
        scale = np.sqrt(q)[:, None]
        difference = activation.values(scale * u) - activation.values(scale * v)
        result[0, :, :, index] = (
            (joint * difference) @ difference.T / (4 * math.sin(angle / 2) ** 2)
        )
        slopes, slopes2 = activation.slopes(scale * u), activation.slopes(scale * v)
        product = (joint * slopes) @ slopes2.T
        result[1, :, :, index] = (product + product.T) / 2
    return result
