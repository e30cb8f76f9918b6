"""The dual of piecewise linear activations: single integrals of smooth functions."""

import itertools
import math
from functools import cache

import numpy as np
from scipy import special

from ntk_conditioning.networks.activations import Activation, Array

CUT = 9.0  # where densities are exp(-40) of their largest value
STRIP = 56  # nodes on a strip between two kinks, which is at most 2 CUT wide
TINY = 1e-100  # instead of 0, where a quotient would not be defined; its square is a number

# A piece is linear if σ and σ' say so to this error at these shares of it; the outer ones are cut.
ROUNDING = 1e-12
SHARES = np.linspace(0.001, 0.999, 401)
OUTER = 12.0


@cache
def pieces_of(activation: Activation) -> tuple[Array, Array, Array] | None:
    """Return kinks, slopes and levels of an activation that is linear between 0 and its kinks.

    It is slopes[i] z + levels[i] between kinks[i - 1] and kinks[i], which ascend.

    >>> from ntk_conditioning.networks import activations
    >>> pieces_of(activations.get("leaky_relu-0.5"))
    (array([0.]), array([0.5, 1. ]), array([0., 0.]))
    >>> pieces_of(activations.get("tanh"))
    """
    kinks = np.unique([0.0, *activation.kinks])
    edges = np.array([kinks[0] - OUTER, *kinks, kinks[-1] + OUTER])
    z = edges[:-1, None] + SHARES * np.diff(edges)[:, None]  # (pieces, points)
    values, slopes = activation.values(z), activation.slopes(z)
    nearest = np.arange(len(z)), np.abs(z).argmin(axis=1)  # to 0
    slope, level = slopes[nearest], values[nearest] - slopes[nearest] * z[nearest]
    allowed = ROUNDING * (np.abs(values) + np.abs(level).max())
    linear = np.abs(slopes - slope[:, None]) <= ROUNDING * np.abs(slope).max()
    linear &= np.abs(slope[:, None] * z + level[:, None] - values) <= allowed
    step = np.diff(slope) * kinks + np.diff(level)  # of σ itself
    joined = np.abs(step) <= ROUNDING * (np.abs(slope[1:] * kinks) + np.abs(level).max())
    if not (linear.all() and joined.all()):
        return None
    bends = np.diff(slope) != 0
    kept = np.concatenate([[True], bends])
    return kinks[bends], slope[kept], level[kept]


