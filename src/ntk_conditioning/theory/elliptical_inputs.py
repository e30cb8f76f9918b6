"""Spectra of kernels of samples on the sphere whose directions differ in variance.

Gaussian features z_j of variances s_j, scaled to norm 1, have cosines of variance 1/d with an
effective dimension d = 1 / Σ p_j², where p_j = E x_j² is the variance on the sphere. A kernel f of
the cosine is taken to have the weights c_k that it has on a round sphere of that dimension, see
`random_matrix_predictions`: degree 1 then has the eigenvalues c_1 p_j, and degree k > 1 has c_k in
proportion to the products of k of the s_j (Liang, Rakhlin & Zhai 2020, "On the multiple descent of
minimum-norm interpolants", Section 2). This is an approximation, better the larger d is.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning.kernels.interpolated_kernels import Distances
from ntk_conditioning.networks.calculus import Array
from ntk_conditioning.theory.random_matrix_predictions import Ends, harmonics, spectrum

DEGREES = 12  # products of more variances are a multiple of the identity
STEPS = 200  # between the smallest and the largest logarithm of a variance
RARE = 1e-9  # values that occur less often are of rounding
NODES = 200  # of the integral over the norm


def elliptical(distances: Distances, variances: ArrayLike, *, n: int, c: float = 0.0) -> Ends:
    """Return the ends for x = √c u + √(1-c) z, with a direction u and z of given variances.

    ``variances`` (d,) of the features of z before it is scaled to norm 1 need not sum to 1.

    >>> from ntk_conditioning.kernels.interpolated_kernels import tables
    >>> from ntk_conditioning.theory.random_matrix_predictions import uniform
    >>> from ntk_conditioning.networks import activations
    >>> relu = tables(activations.get("relu"), [2])[2]
    >>> round(elliptical(relu, [1.0] * 200, n=100).kappa / uniform(relu, n=100, d=200).kappa, 2)
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
    return elliptical(distances, tuple(np.arange(1.0, d + 1) ** -exponent), n=n)


def on_sphere(variances: Array) -> Array:
    """Return E x_j² (d,) of Gaussian features of ``variances`` (d,), divided by their norm.

    E z_j² / |z|² is the integral over t > 0 of s_j / (1 + 2 t s_j) Π_i (1 + 2 t s_i)^(-1/2).

    >>> on_sphere(np.array([3.0, 1.0])).round(4).tolist()  # √s_j / Σ √s_i in two dimensions
    [0.634, 0.366]
    """
    s = variances / variances.sum()
    u, weights = np.polynomial.legendre.leggauss(NODES)
    u, weights = (u + 1) / 2, weights / 2
    # t = (u / (1 - u))²: smooth at both ends, where the integrand falls like t^(-1 - d/2)
    t, step = (u / (1 - u)) ** 2, 2 * u / (1 - u) ** 3
    grown = 1 + 2 * np.outer(t, s)
    mass = weights * step * np.exp(-np.log(grown).sum(axis=1) / 2)
    p: Array = s * (mass @ (1 / grown))
    total: float = p.sum()
    return p / total


@lru_cache(maxsize=64)
def _products(variances: tuple[float, ...]) -> list[tuple[Array, Array]]:
    """Return the products of k variances, repetition allowed, and how often each value occurs.

    For k = 2, 3, ... up to `DEGREES`. By Newton's identities k h_k = Σ_i p_i h_(k-i) between power
    sums and complete symmetric polynomials, of measures on a grid of logarithms.
    """
    logs = np.log(variances)
    start = float(logs.min())
    step = float(np.ptp(logs)) / STEPS or 1.0
    places = (logs - start) / step
    powers, complete = [np.ones(1)], [np.ones(1)]
    for k in range(1, DEGREES + 1):
        below = np.floor(k * places).astype(int)
        share, power = k * places - below, np.zeros(k * STEPS + 2)
        np.add.at(power, below, 1 - share)
        np.add.at(power, below + 1, share)
        powers.append(power)
        total = np.zeros(k * (STEPS + 2))
        for i in range(1, k + 1):
            term = np.convolve(powers[i], complete[k - i])
            total[: len(term)] += term
        complete.append(total / k)
    products = []
    for k, counts in enumerate(complete[2:], start=2):
        there = counts > RARE
        products.append((np.exp(k * start + step * np.flatnonzero(there)), counts[there]))
    return products
