"""The dual of ReLUs whose kink is not at 0: single integrals of positive, smooth functions."""

import itertools
import math
from functools import cache

import numpy as np
from scipy import special

from ntk_conditioning.duals.quadrature import largest_errors
from ntk_conditioning.networks.activations import Array, ShiftedReLU

CUT = 9.0  # where densities are exp(-40) of their largest value
STRIP = 56  # nodes on the strip between two kinks, which is at most 2 CUT wide
TINY = 1e-100  # instead of 0, where a quotient would not be defined; its square is a number
PROBES = np.array([0.02, 0.7, 1.9, 3.1])  # angles at which a finer quadrature is compared
TOGETHER = 2**14  # values of an integrand that are computed at once: they fit the caches


class ShiftedReLUDual:
    """σ(z) = a (max(z - c, 0) + b) with c != 0, for any norms.

    Let h = c/√q and k = c/√q' be where the kinks lie for standard normal variables of correlation
    cos θ, and L(θ) = P(z > h, z' > k), so that E σ'(u)σ'(v) = a² L. By Plackett's (1954) identity
    L falls with the angle by g(θ) = (1/2π) exp(-(h² - 2hk cos θ + k²) / (2 sin² θ)) >= 0, hence

        L(0) - L(θ) = ∫ g(t) dt,
        E σ(u)σ(v) at 0 less that at θ = a² √(q q') (w L(0) - ∫ (cos t - cos θ) g(t) dt),

    both over t from 0 to θ, and nothing cancels at small angles. For h = k the first is twice
    Owen's T function of h and tan(θ/2). What w' and h are at θ = 0, where norms differ, is half the
    squared distance between the normalised σ(√q z), or σ'(√q z), of one z.
    """

    def __init__(self, relu: ShiftedReLU, q: Array, *, gain: float = 1.0) -> None:
        self._root, self._kink, self._offset = np.sqrt(q), relu.kink, relu.offset
        self._h = relu.kink / self._root
        self._tail = special.ndtr(-self._h)
        density = _density(self._h)
        mean = relu.offset + (density - self._h * self._tail) * self._root
        # E max(z - h, 0)² of a normal z is (1 + h²) P(z > h) - h φ(h)
        positive = (1 + self._h * self._h) * self._tail - self._h * density
        square = positive * q + relu.offset * (2 * mean - relu.offset)
        scale2 = (gain * relu.scale) ** 2
        self._norm = np.sqrt(square)
        self.variances, self.slopes = scale2 * square, scale2 * self._tail
        self.error, self.relative_error = self._measured_errors(q)

    def cosine_distances(
        self, rows: slice, columns: slice, w: Array, theta: Array, *, finer: bool = False
    ) -> tuple[Array, Array]:
        root, root2 = self._root[rows, None], self._root[columns]
        h, k = self._h[rows, None], self._h[columns]
        # h - k without cancelling more than q' - q does
        gap = self._kink * (root2**2 - root**2) / ((root + root2) * root * root2)
        fall, moment = _falls(h, k, gap, w, theta, finer=finer)
        norms = np.outer(self._norm[rows], self._norm[columns])
        tails = np.outer(self._tail[rows], self._tail[columns])
        smaller = np.minimum(self._tail[rows, None], self._tail[columns])
        next_w = root * root2 / norms * (w * smaller - moment)
        slope_w = fall / np.sqrt(tails)
        if gap.any():
            values, slopes = self._apart(rows, columns)
            next_w, slope_w = next_w + values, slope_w + slopes
        # sums of positive terms but for w L(0), which is the larger one
        return np.maximum(next_w, 0), slope_w

    def _apart(self, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Return w' and h at θ = 0, where norms differ."""
        h, k = self._h[rows, None], self._h[columns]
        steep, level = self._root / self._norm, 1 / self._norm
        rise = steep[rows, None] - steep[columns]
        change = level[rows, None] - level[columns]
        low, high = np.minimum(h, k), np.maximum(h, k)
        # above both kinks they differ by rise · z + constant, below both by floor
        floor, constant = self._offset * change, (self._offset - self._kink) * change
        tail, density = special.ndtr(-high), _density(high)
        above = rise**2 * (tail + high * density) + 2 * rise * constant * density
        above += constant**2 * tail
        below = floor**2 * special.ndtr(low)
        # between them one of the two rises from its kink
        rising = np.where(h < k, steep[rows, None], -steep[columns])
        start = np.clip(low, -CUT, CUT)
        width = np.clip(high, -CUT, CUT) - start
        nodes, weights = _nodes(STRIP)
        between, mass = np.zeros_like(width), np.zeros_like(width)
        for node, weight in zip(nodes, weights, strict=True):
            z = start + width * node
            share = weight * width * _density(z)
            mass += share
            between += share * (rising * (z - low) + floor) ** 2
        larger, smaller = special.ndtr(-low), tail
        apart = mass / (np.sqrt(larger) * (np.sqrt(larger) + np.sqrt(smaller)))
        return (above + below + between) / 2, apart

    def _measured_errors(self, q: Array) -> tuple[float, float]:
        ends = {int(np.argmin(q)), int(np.argmax(q))}
        pairs: list[tuple[Array, Array]] = []
        for i, j, angle in itertools.product(ends, ends, PROBES):
            at, theta = (slice(i, i + 1), slice(j, j + 1)), np.full((1, 1), angle)
            w = 2 * np.sin(theta / 2) ** 2
            finer = self.cosine_distances(*at, w, theta, finer=True)
            pairs += zip(self.cosine_distances(*at, w, theta), finer, strict=True)
        return largest_errors(pairs)


def _falls(
    h: Array, k: Array, gap: Array, w: Array, theta: Array, *, finer: bool
) -> tuple[Array, Array]:
    """Return ∫ g(t) dt and ∫ (cos t - cos θ) g(t) dt over t from 0 to θ, ``gap`` = h - k.

    With x = tan(t/2), π g(t) dt is exp(-(h² + k²)/4 - (gap²/x² + (h+k)² x²)/8) dx / (1 + x²). Where
    gap is small, x = gap/4 · sinh y spreads the layer at x = gap.
    """
    total, gap = np.abs(h + k), np.abs(gap)
    end = np.minimum(np.tan(theta / 2), 2 * CUT / total)
    grade = np.where(gap > 0, np.minimum(gap / 4, 1), 1)
    top = np.arcsinh(end / grade)
    # enough for 1e-14, as the tests see; layers want more
    order = 12 + 5 * math.ceil(top.max(initial=0)) + (40 if gap.any() else 0)
    fall, moment = np.zeros_like(w), np.zeros_like(w)
    nodes, weights = _nodes(2 * order if finer else order)
    together = max(1, TOGETHER // max(1, w.size))
    for start in range(0, len(nodes), together):
        node, weight = (each[start : start + together, None, None] for each in (nodes, weights))
        sinh = np.maximum(np.sinh(top * node), TINY)
        x2 = (grade * sinh) ** 2
        part = np.exp(-(gap**2 / x2 + total**2 * x2) / 8) * np.sqrt(1 + sinh * sinh)
        part *= weight / (1 + x2)
        fall += part.sum(axis=0)
        moment += (part * (w - x2 * (2 - w)) / (1 + x2)).sum(axis=0)
    scale = top * grade * np.exp(-(h * h + k * k) / 4) / math.pi
    return fall * scale, moment * scale


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi))


@cache
def _nodes(order: int) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights in [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2
