"""Duals of any activation by quadrature in the plane, interpolated over angles and variances."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ntk_conditioning.duals.interpolation import (
    MAX_ANGLES,
    TOLERANCE,
    Angles,
    chebyshev_points,
    coefficients,
    count_needed,
    graded,
    transform,
)
from ntk_conditioning.networks.activations import TOLERATED, Activation, Array, gaussian_rule

# Above this error the user is told.
WARN_ABOVE = 1e-10
ORDERS = (24, 36, 48, 64, 84, 108)  # of the quadrature: the first that the next one confirms
PROBES = np.array([0.02, 0.3, 1.5, 2.8, 3.12])  # angles at which that is seen
# Between these angles h grows a hundredfold if σ has kinks or is steep, and else by up to 1e4.
NEAR, SMOOTH = np.array([1e-3, 0.1]), 2e3
MAX_VARIANCES = 50
RADIUS = 9.0  # of the normal density in the plane, 3e-18 is outside
# Samples are of equal norm if the logarithms of their variances differ by no more, by rounding.
ONE_NORM = 1e-13


def largest_errors(pairs: Iterable[tuple[Array, Array]]) -> tuple[float, float]:
    """Return the largest absolute and relative error of values, each beside what is right.

    They are infinite where one is not a number; no error of 0 is none.

    >>> largest_errors([(np.array([0.0, 5.0]), np.array([0.0, 4.0]))])
    (1.0, 0.25)
    """
    largest = []
    for value, true in pairs:
        error = np.abs(value - true)
        with np.errstate(divide="ignore"):
            ratio = np.divide(error, true, out=np.zeros_like(error), where=error != 0)
        largest.append((error.max(), ratio.max()))
    absolute, relative = np.nan_to_num(largest, nan=math.inf, posinf=math.inf).max(axis=0)
    return float(absolute), float(relative)


class InaccurateDualWarning(UserWarning):
    """Quadrature of an activation did not reach the accuracy that kernels want."""


class QuadratureDual:
    """Any activation that is smooth on both sides of 0, by quadrature and interpolation.

    With N(θ) = E σ'(u)σ'(v) / sqrt(E σ'(u)² E σ'(v)²), and because the derivative of E σ(u)σ(v) by
    θ is -sqrt(q q') sin θ E σ'(u)σ'(v), both w' and h come from N and from expectations at θ = 0
    without cancellation:

        w' = (s - s')² A(s, s') + w r r' B(s, s', θ),   h = (s - s')² C(s, s') + θ^p D(s, s', θ),

    where s = log q, r² = q E σ'(u)² / E σ(u)², B is the mean of N over cosines between cos θ and 1,
    and D = (N(0) - N(θ)) / θ^p with p = 1 if σ has kinks or is steep, else p = 2: so h keeps its
    digits at small angles. A to D are smooth, because the angle is the variable and not its cosine,
    and are interpolated between Chebyshev points of all their arguments.

    The relative errors of ``variances`` and ``slopes`` count as errors of w' and h, which are not a
    number where those of their roots exceed `TOLERATED`.
    """

    def __init__(self, activation: Activation, q: Array) -> None:
        self._activation = activation
        self.variances, self.slopes = _second_moments(activation, q)
        self._s = np.log(q)
        self._ratio = np.sqrt(q * self.slopes / self.variances)
        self._low, self._high = float(self._s.min()), float(self._s.max())
        if self._high - self._low < ONE_NORM:
            self._high = self._low
            self._s = np.full_like(self._s, self._low)
        moments = _moment_error(activation, np.exp([self._low, self._high]))
        self.error = self.relative_error = moments
        self._tabulated = moments / 2 <= TOLERATED  # tables of steeper functions take a minute
        if self._tabulated:
            self._plane = _Plane(activation, math.exp(self._high))
            self._tabulate()
            between = self._measured_errors()
            self.error, self.relative_error = (max(moments, error) for error in between)
        if self.error > WARN_ABOVE:
            away = ", ".join(f"{kink:g}" for kink in activation.kinks if kink)
            cause = f"it has kinks away from 0, at {away}" if away else "it may be steep, or kinked"
            result = f"cosines of its kernel are only right to {self.error:.0e}; {cause}"
            warnings.warn(f"{activation.name}: {result}", InaccurateDualWarning, stacklevel=2)

    def repeated(self, n: int) -> QuadratureDual:
        """Return the dual of ``n`` samples of the norm of this one's, which share its tables."""
        same = copy.copy(self)
        same.variances, same.slopes = np.repeat([self.variances, self.slopes], n, axis=1)
        same._s, same._ratio = np.repeat([self._s, self._ratio], n, axis=1)
        return same

    def cosine_distances(
        self, rows: slice, columns: slice, w: Array, theta: Array
    ) -> tuple[Array, Array]:
        if not self._tabulated:
            return np.full_like(w, np.nan), np.full_like(w, np.nan)
        scale = np.outer(self._ratio[rows], self._ratio[columns])
        return self._interpolate(self._s[rows], self._s[columns], scale, w, theta)

    def _points(self, count: int) -> Array:
        half = (self._high - self._low) / 2
        return self._low + half * (chebyshev_points(count) + 1)

    def _last_angles(self, count: int) -> Array:
        ends = np.unique([self._low, self._high])
        theta = self._plane.angles.points(count)
        return coefficients(self._plane.falls(ends, theta), axes=[0])[-2:]

    def _last_variances(self, count: int) -> Array:
        s = self._points(count)
        at = _Features(self._activation, s)
        products = at.values @ at.values.T, at.slopes @ at.slopes.T
        tables = [*self._plane.falls(s, PROBES), *products]
        return np.stack([coefficients(table)[-1] for table in tables])

    def _tabulate(self) -> None:
        """Set the Chebyshev coefficients of A, C (s, s') and of B, D (θ, s, s')."""
        angles = count_needed(24, MAX_ANGLES, self._last_angles)
        apart = self._low < self._high
        count = count_needed(6, MAX_VARIANCES, self._last_variances) if apart else 1
        s, theta = self._points(count), self._plane.angles.points(angles)
        slopes = _Features(self._activation, s).slopes
        falls = self._plane.falls(s, theta)
        mean = self._plane.mean_over_cosines(theta)
        self._b = coefficients(np.tensordot(mean, slopes @ slopes.T - falls, axes=1))
        near, far = self._plane.falls(s, NEAR)
        self._power = 2 if (far > SMOOTH * near).all() else 1
        self._d = coefficients(falls / theta[:, None, None] ** self._power)
        self._a, self._c = np.zeros((2, 1, 1))
        if apart:  # count × (count + 1) points, where s and s' are nowhere equal
            one, two = (_Features(self._activation, self._points(n)) for n in (count, count + 1))
            gap2 = 2 * (one.s[:, None] - two.s) ** 2
            self._a = coefficients(_squared_distances(one.values, two.values) / gap2)
            self._c = coefficients(_squared_distances(one.slopes, two.slopes) / gap2)

    def _interpolate(
        self, s: Array, s2: Array, scale: Array, w: Array, theta: Array
    ) -> tuple[Array, Array]:
        """Return w' and h for log-variances ``s`` (n,), ``s2`` (n',), and ``scale`` r r'."""
        if self._high == self._low:
            tables = np.stack([self._b.ravel(), self._d.ravel()])
            b, d = self._plane.angles.interpolated(tables, theta)
            return np.maximum(w * scale * b, 0), np.maximum(theta**self._power * d, 0)
        basis, basis2 = self._basis(s), self._basis(s2)
        angles, count, _ = self._b.shape
        left_b, left_d = basis[:, :count] @ self._b, basis[:, :count] @ self._d  # (θ, n, s')
        right = basis2[:, :count].T
        b, d = np.zeros_like(w), np.zeros_like(w)
        # Chebyshev polynomials of the angle, from T_-1 = T_1 on
        before, now = self._plane.angles.position(theta), np.ones_like(theta)
        twice = 2 * before
        for k in range(angles):
            b += (left_b[k] @ right) * now
            d += (left_d[k] @ right) * now
            before, now = now, twice * now - before
        gap2, (rows, columns) = (s[:, None] - s2) ** 2, self._a.shape
        left, right = basis[:, :rows], basis2[:, :columns].T
        radial, radial_slopes = (gap2 * (left @ table @ right) for table in (self._a, self._c))
        # both are squared distances; only rounding makes one negative
        return np.maximum(radial + w * scale * b, 0), np.maximum(
            radial_slopes + theta**self._power * d, 0
        )

    def _basis(self, s: Array) -> Array:
        """Return all Chebyshev polynomials that tables use (n, count) at ``s`` (n,)."""
        x = (2 * s - self._low - self._high) / (self._high - self._low)
        return np.asarray(chebyshev.chebvander(x, self._a.shape[1] - 1))

    def _measured_errors(self) -> tuple[float, float]:
        """Return the largest absolute and relative error of w' and h between the table's points."""
        s = np.unique(self._low + (self._high - self._low) * np.array([0.03, 0.41, 0.93]))
        at = _Features(self._activation, s)
        ratio = np.exp(s / 2) * at.slope / at.value
        pairs: list[tuple[Array, Array]] = []
        # steep activations change within 1/√q
        for angle in (min(0.01, math.exp(-self._high / 2)), 0.02, 0.7, 1.9, 3.1):
            theta = np.full((len(s), len(s)), angle)
            w = 2 * np.sin(theta / 2) ** 2
            distances = self._interpolate(s, s, np.outer(ratio, ratio), w, theta)
            pairs += zip(distances, self._plane.cosine_distances(at, angle), strict=True)
        return largest_errors(pairs)


class _Features:
    """Layers at θ = 0: g σ(√q z) and g σ'(√q z), of one z, for log-variances ``s`` (n,).

    ``values`` and ``slopes`` (n, m) are unit rows, whose inner products are cosines; ``value`` and
    ``slope`` (n,) are their norms before, g sqrt(E σ²) and g sqrt(E σ'²).
    """

    def __init__(self, activation: Activation, s: Array) -> None:
        z, weights = gaussian_rule()
        points, scale = np.exp(s / 2)[:, None] * z, activation.gain * np.sqrt(weights)
        values, slopes = scale * activation.values(points), scale * activation.slopes(points)
        self.s = s
        self.value, self.slope = (np.linalg.norm(each, axis=1) for each in (values, slopes))
        self.values, self.slopes = values / self.value[:, None], slopes / self.slope[:, None]


class _Plane:
    """Quadrature over pairs (u, v) of normal variables of angle θ, for variances up to ``q``.

    In polar coordinates u = r cos φ and v = r cos(φ - θ), of variance 1. The plane is cut into the
    four sectors between the lines u = 0 and v = 0, so that functions with a kink at 0 are smooth in
    each. Activations are steep where √q is large: then nodes crowd at those lines and at r = 0, and
    `Angles` at 0 and π, as singularities at a distance of 1/√q want it.
    """

    def __init__(self, activation: Activation, q: float) -> None:
        self._activation = activation
        self._grade = math.log1p(math.sqrt(q)) / 2
        self.angles = Angles(self._grade)
        self._radial_grade = math.log1p(2 * math.sqrt(q))
        at = np.log([q])
        for self._order, finer in itertools.pairwise(ORDERS):
            change = self.falls(at, PROBES) - self.falls(at, PROBES, order=finer)
            if np.abs(change).max() <= TOLERANCE:
                break

    def falls(self, s: Array, theta: Array, *, order: int | None = None) -> Array:
        """Return N(0) - N(θ) (θ, n, n) for all angles and all pairs of log-variances ``s`` (n,).

        This is half the mean product of the two samples' σ'(u) - σ'(v): small angles lose nothing.
        """
        falls = np.empty((len(theta), len(s), len(s)))
        for fall, angle in zip(falls, theta, strict=True):
            u, weights = self._rule(float(angle), order or self._order)
            slopes = np.stack([self._activation.slopes(scale * u) for scale in np.exp(s / 2)])
            changes = slopes - _swapped(slopes)
            weighted, changes = (a.reshape(len(s), -1) for a in (weights * changes, changes))
            fall[:] = weighted @ changes.T / 2
        norms = _second_moments(self._activation, np.exp(s))[1]
        return self._activation.gain**2 * falls / np.sqrt(np.outer(norms, norms))

    def cosine_distances(self, at: _Features, theta: float) -> tuple[Array, Array]:
        """Return w' and h (n, n) at one angle by a finer rule, from squared differences."""
        u, weights = self._rule(theta, math.ceil(1.4 * self._order))
        points = np.multiply.outer(np.exp(at.s / 2), u)
        scale = self._activation.gain * np.sqrt(weights)

        def distances(values: Array, norm: Array) -> Array:
            flat = [(scale * each).reshape(len(norm), -1) for each in (values, _swapped(values))]
            return _squared_distances(*(each / norm[:, None] for each in flat)) / 2

        values, slopes = self._activation.values(points), self._activation.slopes(points)
        return distances(values, at.value), distances(slopes, at.slope)

    def mean_over_cosines(self, theta: Array) -> Array:
        """Return the matrix from f at angles' points to the mean of f over cosines from cos θ to 1.

        The mean is the integral over t in [0, 1] of θ sin(θ t) / (1 - cos θ) f(θ t).
        """
        nodes, weights = _graded_rule(96, self._grade)
        between = theta[:, None] * (nodes + 1) / 2
        density = theta[:, None] * np.sin(between) / (2 * np.sin(theta[:, None] / 2) ** 2)
        basis = chebyshev.chebvander(self.angles.position(between), len(theta) - 1)
        means = np.einsum("kt,ktm->km", density * weights / 2, basis)
        return np.asarray(means @ transform(len(theta)))

    def _rule(self, theta: float, order: int) -> tuple[Array, Array]:
        """Return u and weights, both of shape (sector, φ, sign of r, |r|)."""
        nodes, weights = _graded_rule(order, self._grade)
        same, opposite = (math.pi - theta) / 2, theta / 2  # the sectors by the signs of u and v
        phi = np.stack([theta / 2 + same * nodes, opposite * (nodes + 1) - math.pi / 2])
        width = np.stack([same * weights, opposite * weights])
        nodes, weights = _gauss_legendre(4 * order // 3)
        t, grade = (nodes + 1) / 2, self._radial_grade
        r = RADIUS * np.sinh(grade * t) / math.sinh(grade)
        mass = weights * np.cosh(grade * t) * r * np.exp(-(r**2) / 2)
        u = np.multiply.outer(np.cos(phi), np.stack([r, -r]))
        joint = np.multiply.outer(width, np.stack([mass, mass]))
        return u, joint / joint.sum()


def _swapped(values: Array) -> Array:
    """Return f(v) at the nodes of `_Plane` from f(u), (n, sector, φ, sign, |r|).

    The reflection φ → θ - φ takes u to v and each sector to itself, the one of opposite signs
    together with r → -r.
    """
    return np.stack([values[:, 0, ::-1], values[:, 1, ::-1, ::-1]], axis=1)


@cache
def _gauss_legendre(order: int) -> tuple[Array, Array]:
    """Return nodes and weights in [-1, 1], right to rounding.

    NumPy's weights have relative errors up to 1e-11 near the ends, where steep activations put
    their mass; a Newton step in extended precision, where there is one, mends them.
    """

    def newton(x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        before, polynomial = np.ones_like(x), x
        for k in range(2, order + 1):
            before, polynomial = polynomial, ((2 * k - 1) * x * polynomial - (k - 1) * before) / k
        slope = order * (x * polynomial - before) / (x * x - 1)
        return x - polynomial / slope, slope

    x, _ = newton(np.polynomial.legendre.leggauss(order)[0].astype(np.longdouble))
    _, slope = newton(x)
    weights = 2 / ((1 - x * x) * slope * slope)
    return x.astype(np.float64), weights.astype(np.float64)


def _graded_rule(order: int, grade: float) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes in [-1, 1] moved by `_graded`, and their weights."""
    x, weights = _gauss_legendre(order)
    return graded(x, grade), weights * grade / math.tanh(grade) / np.cosh(grade * x) ** 2


def _second_moments(activation: Activation, q: Array, **options: int) -> Array:
    """Return g² E σ(√q z)² and g² E σ'(√q z)² (2, n) for variances ``q`` (n,)."""
    z, weights = gaussian_rule(**options)
    moments = np.empty((2, len(q)))
    for start in range(0, len(q), 1024):  # bounds the memory
        part = slice(start, start + 1024)
        points = np.sqrt(q[part])[:, None] * z
        moments[0, part] = activation.values(points) ** 2 @ weights
        moments[1, part] = activation.slopes(points) ** 2 @ weights
    return activation.gain**2 * moments


def _moment_error(activation: Activation, q: Array) -> float:
    """Return the largest relative error of `_second_moments`, by a rule that fits steeper σ."""
    halvings = 12 + math.ceil(max(0.0, math.log2(q.max()) / 2))
    finer = _second_moments(activation, q, order=36, halvings=halvings)
    return largest_errors([(_second_moments(activation, q), finer)])[1]


def _squared_distances(rows: Array, rows2: Array) -> Array:
    """Return |r - r'|² (n, n') from the differences themselves."""
    return np.stack([np.sum((rows2 - row) ** 2, axis=1) for row in rows])
