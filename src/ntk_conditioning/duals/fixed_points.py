"""The cosine that two inputs of norm 1 tend to with depth: a fixed point of the dual activation.

The dual σ̂(ρ) = E σ(u)σ(v) / E σ² of u and v with correlation ρ is increasing and convex on [0, 1],
σ̂(1) = 1, and has at most one other fixed point there (agarwal2021deep, Lemmas 31 to 33), to which
cosines converge at the rate of the slope there (Theorem 11).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy  # whose optimize is heavy, and comes with its first use

from ntk_conditioning.duals.closed_forms import dual, pair_cosine_distances
from ntk_conditioning.duals.hermite import expansion
from ntk_conditioning.networks.activations import Activation

# A slope at 1 that is this near to 1 is 1, as of every leaky ReLU.
SLOPE_ONE = 1e-12
# A fixed point below 1 is sought from this cosine distance on: that of ReLU6 is at some 1e-15.
CLOSEST = 1e-30


@dataclass(frozen=True)
class FixedPoint:
    """The smallest fixed point ρ̄ of σ̂ in [0, 1], with σ̂'(ρ̄) and σ̂'(1).

    ``error`` bounds that of ρ̄: the dual's, over 1 - σ̂'(ρ̄); it is 0 where ρ̄ is 0 or 1 for certain.
    """

    rho: float
    error: float
    slope: float
    slope_at_one: float


@cache
def fixed_point(activation: Activation) -> FixedPoint:
    """Return the smallest fixed point: 0 for a mean of 0, and 1 for a slope at 1 of at most 1.

    >>> from ntk_conditioning.networks import activations
    >>> fixed_point(activations.get("relu")).rho, fixed_point(activations.get("erf")).rho
    (1.0, 0.0)
    """
    layer = dual(activation, np.ones(1))

    def pair(w: float) -> list[float]:
        """Return 1 - σ̂(ρ) and 1 - σ̂'(ρ) / σ̂'(1) at ρ = 1 - w."""
        return [value.item() for value in pair_cosine_distances(layer, np.array(w))]

    at_one = float(layer.slopes[0] / layer.variances[0])
    mean = expansion(activation, count=2)
    no_mean = abs(mean.coefficients[0]) <= mean.errors[0]
    if not no_mean and at_one <= 1 + SLOPE_ONE:
        return FixedPoint(1.0, 0.0, at_one, at_one)
    w = 1.0
    if not no_mean and pair(w)[0] < w:  # else rounding hides the mean
        # σ̂ is below the diagonal just under 1, that is for small w, and above it at 0
        w = scipy.optimize.brentq(lambda w: pair(w)[0] / w - 1, CLOSEST, w, xtol=1e-15)
    slope = at_one * (1 - pair(w)[1])
    error = 0.0 if no_mean else (layer.error + np.finfo(np.float64).eps) / abs(1 - slope)
    return FixedPoint(1 - w, float(error), slope, at_one)
