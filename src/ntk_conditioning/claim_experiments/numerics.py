"""What several experiments use: power laws, means and samples."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning.claim_experiments import Array


def exponent(x: ArrayLike, y: ArrayLike) -> float:
    """Return a of y ~ x^a, by least squares on the logarithms.

    >>> round(exponent([1.0, 10.0, 100.0], [5.0, 0.05, 0.0005]), 12)
    -2.0
    """
    slope, _ = np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)
    return float(slope)


def rms(values: ArrayLike) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(np.asarray(values, float)))))


def on_sphere(rng: np.random.Generator, n: int, d: int) -> Array:
    """Return samples (n, d) uniform on the unit sphere."""
    x = rng.standard_normal((n, d))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def second_slopes(slopes: Callable[[Array], Array], z: Array, step: float = 1e-4) -> Array:
    """Return σ''(z) as difference quotients of σ'."""
    return (slopes(z + step) - slopes(z - step)) / (2 * step)
