"""Duals of any activation by quadrature in the plane, interpolated over angles and variances."""

from __future__ import annotations

import copy
import math
import warnings

import numpy as np
from numpy.polynomial import chebyshev

from ntk_conditioning.duals.bivariate_quadrature import (
    ONE_NORM,
    PROBES,
    Features,
    Plane,
    second_moments,
    squared_distances,
)
from ntk_conditioning.duals.interpolation import (
    MAX_ANGLES,
    TOLERANCE,
    chebyshev_points,
    coefficients,
    count_needed,
)
from ntk_conditioning.networks.activations import Activation, Array

# Above this error there is a warning.
WARN_ABOVE = 1e-10
# Between these angles h grows a hundredfold if σ has kinks or is steep, and else by up to 1e4.
NEAR, SMOOTH = np.array([1e-3, 0.1]), 2e3
MAX_VARIANCES = 50
# Where errors are looked for in the range of log-variances: they are largest near the ends.
SEEN_AT = np.array([0.0, 0.01, 0.41, 0.93, 0.985, 1.0])


class InaccurateDualWarning(UserWarning):
    """Quadrature of an activation did not reach the accuracy that kernels want."""


class QuadratureDual:
    """Any activation that is smooth between its kinks, by quadrature and interpolation.

    Between samples of different norms only kinks at 0 are heeded. With N(θ) = E σ'(u)σ'(v) /
    sqrt(E σ'(u)² E σ'(v)²), both w' and h come from N and from expectations at θ = 0 without
    cancellation, as the derivative of E σ(u)σ(v) in θ is -sqrt(q q') sin θ E σ'(u)σ'(v):

        w' = (s - s')² A(s, s') + w r r' B(s, s', θ),   h = (s - s')² C(s, s') + t D(s, s', θ),

    where s = log q, r² = q E σ'(u)² / E σ(u)², B is the mean of N over cosines between cos θ and 1,
    and D = (N(0) - N(θ)) / t with t = θ if σ has kinks or is steep, else t = w: so h keeps its
    digits at small angles. A to D are interpolated between Chebyshev points of their arguments.

    Relative errors of ``variances`` and ``slopes`` count as errors of w' and h.
    """

    def __init__(self, activation: Activation, q: Array) -> None:
        self._activation = activation
        self._place(q)
        self._low, self._high = float(self._s.min()), float(self._s.max())
        self._apart = self._high - self._low >= ONE_NORM
        ends = np.exp([self._low, self._high])
        # of the moments the error is seen by a rule that fits steeper σ
        finer = {"order": 36, "halvings": 12 + math.ceil(max(0.0, math.log2(ends.max()) / 2))}
        of_ends = second_moments(activation, ends), second_moments(activation, ends, **finer)
        moments = _largest_errors(*of_ends)[1]
        kinks = () if self._apart else activation.kinks
        self._plane = Plane(activation, math.exp(self._high), kinks=kinks)
        self._tabulate()
        between = self._measured_errors()
        self.error, self.relative_error = (max(moments, error) for error in between)
        if self.error > WARN_ABOVE:
            result = f"cosines of its kernel are only right to {self.error:.0e}"
            cause = "it is steep, or has kinks that are not declared, or not at 0 and norms differ"
            warnings.warn(f"{activation.name}: {result}; {cause}", InaccurateDualWarning, 2)

    def at(self, q: Array) -> QuadratureDual:
        """Return the dual, on these tables, of samples of variances ``q`` (n,) in their range."""
        other = copy.copy(self)
        other._place(q)
        return other

    def _place(self, q: Array) -> None:
        """Set what differs between samples."""
        different, places = np.unique(q, return_inverse=True)
        self.variances, self.slopes = second_moments(self._activation, different)[:, places]
        self._s = np.log(q)
        self._ratio = np.sqrt(q * self.slopes / self.variances)

    def cosine_distances(
        self, rows: slice, columns: slice, w: Array, theta: Array
    ) -> tuple[Array, Array]:
        scale = np.outer(self._ratio[rows], self._ratio[columns])
        return self._interpolate(self._s[rows], self._s[columns], scale, w, theta)

    def _points(self, count: int) -> Array:
        return self._low + (self._high - self._low) / 2 * (chebyshev_points(count) + 1)

    def _last_angles(self, count: int) -> Array:
        theta = self._plane.angles.points(count)
        falls = self._plane.falls(np.unique([self._low, self._high]), theta)
        return coefficients(falls, axes=[0])[-2:]

    def _last_variances(self, count: int) -> Array:
        s = self._points(count)
        at = Features(self._activation, s)
        products = at.values @ at.values.T, at.slopes @ at.slopes.T
        tables = [*self._plane.falls(s, PROBES), *products]
        return np.stack([coefficients(table)[-1] for table in tables])

    def _tabulate(self) -> None:
        """Set the Chebyshev coefficients of A, C (s, s') and of B, D (θ, s, s')."""
        # what is cut off adds up at the ends of the other arguments
        angles = count_needed(24, MAX_ANGLES, self._last_angles, tolerance=TOLERANCE / 3)
        count = count_needed(6, MAX_VARIANCES, self._last_variances) if self._apart else 1
        s, theta = self._points(count), self._plane.angles.points(angles)
        slopes = Features(self._activation, s).slopes
        falls = self._plane.falls(s, theta)
        mean = self._plane.mean_over_cosines(theta)
        self._b = coefficients(np.tensordot(mean, slopes @ slopes.T - falls, axes=1))
        near, far = self._plane.falls(s, NEAR)
        self._smooth = not any(self._activation.kinks) and bool((far > SMOOTH * near).all())
        over = 2 * np.sin(theta / 2) ** 2 if self._smooth else theta
        self._d = coefficients(falls / over[:, None, None])
        if self._apart:  # count × (count + 1) points, where s and s' are nowhere equal
            one, two = (Features(self._activation, self._points(n)) for n in (count, count + 1))
            gap2 = 2 * (one.s[:, None] - two.s) ** 2
            self._a = coefficients(squared_distances(one.values, two.values) / gap2)
            self._c = coefficients(squared_distances(one.slopes, two.slopes) / gap2)

    def _interpolate(
        self, s: Array, s2: Array, scale: Array, w: Array, theta: Array
    ) -> tuple[Array, Array]:
        """Return w' and h for log-variances ``s`` (n,), ``s2`` (n',), and ``scale`` r r'."""
        t = w if self._smooth else theta
        if not self._apart:
            tables = np.stack([self._b.ravel(), self._d.ravel()])
            b, d = self._plane.angles.interpolated(tables, theta)
            return np.maximum(w * scale * b, 0), np.maximum(t * d, 0)
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
        gap2 = (s[:, None] - s2) ** 2
        radial, radial_slopes = (
            gap2 * (basis[:, :count] @ table @ basis2.T) for table in (self._a, self._c)
        )
        # both are squared distances; only rounding makes one negative
        return np.maximum(radial + w * scale * b, 0), np.maximum(radial_slopes + t * d, 0)

    def _basis(self, s: Array) -> Array:
        """Return all Chebyshev polynomials that tables use (n, count) at ``s`` (n,)."""
        x = (2 * s - self._low - self._high) / (self._high - self._low)
        return np.asarray(chebyshev.chebvander(x, self._a.shape[1] - 1))

    def _measured_errors(self) -> tuple[float, float]:
        """Return the largest absolute and relative error of w' and h between the table's points."""
        s = np.unique(self._low + (self._high - self._low) * SEEN_AT)
        at = Features(self._activation, s)
        ratio = np.exp(s / 2) * at.slope / at.value
        found, expected = [], []
        # steep activations change within 1/√q
        for angle in (min(0.01, math.exp(-self._high / 2)), 0.02, 0.7, 1.9, 3.1):
            theta = np.full((len(s), len(s)), angle)
            w = 2 * np.sin(theta / 2) ** 2
            found.append(self._interpolate(s, s, np.outer(ratio, ratio), w, theta))
            expected.append(self._plane.cosine_distances(at, angle))
        return _largest_errors(np.array(found), np.array(expected))


def _largest_errors(found: Array, expected: Array) -> tuple[float, float]:
    """Return the largest absolute and relative error, infinite where one is not a number."""
    errors = np.abs(found - expected)
    with np.errstate(divide="ignore"):
        ratios = np.divide(errors, expected, out=np.zeros_like(errors), where=errors != 0)
    absolute, relative = np.nan_to_num([errors.max(), ratios.max()], nan=math.inf, posinf=math.inf)
    return float(absolute), float(relative)
