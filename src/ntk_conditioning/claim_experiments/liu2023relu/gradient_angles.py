"""Model gradient angles of infinite width: Figure 1, Theorem 4.5, Remark 4.6 and Section 7."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.theory import liu2023relu as theory

Array = NDArray[np.float64]

GRID = np.radians(np.linspace(0.05, 179.95, 3599))
SMALL = (1e-3, 1e-5, 1e-7)
DEEP = (100, 1_000, 10_000)
SAMPLES = 10


def observations(setting: Setting) -> Iterator[Measurement]:
    """Measure up to which input angle Figure 1's observations hold, in degrees."""
    for depth in range(1, max(setting.depths) + 1):
        phi = theory.gradient_angle(GRID, depth)
        for name, other in (("separation_up_to", 0), ("deeper_separates_up_to", depth + 1)):
            yield Measurement(name, _up_to(depth, other), printed=60.0, depth=depth)
        far = math.radians(60) <= GRID
        yield Measurement(
            "far_apart_min", math.degrees(float(phi[far].min())), printed=60.0, depth=depth
        )
        near = math.radians(60) > GRID
        yield Measurement(
            "distance_ratio_min",
            float((np.sin(phi[near] / 2) / np.sin(GRID[near] / 2)).min()),
            depth=depth,
        )


def _up_to(depth: int, other: int) -> float:
    """Return at which input angle (degrees) the order of two depths' gradient angles changes.

    180 if it nowhere does. Depth 0 is the linear network, whose angle is the inputs' own.
    """
    low, high = sorted((depth, other))

    def gain(theta: float) -> float:
        return float(theory.gradient_angle(theta, high) - theory.gradient_angle(theta, low))

    coarse = GRID[::20]
    lost = np.flatnonzero([gain(float(theta)) <= 0 for theta in coarse])
    if not len(lost):
        return 180.0
    if lost[0] == 0:
        return 0.0
    return math.degrees(brentq(gain, coarse[lost[0] - 1], coarse[lost[0]], xtol=1e-12))


def expansion(setting: Setting) -> Iterator[Measurement]:
    """Measure the coefficient of theta in Theorem 4.5, as small angles approach it.

    ``corrected`` is the theorem's L/(2 pi), ``printed`` the L/2 of the last line of its proof.
    """
    for depth in setting.depths:
        for theta in SMALL:
            phi = float(theory.gradient_angle(theta, depth))
            # cos theta - cos phi without cancellation
            difference = 2 * math.sin((phi + theta) / 2) * math.sin((phi - theta) / 2)
            yield Measurement(
                "gradient_cosine_coefficient",
                difference / (theta * math.cos(theta)),
                printed=depth / 2,
                corrected=depth / (2 * math.pi),
                depth=depth,
                at=theta,
            )


def infinite_depth(setting: Setting) -> Iterator[Measurement]:
    """Measure where the gradient angle goes in deep networks, and kappa of equiangular samples.

    Section 7 expects 90 degrees and kappa 1. With theta^(l) ~ 3 pi/l the products of Eq. (10) tend
    to (l/L)³, whose mean is 1/4.
    """
    for depth in DEEP:
        for degrees in (10.0, 60.0, 90.0):
            phi = float(theory.gradient_angle(math.radians(degrees), depth))
            yield Measurement(
                "deep_gradient_angle",
                math.degrees(phi),
                printed=90.0,
                corrected=math.degrees(math.acos(0.25)),
                depth=depth,
                at=degrees,
            )
        cosine = math.cos(float(theory.gradient_angle(math.radians(60.0), depth)))
        kernel = np.full((SAMPLES, SAMPLES), cosine) + (1 - cosine) * np.eye(SAMPLES)
        eigenvalues = np.linalg.eigvalsh(kernel)
        yield Measurement(
            "deep_kappa",
            float(eigenvalues[-1] / eigenvalues[0]),
            printed=1.0,
            corrected=1 + SAMPLES / 3,
            depth=depth,
            n=SAMPLES,
        )
