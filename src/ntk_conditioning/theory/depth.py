"""What one layer and many do to conditioning, read off the dual activation σ̂ with σ̂(1) = 1.

With χ = σ̂'(1) < 1, the ordered phase, all samples become one and kappa grows like χ^-L; with χ > 1,
the chaotic one, they part and kappa tends to 1; with χ = 1 all changes are powers of L (Poole et
al. 2016; Schoenholz et al. 2017; Hayou, Doucet & Rousseau 2019; Xiao, Pennington & Schoenholz
2020, "Disentangling trainability and generalization in deep neural networks").
"""

import math
from typing import Literal

import numpy as np

from ntk_conditioning.duals.closed_forms import dual, pair_cosine_distances
from ntk_conditioning.duals.fixed_points import SLOPE_ONE, fixed_point
from ntk_conditioning.kernels.interpolated_kernels import Distances
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.theory.random_matrix_predictions import Ends, spectrum

#: A cosine distance at which samples are close, and a step of cosines about a right angle.
CLOSE, STEP = 1e-8, 1e-3


def close_gain(activation: Activation, depth: int) -> float | None:
    """Return G_L: after L layers an NTK has distances G_L w of samples at distances w → 0.

    With η = σ̂''(1) / σ̂'(1), the layers l = 1, 2, … and the share s_l of the last layer in the
    diagonal, G_l = s_l χ^l + (1 - s_l) (G_(l-1) + η χ^(l-1)) and G_0 = 1: after one layer
    χ (2 + η) / (1 + χ), which is above 1 where χ + σ̂''(1) > 1. None for activations with kinks:
    they take w to a multiple of √w, and so gain without bound.

    >>> from ntk_conditioning.networks import activations
    >>> close_gain(activations.get("linear"), 3), close_gain(activations.get("relu"), 1)
    (1.0, None)
    """
    layer = dual(activation, np.ones(1))
    w, h = pair_cosine_distances(layer, np.array([CLOSE, 4 * CLOSE]))
    if h[1] < 3 * h[0] and h[0] > 0:  # twice: h is a multiple of the angle
        return None
    chi, eta = w[0] / CLOSE, h[0] / CLOSE
    gain, share = 1.0, 1.0  # the gain over χ^l
    for _ in range(depth):
        share = share / (share + chi)
        gain = share + (1 - share) * (gain + eta) / chi
    with np.errstate(over="ignore"):
        return float(gain * chi**depth)


def far_samples(distances: Distances, *, n: int, d: int) -> Ends:
    """Return the ends for n samples that are uniform on the sphere, n and d large alike.

    K = (f(0) + f''(0) / 2d) 1 1ᵀ + f'(0) X Xᵀ + (1 - f(0) - f'(0)) I up to a vanishing norm (El
    Karoui 2010, Theorem 2.1), for the kernel f = 1 - ``distances``.
    """
    at = distances(np.array([1 - STEP, 1.0, 1 + STEP]))
    mean, slope = 1 - float(at[1]), float(at[2] - at[0]) / (2 * STEP)
    bend = float(2 * at[1] - at[0] - at[2]) / STEP**2
    rest = float(at[1]) - slope  # not 1 - mean - slope, which loses the digits of close samples
    return spectrum([slope], [d], n, rest=rest, spikes=[mean + bend / (2 * d)])


def phase(activation: Activation) -> Literal["ordered", "critical", "chaotic"]:
    """Return the phase of deep networks of an activation with its gain.

    >>> from ntk_conditioning.networks import activations
    >>> [phase(activations.get(name)) for name in ("sigmoid", "relu", "tanh")]
    ['ordered', 'critical', 'chaotic']
    """
    slope = fixed_point(activation).slope_at_one
    if abs(slope - 1) <= SLOPE_ONE:
        return "critical"
    return "ordered" if slope < 1 else "chaotic"


def deep_rate(activation: Activation) -> float | None:
    """Return by how much log kappa changes per layer in deep networks, up to powers of L.

    Ordered: -log χ > 0. Critical: 0. Chaotic: of log (kappa - 1), that is log (σ̂'(0) / χ) if all
    cosines tend to 0, and -log χ if they tend to another fixed point. None if σ̂'(0) is 0, as of
    even activations of mean 0: kappa - 1 then falls faster than exponentially.
    """
    point = fixed_point(activation)
    chi = point.slope_at_one
    if phase(activation) == "chaotic" and point.rho == 0:
        return math.log(point.slope / chi) if point.slope > SLOPE_ONE else None
    return -math.log(chi) if abs(chi - 1) > SLOPE_ONE else 0.0
