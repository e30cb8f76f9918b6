"""The function g of Eq. (8): Proposition A.1, Theorem A.2 and Corollary 4.3.

`theory.g` sums 1 - cos, so that these statements can be tried at angles whose cosine
is 1 in floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.theory import liu2023relu as theory

GRID = np.concatenate([np.geomspace(1e-9, 1e-3, 61), np.linspace(1e-3, math.pi, 2001)[1:-1]])
SMALL = (1e-2, 1e-3, 1e-4)
LAYERS = 100_000
STARTS = (0.1, 1.0, 3.0)


def properties(setting: Setting) -> Iterator[Measurement]:
    """Measure what Proposition A.1 and Theorem A.2 say of g and its iterations."""
    values = theory.g(GRID)
    yield Measurement("g_slope_min", float(np.min(np.diff(values) / np.diff(GRID))))
    yield Measurement("g_over_identity_max", float(np.max(values / GRID)))
    yield Measurement("g_at_zero", float(theory.g(0.0)))
    iterates = [np.array(STARTS)]
    for _ in range(4 * max(setting.depths)):
        iterates.append(theory.g(iterates[-1]))
    ratios = np.max(np.array(iterates[1:]) / np.array(iterates[:-1]), axis=0)
    last = theory.embedding_angle(STARTS, LAYERS)
    for at, ratio, angle in zip(STARTS, ratios, last, strict=True):
        yield Measurement("g_iterates_ratio_max", float(ratio), at=at)
        # g(z) = z - z²/(3 pi) makes 1/z grow by 1/(3 pi) a layer
        rate = float(angle) * LAYERS / (3 * math.pi)
        yield Measurement("g_limit_rate", rate, printed=1.0, depth=LAYERS, at=at)


def expansion(setting: Setting) -> Iterator[Measurement]:
    """Measure the coefficient of theta² in Corollary 4.3, as small angles approach it."""
    for depth in setting.depths:
        for theta in SMALL:
            yield Measurement(
                "embedding_angle_coefficient",
                (theta - float(theory.embedding_angle(theta, depth))) / theta**2,
                printed=depth / (3 * math.pi),
                depth=depth,
                at=theta,
            )
