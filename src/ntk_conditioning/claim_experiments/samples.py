"""Samples of numerical experiments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def on_sphere(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float64]:
    """Return samples (n, d) uniform on the unit sphere."""
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x