class PiecewiseLinearDual:
    """A continuous σ that is linear between its kinks k_i, where σ' jumps by c_i; for any norms.

    Let h = k_i/√q and k = k_j/√q' be where two kinks lie for standard normal variables of
    correlation cos θ. By Plackett's (1954) identity the probability that both variables are beyond
    falls with the angle by g_ij(θ) = (1/2π) exp(-(h² - 2hk cos θ + k²) / (2 sin² θ)), hence, with
    g = Σ_ij c_i c_j g_ij,

        E σ'(u)σ'(v) at 0 less that at θ = ∫ g(t) dt,
        E σ(u)σ(v) at 0 less that at θ = √(q q') (w E σ'(√q z)σ'(√q' z) - ∫ (cos t - cos θ) g dt),

    both over t from 0 to θ. At θ = 0, w' and h are half the squared distance between the
    normalised σ(√q z), or σ'(√q z), of one z. So nothing cancels at small angles.
    """

    error = relative_error = 0.0

    def __init__(self, pieces: tuple[Array, Array, Array], q: Array, *, gain: float) -> None:
        self._kinks, self._slopes, self._levels = pieces
        self._root = np.sqrt(q)
        self._h = self._kinks[:, None] / self._root
        square, tail, infinite = np.zeros(len(q)), np.zeros(len(q)), np.full(len(q), np.inf)
        edges = itertools.pairwise([-infinite, *self._h, infinite])
        for slope, level, ends in zip(self._slopes, self._levels, edges, strict=True):
            mass, squares = _moments(*ends, slope * self._root, level)
            square += squares
            tail += slope**2 * mass
        self._norm, self._tail = np.sqrt(square), tail
        self.variances, self.slopes = gain**2 * square, gain**2 * tail

    def cosine_distances(
        self, rows: slice, columns: slice, w: Array, theta: Array
    ) -> tuple[Array, Array]:
        fall, moment = self._falls(rows, columns, w, theta)
        scale = np.outer((self._root / self._norm)[rows], (self._root / self._norm)[columns])
        tails = np.sqrt(np.outer(self._tail[rows], self._tail[columns]))
        values, slopes = self._apart(rows, columns)
        next_w = scale * (w * tails * (1 - slopes) - moment) + values
        return np.maximum(next_w, 0), np.maximum(fall / tails + slopes, 0)

    def _falls(self, rows: slice, columns: slice, w: Array, theta: Array) -> tuple[Array, Array]:
        """Return ∫ g dt and ∫ (cos t - cos θ) g dt."""
        root, root2 = self._root[rows, None], self._root[columns]
        # 1/√q - 1/√q' without cancelling more than q' - q does
        apart = (root2**2 - root**2) / ((root + root2) * root * root2)
        jumps = np.diff(self._slopes)
        fall, moment = np.zeros_like(w), np.zeros_like(w)
        for i, j in itertools.product(range(len(jumps)), repeat=2):
            h, k = self._h[i, rows, None], self._h[j, columns]
            gap = self._kinks[i] * apart if i == j else h - k
            falls, moments = _integrals(h, k, gap, w, theta)
            fall += jumps[i] * jumps[j] * falls
            moment += jumps[i] * jumps[j] * moments
        return fall, moment

    def _apart(self, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Return w' and h at θ = 0."""
        h, k = np.broadcast_arrays(self._h[:, rows, None], self._h[:, None, columns])
        edges = np.sort(np.concatenate([h, k]), axis=0)
        infinite = np.full_like(h[:1], np.inf)
        ends = itertools.pairwise(np.concatenate([-infinite, edges, infinite]))

        def difference(of: Array, i: Array, j: Array, scale: Array) -> Array:
            """Return of[i] · scale - of[j] · scale', right where they are nearly equal."""
            one, two = scale[rows, None], scale[columns]
            parts = of[i] * (one - two), of[i] * one - of[j] * two
            return np.asarray(np.where(i == j, *parts))

        values, slopes = np.zeros_like(h[0]), np.zeros_like(h[0])
        for low, high in ends:
            i, j = ((kinks <= low).sum(axis=0) for kinks in (h, k))  # the piece of either
            steep = difference(self._slopes, i, j, self._root / self._norm)
            level = difference(self._levels, i, j, 1 / self._norm)
            slope = difference(self._slopes, i, j, 1 / np.sqrt(self._tail))
            mass, squares = _moments(low, high, steep, level)
            values += squares / 2
            slopes += slope**2 * mass / 2
        return values, slopes


def _moments(low: Array, high: Array, steep: Array, level: Array | float) -> tuple[Array, Array]:
    """Return P(low < z < high) and the mean of (steep z + level)² there, of a normal z."""
    if np.isinf(low).all():  # by reflection
        return _moments(-high, -low, -steep, level)
    if np.isinf(high).all():
        tail, density = special.ndtr(-low), _density(low)
        squares = steep**2 * (tail + low * density) + 2 * steep * level * density + level**2 * tail
        return tail, squares
    nearest = np.clip(0.0, low, high)  # to 0, where the density is largest
    start = np.maximum(low, nearest - CUT)
    width = np.minimum(high, nearest + CUT) - start
    mass, squares = np.zeros_like(width), np.zeros_like(width)
    for node, weight in zip(*_nodes(STRIP), strict=True):
        z = start + width * node
        share = weight * width * _density(z)
        mass += share
        squares += share * (steep * z + level) ** 2
    return mass, squares


def _integrals(h: Array, k: Array, gap: Array, w: Array, theta: Array) -> tuple[Array, Array]:
    """Return ∫ g(t) dt and ∫ (cos t - cos θ) g(t) dt over t from 0 to θ, ``gap`` = h - k.

    With x = tan(t/2), π g(t) dt is exp(-(h² + k²)/4 - (gap²/x² + (h+k)² x²)/8) dx / (1 + x²). Where
    gap is small, x = gap/4 · sinh y spreads the layer at x = gap.
    """
    total2, gap2 = (h + k) ** 2, gap**2
    end = np.minimum(np.tan(theta / 2), 2 * CUT / np.maximum(np.abs(h + k), TINY))
    grade = np.where(gap != 0, np.minimum(np.abs(gap) / 4, 1), 1)
    top = np.arcsinh(end / grade)
    # enough for 1e-14, as the tests see; layers want more
    order = 12 + 5 * math.ceil(top.max(initial=0)) + (40 if gap.any() else 0)
    fall, moment = np.zeros_like(w), np.zeros_like(w)
    for node, weight in zip(*_nodes(order), strict=True):
        rising = np.exp(top * node)
        x2 = (grade * np.maximum((rising - 1 / rising) / 2, TINY)) ** 2
        part = np.exp((gap2 / x2 + total2 * x2) / -8) * (rising + 1 / rising) / (1 + x2)
        fall += weight / 2 * part
        moment += weight / 2 * part * (w - x2 * (2 - w)) / (1 + x2)
    scale = top * grade * np.exp(-(h * h + k * k) / 4) / math.pi
    return scale * fall, scale * moment


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi))


@cache
def _nodes(order: int) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights in [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2
