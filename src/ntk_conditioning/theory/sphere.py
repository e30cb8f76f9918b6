"""Random samples on the unit sphere, in the shapes that a map of conditioning needs."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

from ntk_conditioning.angles.pairs import require_directions
from ntk_conditioning.networks.calculus import Array

SHAPES = ("uniform", "equicorrelated", "two_clusters", "power_law")
#: A cosine of two rows of norm 1 is off by no more.
ROUNDING = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Draw:
    """Samples on the sphere (n, d), and the distances 1 - x_i · x_j of pairs i < j, row by row.

    ``distances`` (n (n-1) / 2,) are right to ``error``.
    """

    samples: Array
    distances: Array
    error: float


def effective_dimension(x: Array) -> float:
    """Return in how many directions samples (n, d) spread about their mean, at least about 1.

    1 / Σ p_j² with p_j the shares of principal directions in the variance, from pairs of samples: d
    if they are uniform on a sphere.

    >>> x = draw("uniform", 0.0, np.random.default_rng(0), n=4000, d=9).samples
    >>> round(effective_dimension(x), 1)
    9.0
    """
    z = x - x.mean(axis=0)
    norms = np.square(z).sum(axis=1)
    # the smaller of two matrices with one Frobenius norm
    products = z @ z.T if len(z) < z.shape[1] else z.T @ z
    pairs = float(np.square(products).sum() - np.square(norms).sum())
    return float(norms.sum() / len(z)) ** 2 * len(z) * (len(z) - 1) / pairs


def draw(shape: str, parameter: float, rng: np.random.Generator, *, n: int, d: int) -> Draw:
    """Return ``n`` samples in ``d`` dimensions, of one of the `SHAPES`.

    ``uniform`` are uniform on the sphere. With c the ``parameter``, ``equicorrelated`` are
    √c u + √(1-c) z, z uniform, so that their cosines are c on average, and ``two_clusters`` the
    same with -u for half of them. ``power_law`` are Gaussian samples of norm 1 whose j-th feature
    has a variance of j^(-parameter). Distances come from the z: close samples keep their digits.
    """
    tilted = shape in ("equicorrelated", "two_clusters")
    z = rng.standard_normal((n, d - tilted))
    if shape == "power_law":
        z *= np.arange(1.0, d + 1) ** (-parameter / 2)
    beside = over_norms(z)
    if not tilted:
        return beside
    c, signs = parameter, np.ones(n)
    if shape == "two_clusters":
        signs[(n + 1) // 2 :] = -1
    samples = np.column_stack([signs * math.sqrt(c), math.sqrt(1 - c) * beside.samples])
    opposite = pdist(signs[:, None], "hamming")
    distances = (1 - c) * beside.distances + 2 * c * opposite
    return Draw(samples, distances, beside.error * (1.0 if opposite.any() else 1 - c))


def over_norms(x: Array) -> Draw:
    """Return samples (n, d) over their norms."""
    units = unit_rows(x)
    cosines = (units @ units.T)[np.triu_indices(len(x), 1)]
    return Draw(units, np.maximum(1 - cosines, 0), ROUNDING)


def unit_rows(x: Array) -> Array:
    """Return samples (n, d) over their norms; `ZeroRowError` if one is zero."""
    require_directions(x)
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))
