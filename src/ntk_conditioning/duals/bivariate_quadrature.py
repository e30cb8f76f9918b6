"""Quadrature over normal variables and pairs of them, between kinks of activations."""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.polynomial import chebyshev, legendre

from ntk_conditioning.duals.interpolation import TOLERANCE, Angles, coefficients, graded
from ntk_conditioning.networks.activations import Activation, Array
from ntk_conditioning.networks.calculus import gaussian_rule

ORDERS = (30, 42, 60, 84, 108, 144)  # of the quadrature: the first that the next one confirms
PROBES = np.array([0.02, 0.3, 1.5, 2.8, 3.12])  # angles at which that is seen
RADIUS = 9.0  # of the normal density in the plane, 3e-18 is outside
#: Samples are of equal norm if the logarithms of their variances differ by no more, by rounding.
ONE_NORM = 1e-13


class Features:
    """Unit rows ``values`` and ``slopes`` (n, m) of σ(√q z) and σ'(√q z), for log q ``s`` (n,).

    ``value`` and ``slope`` (n,) are their norms before.
    """

    def __init__(self, activation: Activation, s: Array) -> None:
        z, weights = _rule_between_kinks(activation, np.exp(s))
        points, scale = np.exp(s / 2)[:, None] * z, activation.gain * np.sqrt(weights)
        values, slopes = scale * activation.values(points), scale * activation.slopes(points)
        self.s = s
        self.value, self.slope = (np.linalg.norm(each, axis=1) for each in (values, slopes))
        self.values, self.slopes = values / self.value[:, None], slopes / self.slope[:, None]


class Plane:
    """Quadrature over pairs (u, v) of normal variables of variance 1 and angle θ.

    The plane is cut along u = k and v = k for 0 and every kink k, in units of √q. With independent
    a and b, u = a cos(θ/2) + b sin(θ/2) and v = a cos(θ/2) - b sin(θ/2). For each b the lines cut a
    into panels; b is cut where two of them meet. Beyond a right angle -v takes the place of v.

    Where √q is large, σ is steep: nodes crowd at the edges of panels, and ``angles`` at 0 and π.
    """

    def __init__(self, activation: Activation, q: float, *, kinks: Sequence[float] = ()) -> None:
        """Choose the quadrature's order, for samples of variances up to ``q``."""
        root = math.sqrt(q)
        self._activation, self._root, self._grade = activation, root, math.log1p(root) / 2
        self._kinks = (
            np.unique([0.0, *(kink for kink in kinks if abs(kink) < RADIUS * root)]) / root
        )
        apart = np.abs(np.subtract.outer(self._kinks, [*self._kinks, *-self._kinks]))
        nearest = apart[apart > 0].min(initial=1 / root)
        self.angles = Angles(math.log1p(1 / nearest) / 2)
        for self._order, finer in itertools.pairwise(ORDERS):
            at = np.log([q])
            change = self.falls(at, PROBES) - self.falls(at, PROBES, order=finer)
            if np.abs(change).max() <= TOLERANCE:
                break

    def falls(self, s: Array, theta: Array, *, order: int | None = None) -> Array:
        """Return N(0) - N(θ) (θ, n, n) for angles and pairs of log-variances ``s`` (n,).

        It is half the mean product of the samples' σ'(u) - σ'(v): small angles lose nothing.
        """
        falls = np.empty((len(theta), len(s), len(s)))
        for fall, angle in zip(falls, theta, strict=True):
            u, weights = self._rule(float(angle), order or self._order)
            slopes = np.stack([self._activation.slopes(scale * u) for scale in np.exp(s / 2)])
            changes = slopes - _swapped(slopes)
            weighted, changes = (a.reshape(len(s), -1) for a in (weights * changes, changes))
            fall[:] = weighted @ changes.T / 2
        norms = second_moments(self._activation, np.exp(s))[1]
        return self._activation.gain**2 * falls / np.sqrt(np.outer(norms, norms))

    def cosine_distances(self, at: Features, theta: float) -> tuple[Array, Array]:
        """Return w' and h (n, n) at one angle by a finer rule, from squared differences."""
        u, weights = self._rule(theta, math.ceil(1.4 * self._order))
        points = np.exp(at.s / 2)[:, None, None] * u
        scale = self._activation.gain * np.sqrt(weights)

        def distances(values: Array, norm: Array) -> Array:
            rows, swapped = (
                (scale * each).reshape(len(norm), -1) / norm[:, None]
                for each in (values, _swapped(values))
            )
            return squared_distances(rows, swapped) / 2

        values, slopes = self._activation.values(points), self._activation.slopes(points)
        return distances(values, at.value), distances(slopes, at.slope)

    def _rule(self, theta: float, order: int) -> tuple[Array, Array]:
        """Return u and weights, both of shape (b, a), or (a, b) beyond a right angle."""
        beyond = theta > math.pi / 2
        half = (math.pi - theta if beyond else theta) / 2
        sine, cosine = math.sin(half), math.cos(half)
        u_kinks, v_kinks = self._kinks, -self._kinks if beyond else self._kinks
        crossings = np.unique(np.subtract.outer(u_kinks, v_kinks)) / (2 * sine)
        b, mass = self._panels(crossings[np.abs(crossings) < RADIUS], order)
        across = sine * b[:, None]
        edges = np.concatenate([u_kinks - across, v_kinks + across], axis=1) / cosine
        a, inner = self._panels(edges, order)
        u, joint = cosine * a + across, mass[:, None] * inner
        joint /= joint.sum()
        return (u.T, joint.T) if beyond else (u, joint)

    def _panels(self, edges: Array, order: int) -> tuple[Array, Array]:
        """Return nodes and weights (..., m) of a normal variable, cut at ``edges`` (..., k)."""
        edges = np.sort(np.clip(edges, -RADIUS, RADIUS), axis=-1)
        around = [(0, 0)] * (edges.ndim - 1) + [(1, 1)]
        edges = np.pad(edges, around, constant_values=((-RADIUS, RADIUS),))
        middle, half = (edges[..., 1:] + edges[..., :-1]) / 2, np.diff(edges) / 2
        share = half.reshape(-1, half.shape[-1]).max(axis=0) / RADIUS
        # panels on which activations hardly change have fewer nodes; steep ones change on all
        share *= max(1.0, self._root / 8)
        counts = np.ceil(order * np.minimum(0.25 + 1.5 * share, 1)).astype(int)
        nodes, weights = np.hstack([graded_rule(int(count), self._grade) for count in counts])
        panel = np.repeat(np.arange(len(counts)), counts)
        x = middle[..., panel] + half[..., panel] * nodes
        return x, half[..., panel] * weights * np.exp(-(x**2) / 2)

    def mean_over_cosines(self, theta: Array) -> Array:
        """Return the matrix from f at angles' points to the mean of f over cosines from cos θ to 1.

        The mean is the integral over t in [0, 1] of θ sin(θ t) / (1 - cos θ) f(θ t).
        """
        nodes, weights = graded_rule(96, self._grade)
        between = theta[:, None] * (nodes + 1) / 2
        density = theta[:, None] * np.sin(between) / (2 * np.sin(theta[:, None] / 2) ** 2)
        basis = chebyshev.chebvander(self.angles.position(between), len(theta) - 1)
        means = np.einsum("kt,ktm->km", density * weights / 2, basis)
        return np.asarray(means @ coefficients(np.eye(len(theta)), axes=[0]))


