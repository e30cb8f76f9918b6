"""Spectra of kernels of random samples on the sphere: a spike, and a free sum of laws.

A kernel f(x · x') with f(1) = 1 of samples that are uniform on the sphere in d dimensions is a sum
over degrees of spherical harmonics, K = Σ_k c_k / N_k Y_k Y_kᵀ, with N_k of them in the columns of
Y_k, f(t) = Σ_k c_k P_k(t) and P_k(1) = 1 (Schoenberg 1942). Degree 0 is the spike. The others are
asymptotically free laws of Marchenko and Pastur with ratios n / N_k (El Karoui 2010, "The spectrum
of kernel random matrices"; Ghorbani, Mei, Misiakiewicz & Montanari 2021, "Linearized two-layers
neural networks in high dimension"), whose R-transforms add: the bulk ends where

    z(g) = 1/g + r + Σ_k c_k / (1 - c_k n g / N_k),   r = 1 - Σ_k c_k,

has z'(g) = 0: with g < 0 below, with g > 0 above. A spike of size s = n c_0 stands at z(1/s) if
1/s is below the upper of these g, and is none otherwise (Benaych-Georges & Nadakuditi 2011).

Gaussian features z_j of variances s_j, scaled to norm 1, have cosines of variance 1/d with an
effective dimension d = 1 / Σ p_j², where p_j = E x_j² is the variance on the sphere. A kernel is
taken to have the weights c_k that it has on a round sphere of that dimension: degree 1 then has the
eigenvalues c_1 p_j, and degree k > 1 has c_k in proportion to the products of k of the s_j (Liang,
Rakhlin & Zhai 2020, "On the multiple descent of minimum-norm interpolants", Section 2). This is an
approximation, better the larger d is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import brentq

from ntk_conditioning.kernels.interpolated_kernels import Distances
from ntk_conditioning.networks.calculus import Array

#: Nodes of the quadrature over the cosine of two samples, and how many degrees there are at most.
NODES, DEGREES = 400, 120
MANY = 1e9  # harmonics of a degree: more are a multiple of the identity, and left out
NOISE = 100 * float(np.finfo(np.float64).eps)  # coefficients below, beside the values, are 0
FLAT = 1e-30  # sizes below, beside the largest, count as none
LARGEST = 1e300  # 1/g that is infinite, but for rounding
ROUNDING = 1e-13  # a lower end below, beside the weights of the bulk, is 0
FACTORS = 12  # products of more variances are a multiple of the identity
STEPS = 200  # between the smallest and the largest logarithm of a variance
RARE = 1e-9  # products that occur less often are of rounding


def harmonics(f: Callable[[Array], Array], d: float) -> tuple[Array, Array]:
    """Return the weights c_k (K,) of a function of 1 - t in ``d`` >= 2 dimensions, and N_k (K,).

    By Gauss's rule for t, the cosine of two random samples (Golub & Welsch 1969).

    >>> weights, counts = harmonics(lambda w: 1 - w, 5)
    >>> weights[:3].round(12).tolist(), counts[:3].round(9).tolist()
    ([0.0, 1.0, 0.0], [1.0, 5.0, 14.0])
    """
    w, polynomials, at_one = _rule(d)
    values = f(w)
    coefficients = polynomials @ values
    coefficients[np.abs(coefficients) < NOISE * np.abs(values).max()] = 0.0
    return coefficients * at_one, at_one**2


@lru_cache(maxsize=256)
def _rule(d: float) -> tuple[Array, Array, Array]:
    """Return nodes 1 - t, and orthonormal polynomials of t times weights there, and at t = 1."""
    k = np.arange(2, NODES, dtype=float)
    beside = np.sqrt(k * (k + d - 3) / ((2 * k + d - 2) * (2 * k + d - 4)))
    beside = np.append(math.sqrt(1 / d), beside)
    t, vectors = eigh_tridiagonal(np.zeros(NODES), beside)
    points, now, before = np.append(t, 1.0), np.ones(NODES + 1), np.zeros(NODES + 1)
    rows: list[Array] = []
    while len(rows) < DEGREES and now[-1] ** 2 <= MANY:
        rows.append(now)
        back = beside[len(rows) - 2] * before  # at first 0
        now, before = (points * now - back) / beside[len(rows) - 1], now
    values = np.array(rows)
    return 1 - np.clip(t, -1, 1), values[:, :-1] * vectors[0] ** 2, values[:, -1]


@dataclass(frozen=True)
class Ends:
    """Where a spectrum is expected: its bulk from ``low`` to ``high``, and ``spikes`` above it."""

    low: float
    high: float
    spikes: tuple[float, ...]

    @property
    def largest(self) -> float:
        """The largest eigenvalue."""
        return self.spikes[0] if self.spikes else self.high


def spectrum(
    weights: ArrayLike, counts: ArrayLike, n: int, *, rest: float = 0, spikes: Sequence[float] = ()
) -> Ends:
    """Return the ends of the spectrum of n samples.

    Parts of the bulk have ``weights`` c (K,) and numbers N (K,) of harmonics in ``counts``;
    ``rest`` is the multiple r of the identity, and ``spikes`` are weights of single directions.

    >>> gram = spectrum([1.0], [400.0], 100)
    >>> round(gram.low, 12), round(gram.high, 12)
    (0.25, 2.25)
    """
    weight = np.maximum(np.asarray(weights, dtype=np.float64), 0)  # below 0 by rounding only
    sizes = n * weight / np.asarray(counts)
    flat = sizes <= FLAT * sizes.max(initial=0)  # like the identity on any scale
    rest += float(weight[flat].sum())
    # in units of the largest: distances of an ordered phase are as small as 1e-200
    unit = float(sizes.max(initial=0)) or 1.0
    weight, sizes, rest = weight[~flat] / unit, sizes[~flat] / unit, rest / unit
    masses = weight * sizes

    def beside(x: float) -> float:  # z - x, of x = 1/g
        return float(rest + (weight * (x / (x - sizes))).sum())

    low, high, last = rest, rest, 0.0
    if len(weight):
        last = 1 + _beyond(masses, 1 - sizes)
        high = last + beside(last)
        if below := _beyond(masses, sizes):
            low = beside(-below) - below
    above = ((n * c, min(n * c, LARGEST * unit) / unit) for c in spikes)
    seen = [float(spike + unit * beside(size)) for spike, size in above if size > last]
    if low < ROUNDING * (weight.sum() + abs(rest)):
        low = 0.0
    return Ends(unit * low, unit * high, tuple(sorted(seen, reverse=True)))


def _beyond(masses: Array, places: Array) -> float:
    """Return y > 0 with Σ m / (y + p)² = 1 for ``masses`` m > 0 (K,) and places p, 0 if none."""

    def excess(y: float) -> float:
        return float((masses / (y + places) ** 2).sum()) - 1

    low, high = max(0.0, float((np.sqrt(masses) - places).max())), 2 * math.sqrt(masses.sum())
    return brentq(excess, low, high, xtol=1e-300, rtol=1e-15) if excess(low) > 0 else low


def uniform(distances: Distances, *, n: int, d: int) -> Ends:
    """Return the ends for samples that are uniform on the sphere."""
    weights, counts = harmonics(distances, d)
    rest, spike = float(weights.sum()), float(1 - weights[0])
    return spectrum(-weights[1:], counts[1:], n, rest=rest, spikes=[spike])


def equicorrelated(distances: Distances, c: float, *, n: int, d: int) -> Ends:
    """Return the ends for x = √c u + √(1-c) z, with a fixed direction u and z uniform beside it.

    Their cosines are c + (1-c) t: those of uniform samples in one dimension less.
    """
    return uniform(lambda w: distances((1 - c) * w), n=n, d=d - 1)


def two_clusters(distances: Distances, c: float, *, n: int, d: int) -> Ends:
    """Return the ends for x = ±√c u + √(1-c) z with random signs.

    The mean of f over both signs of c acts on all samples, half the difference on the products of
    samples and signs; each has harmonics of its own.
    """
    same, counts = harmonics(lambda w: distances((1 - c) * w), d - 1)
    other, _ = harmonics(lambda w: distances(2 * c + (1 - c) * w), d - 1)
    (mean, *means), (half, *halves) = (same + other) / 2, (same - other) / 2
    weights, rest = -np.array([*means, *halves]), float(same.sum())
    return spectrum(weights, np.tile(counts[1:], 2), n, rest=rest, spikes=[1 - mean, -half])


def elliptical(distances: Distances, variances: ArrayLike, *, n: int, c: float = 0.0) -> Ends:
    """Return the ends for x = √c u + √(1-c) z, with a direction u and z of given variances.

    ``variances`` (d,) of the features of z before it is scaled to norm 1 need not sum to 1.

    >>> from ntk_conditioning.kernels.interpolated_kernels import tables
    >>> from ntk_conditioning.networks import activations
    >>> relu = tables(activations.get("relu"), [2])[2]
    >>> round(elliptical(relu, [1.0] * 200, n=100).low / uniform(relu, n=100, d=200).low, 2)
    1.0
    """
    s = np.sort(np.asarray(variances, dtype=np.float64))[::-1]
    p = on_sphere(s)
    expanded, _ = harmonics(lambda w: distances((1 - c) * w), 1 / float(np.square(p).sum()))
    weights = -expanded[1:]  # of f, where 1 - f has been expanded
    first, products = weights[0], _products(tuple(s))
    parts, counts = [first * p[1:]], [np.ones(len(p) - 1)]
    for weight, (values, repeats) in zip(weights[1:], products, strict=False):
        parts.append(weight * values * repeats / (values @ repeats))
        counts.append(repeats)
    rest = float(expanded.sum() + weights[1 + len(products) :].sum())
    # one direction is no band: its eigenvalue stands where a spike does
    spikes = [1 - expanded[0], first * float(p[0])]
    return spectrum(np.concatenate(parts), np.concatenate(counts), n, rest=rest, spikes=spikes)


def power_law(distances: Distances, exponent: float, *, n: int, d: int) -> Ends:
    """Return the ends for Gaussian features of variances j^(-exponent), scaled to norm 1."""
    return elliptical(distances, np.arange(1.0, d + 1) ** -exponent, n=n)


def on_sphere(variances: Array) -> Array:
    """Return E x_j² (d,) of Gaussian features of ``variances`` (d,), divided by their norm.

    E z_j² / |z|² is the integral over t > 0 of s_j / (1 + 2 t s_j) Π_i (1 + 2 t s_i)^(-1/2).

    >>> round(float(on_sphere(np.array([1.0, 1e-12]))[1]), 18)  # √s_j / Σ √s_i in two dimensions
    9.99999000001e-07
    """
    s = variances / variances.sum()
    t = np.exp(np.arange(-40, 90, 0.5))  # by the trapezoidal rule in log t: it falls at both ends
    grown = 1 + 2 * np.outer(t, s)
    mass = t * np.exp(-np.log(grown).sum(axis=1) / 2)
    p = s * (mass @ (1 / grown))
    return np.asarray(p / p.sum())


@lru_cache(maxsize=64)
def _products(variances: tuple[float, ...]) -> list[tuple[Array, Array]]:
    """Return the products of k variances, repetition allowed, and how often each value occurs.

    For k = 2, 3, ... up to `FACTORS`. By Newton's identities k h_k = Σ_i p_i h_(k-i) between power
    sums and complete symmetric polynomials, of measures on a grid of logarithms.
    """
    logs = np.log(variances)
    start = float(logs.min())
    step = float(np.ptp(logs)) / STEPS or 1.0
    places = (logs - start) / step
    powers, complete = [np.ones(1)], [np.ones(1)]
    for k in range(1, FACTORS + 1):
        below = np.floor(k * places).astype(int)
        share, power = k * places - below, np.zeros(k * (STEPS + 1) + 1)
        np.add.at(power, below, 1 - share)
        np.add.at(power, below + 1, share)
        powers.append(power)
        terms = [np.convolve(powers[i], complete[k - i]) for i in range(1, k + 1)]
        complete.append(np.sum(terms, axis=0) / k)
    products = []
    for k, counts in enumerate(complete[2:], start=2):
        there = counts > RARE
        products.append((np.exp(k * start + step * np.flatnonzero(there)), counts[there]))
    return products
