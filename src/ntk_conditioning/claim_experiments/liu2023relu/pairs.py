"""Two samples and a ReLU network of infinite width: Theorem 5.2 and the Eq. (44) of its proof."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
from scipy.optimize import brentq

from ntk_conditioning.claim_experiments import Measurement, Measurements, Setting
from ntk_conditioning.theory import liu2023relu as theory

SMALL = (1e-1, 1e-2, 1e-4, 1e-6)
DEGREES = (10.0, 30.0, 45.0, 60.0, 70.0, 75.0, 80.0, 90.0)
#: Ratio of two samples' norms.
UNEQUAL = 3.0


def kappa(angle: float, depth: int = 0, ratio: float = 1.0) -> float:
    """Return the condition number of two samples' kernel, from their angle and norms' ratio.

    The smaller eigenvalue is the determinant over the larger one: right for tiny angles.
    """
    phi = float(theory.gradient_angle(angle, depth))
    a, b = 1.0, ratio**2
    largest = (a + b + math.hypot(a - b, 2 * ratio * math.cos(phi))) / 2
    return largest**2 / (a * b * math.sin(phi) ** 2)


def two_samples(setting: Setting) -> Measurements:
    """Measure kappa over the Gram matrix's, and over that of one layer less, at many angles."""
    depths = range(1, max(setting.depths) + 1)
    for ratio, name in ((1.0, "pair_kappa"), (UNEQUAL, "pair_kappa_unequal")):
        for at in (*SMALL, *np.radians(DEGREES)):
            values = [kappa(at, depth, ratio) for depth in (0, *depths)]
            for depth in depths:
                row = partial(Measurement, depth=depth, n=2, at=math.degrees(at))
                yield row(f"{name}_over_gram", values[depth] / values[0])
                yield row(f"{name}_step", values[depth] / values[depth - 1])
    ends = math.radians(20), math.radians(89.9)
    for depth in depths:
        flip = brentq(lambda z, k=depth: math.log(kappa(z, k) / kappa(z)), *ends, xtol=1e-12)
        yield Measurement("pair_kappa_flip", math.degrees(flip), depth=depth, n=2)


def eigenvalues(setting: Setting) -> Measurements:
    """Measure the larger eigenvalue of two samples' kernel beside the closed form of Eq. (44a).

    It prints a factor of 1 before the product of the norms' squares where 2 is right.
    """
    b = UNEQUAL**2
    for depth, at in itertools.product(setting.depths, (10.0, 60.0)):
        phi = float(theory.gradient_angle(math.radians(at), depth))
        mixed = UNEQUAL * math.cos(phi)
        largest = np.linalg.eigvalsh([[1.0, mixed], [mixed, b]])[-1]
        printed, right = (
            (1 + b + math.sqrt(1 + b**2 + factor * b * math.cos(2 * phi))) / 2 for factor in (1, 2)
        )
        yield Measurement("pair_lambda_max", largest, printed, right, depth=depth, n=2, at=at)


EXPERIMENTS = (two_samples, eigenvalues)
