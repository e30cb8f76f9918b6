"""Random samples on the unit sphere, in the shapes that a map of conditioning needs."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def uniform(rng: np.random.Generator, *, n: int, d: int) -> Array:
    """Return samples (n, d) that are uniform on the sphere."""
    return _unit(rng.standard_normal((n, d)))


def equicorrelated(rng: np.random.Generator, *, n: int, d: int, c: float) -> Array:
    """Return samples √c u + √(1-c) z, z uniform at right angles to a direction u.

    Their cosines are c on average. Close samples keep the digits of their differences.
    """
    return _tilted(np.ones(n), uniform(rng, n=n, d=d - 1), c)


def two_clusters(rng: np.random.Generator, *, n: int, d: int, c: float) -> Array:
    """Return samples ±√c u + √(1-c) z, each sign for half of them."""
    return _tilted(np.where(np.arange(n) < n / 2, 1.0, -1.0), uniform(rng, n=n, d=d - 1), c)


def power_law(rng: np.random.Generator, *, n: int, d: int, exponent: float) -> Array:
    """Return Gaussian samples of norm 1, whose j-th feature has a variance of j^(-exponent)."""
    scales = np.arange(1.0, d + 1) ** (-exponent / 2)
    return _unit(rng.standard_normal((n, d)) * scales)


def _tilted(signs: Array, z: Array, c: float) -> Array:
    return np.column_stack([signs * math.sqrt(c), math.sqrt(1 - c) * z])


def _unit(x: Array) -> Array:
    lengths: Array = np.linalg.norm(x, axis=1, keepdims=True)
    return x / lengths


#: The shapes by name. Each takes n, d and, but for uniform, one number more.
SHAPES: dict[str, Callable[..., Array]] = {
    "uniform": uniform,
    "equicorrelated": equicorrelated,
    "two_clusters": two_clusters,
    "power_law": power_law,
}
