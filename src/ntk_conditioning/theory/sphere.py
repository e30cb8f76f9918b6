"""Random samples on the unit sphere, in the shapes that a map of conditioning needs."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ntk_conditioning.networks.calculus import Array

SHAPES = ("uniform", "equicorrelated", "two_clusters", "power_law")
#: A cosine of two rows of norm 1 is off by no more.
ROUNDING = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Draw:
    """Samples s √c u + √(1-c) z on the sphere, z (n, d) orthogonal to a direction u.

    ``signs`` s (n,) are 1 if they are not given. Distances come from those of the z, so that close
    samples keep their digits.
    """

    z: Array
    c: float = 0.0
    signs: Array | None = None

    @property
    def samples(self) -> Array:
        """The samples, (n, d) without the direction u and (n, d + 1) with it."""
        if self.c == 0:
            return self.z
        signs = np.ones(len(self.z)) if self.signs is None else self.signs
        return np.column_stack([signs * math.sqrt(self.c), math.sqrt(1 - self.c) * self.z])

    @cached_property
    def distances(self) -> Array:
        """1 - x_i · x_j of the pairs i < j, row by row, (n (n-1) / 2,)."""
        pairs = np.triu_indices(len(self.z), 1)
        w = (1 - self.c) * np.maximum(1 - (self.z @ self.z.T)[pairs], 0)
        if self.signs is not None:
            w += self.c * (1 - np.outer(self.signs, self.signs)[pairs])
        return np.asarray(w)

    @property
    def error(self) -> float:
        """A bound on the error of a distance."""
        return ROUNDING * (1 - self.c if self.signs is None else 1.0)


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
    if pairs <= 0:
        return math.inf
    return float(norms.sum() / len(z)) ** 2 * len(z) * (len(z) - 1) / pairs


def draw(shape: str, parameter: float, rng: np.random.Generator, *, n: int, d: int) -> Draw:
    """Return ``n`` samples in ``d`` dimensions, of one of the `SHAPES`.

    ``uniform`` are uniform on the sphere. With c the ``parameter``, ``equicorrelated`` are
    √c u + √(1-c) z, z uniform, so that their cosines are c on average, and ``two_clusters`` the
    same with -u for half of them. ``power_law`` are Gaussian samples of norm 1 whose j-th feature
    has a variance of j^(-parameter).
    """
    tilted = shape in ("equicorrelated", "two_clusters")
    z = rng.standard_normal((n, d - tilted))
    if shape == "power_law":
        z *= np.arange(1.0, d + 1) ** (-parameter / 2)
    signs = np.where(np.arange(n) < n / 2, 1.0, -1.0) if shape == "two_clusters" else None
    return Draw(unit_rows(z), parameter if tilted else 0.0, signs)


def unit_rows(x: Array) -> Array:
    """Return samples (n, d) over their norms."""
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))
