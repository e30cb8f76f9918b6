"""Expectations under N(0, 1), and difference quotients."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Where a derivative is compared with a difference quotient, and how far they may differ. No point
# is where kinks are likely: one that is not declared must not be taken for a wrong derivative.
POINTS = np.linspace(-4.0137, 4.0213, 80)
STEP, TOLERANCE = 1e-5, 1e-3


@lru_cache(maxsize=256)
def gaussian_rule(
    kinks: tuple[float, ...] = (), *, order: int = 24, reach: float = 12.0, halvings: int = 12
) -> tuple[Array, Array]:
    """Return nodes and weights (m,), in float64: Gauss-Legendre on panels that halve towards 0.

    Panels have edges at 0 and ``kinks``, so that steep functions such as tanh(25 z) are smooth on
    each panel [a, 2a]. They end at ``reach``; the density at 12 is 5e-32.
    """
    nodes, weights = np.polynomial.legendre.leggauss(order)
    edges = np.concatenate([[0.0], reach * 2.0 ** np.arange(-halvings, 1)])
    edges = np.union1d(edges, [abs(kink) for kink in kinks if abs(kink) < edges[-1]])
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half * (1 + nodes)).reshape(-1)
    mass = (half * weights).reshape(-1) * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return np.concatenate([-z[::-1], z]), np.concatenate([mass[::-1], mass])


def points_between(kinks: tuple[float, ...]) -> Array:
    """Return the points (m,) for comparing derivatives with difference quotients: not at kinks."""
    apart = np.abs(np.subtract.outer(POINTS, kinks)).min(axis=1, initial=np.inf)
    return np.asarray(POINTS[apart > 2 * STEP])


def wrong_slope(
    z: Array, slopes: Array, values: Callable[[Array], Array]
) -> tuple[float, float, float] | None:
    """Return z, slope and difference quotient where these first disagree, or None if nowhere.

    ``z`` (m,) and ``slopes`` (m,) are in float64; ``values`` is the function that they belong to.
    """
    rise, finer = (  # the finer one for steep activations
        (values(z + step) - values(z - step)) / (2 * step) for step in (STEP, STEP / 10)
    )
    error = np.minimum(np.abs(slopes - rise), np.abs(slopes - finer))
    wrong = np.flatnonzero(error > TOLERANCE * np.maximum(np.abs(rise), 1e-3))
    if not len(wrong):
        return None
    first = wrong[0]
    return float(z[first]), float(slopes[first]), float(rise[first])