def _swapped(values: Array) -> Array:
    """Return f(v) from f(u), (n, b, a): it is that at -b; beyond a right angle, at -a."""
    return values[:, ::-1]


def graded_rule(order: int, grade: float) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes in [-1, 1] moved towards the ends, and their weights."""
    x, weights = _gauss_legendre(order)
    return graded(x, grade), weights * grade / math.tanh(grade) / np.cosh(grade * x) ** 2


@cache
def _gauss_legendre(order: int) -> tuple[Array, Array]:
    """Return nodes and weights in [-1, 1]: NumPy's weights are off by 1e-11 near the ends."""
    polynomial = np.append(np.zeros(order), 1.0)
    derivative = legendre.legder(polynomial)
    x = legendre.leggauss(order)[0].astype(np.longdouble)
    x -= legendre.legval(x, polynomial) / legendre.legval(x, derivative)
    weights = 2 / ((1 - x * x) * legendre.legval(x, derivative) ** 2)
    return x.astype(np.float64), weights.astype(np.float64)


def second_moments(activation: Activation, q: Array, **options: int) -> Array:
    """Return g² E σ(√q z)² and g² E σ'(√q z)² (2, n) for variances ``q`` (n,)."""
    z, weights = _rule_between_kinks(activation, q, **options)
    moments = np.empty((2, len(q)))
    for start in range(0, len(q), 1024):  # bounds the memory
        part = slice(start, start + 1024)
        points = np.sqrt(q[part])[:, None] * z
        moments[0, part] = activation.values(points) ** 2 @ weights
        moments[1, part] = activation.slopes(points) ** 2 @ weights
    return activation.gain**2 * moments


def _rule_between_kinks(activation: Activation, q: Array, **options: int) -> tuple[Array, Array]:
    """Return nodes z and weights, with edges at the kinks of σ(√q z) if there is but one norm."""
    kinks = activation.kinks if np.ptp(np.log(q)) <= ONE_NORM else ()
    return gaussian_rule(tuple(kink / math.sqrt(q[0]) for kink in kinks), **options)


def squared_distances(rows: Array, rows2: Array) -> Array:
    """Return |r - r'|² (n, n') from differences, by NumPy's sums, which round less than SciPy's."""
    return np.stack([np.sum((rows2 - row) ** 2, axis=1) for row in rows])
