"""Two samples and a ReLU network of infinite width: Theorem 5.2 and the Eq. (44) of its proof."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.theory import liu2023relu as theory

SMALL = (1e-1, 1e-2, 1e-4, 1e-6)
DEGREES = (10.0, 30.0, 45.0, 60.0, 70.0, 75.0, 80.0, 90.0)
UNEQUAL = 3.0
"""Ratio of two samples' norms."""


def kappa(angle: float, ratio: float = 1.0) -> float:
    """Return the condition number of two rows' inner products, from their angle and norms' ratio.

    The smaller eigenvalue is the determinant over the larger one, so that it is right for tiny
    angles.
    """
    a, b = 1.0, ratio**2
    largest = (a + b + math.hypot(a - b, 2 * ratio * math.cos(angle))) / 2
    return largest**2 / (a * b * math.sin(angle) ** 2)


def two_samples(setting: Setting) -> Iterator[Measurement]:
    """Measure kappa over the Gram matrix's, and over that of one layer less, at many angles."""
    deepest = max(setting.depths)
    for ratio, name in ((1.0, "pair_kappa"), (UNEQUAL, "pair_kappa_unequal")):
        for at in (*SMALL, *np.radians(DEGREES)):
            values = [
                kappa(float(theory.gradient_angle(at, depth)), ratio)
                for depth in range(deepest + 1)
            ]
            for depth in range(1, deepest + 1):
                degrees = math.degrees(at)
                yield Measurement(
                    f"{name}_over_gram", values[depth] / values[0], depth=depth, n=2, at=degrees
                )
                yield Measurement(
                    f"{name}_step", values[depth] / values[depth - 1], depth=depth, n=2, at=degrees
                )
    for depth in range(1, deepest + 1):
        flip = brentq(
            lambda z, k=depth: math.log(kappa(float(theory.gradient_angle(z, k))) / kappa(z)),
            math.radians(20),
            math.radians(89.9),
            xtol=1e-12,
        )
        yield Measurement("pair_kappa_flip", math.degrees(flip), depth=depth, n=2)


def eigenvalues(setting: Setting) -> Iterator[Measurement]:
    """Measure the larger eigenvalue of two samples' kernel beside the closed form of Eq. (44a)."""
    for depth in setting.depths:
        for degrees in (10.0, 60.0):
            phi = float(theory.gradient_angle(math.radians(degrees), depth))
            mixed = UNEQUAL * math.cos(phi)
            kernel = np.array([[1.0, mixed], [mixed, UNEQUAL**2]])
            yield Measurement(
                "pair_lambda_max",
                float(np.linalg.eigvalsh(kernel)[-1]),
                printed=_equation_44a(phi, factor=1),
                corrected=_equation_44a(phi, factor=2),
                depth=depth,
                n=2,
                at=degrees,
            )


def _equation_44a(phi: float, *, factor: float) -> float:
    """Return lambda_1 of samples of norms 1 and UNEQUAL; the paper prints it with ``factor`` 1."""
    b = UNEQUAL**2
    return (1 + b + math.sqrt(1 + b**2 + factor * b * math.cos(2 * phi))) / 2
