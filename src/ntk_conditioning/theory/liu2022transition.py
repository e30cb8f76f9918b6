"""What liu2022transition proves of assemblies of neurons, as functions to compare with.

Liu, Zhu & Belkin 2022, "Transition to linearity of wide neural networks is an emerging property of
assembling weak models". The quadratic term is 1/2 δ^T H(ξ) δ of Eq. (1), at a change δ of the
weights with |δ| <= R. Weights are standard normal at the start and a layer has the factor
1/sqrt(m) of its input's length m before it, Eq. (8).
"""

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning.networks.activations import Activation, Array

REACH, STEP = 24.0, 2.5e-4  # where suprema are looked for: tails of activations are straight beyond


@cache
def slope_bounds(activation: Activation) -> tuple[float, float]:
    """Return sup|σ'| and sup|σ''|, which is infinite if σ has kinks.

    Both are largest values on a grid, σ'' by differences of σ', right up to about `STEP` squared.

    >>> from ntk_conditioning.networks import activations
    >>> [round(bound, 6) for bound in slope_bounds(activations.get("sigmoid"))]
    [0.25, 0.096225]
    """
    steps = round(REACH / STEP)
    slopes = activation.slopes(STEP * np.arange(-steps, steps + 1, dtype=np.float64))
    second = np.abs(slopes[2:] - slopes[:-2]).max() / (2 * STEP)
    return float(np.abs(slopes).max()), math.inf if activation.kinks else float(second)


def assembly_bound(smoothness: float, radius: float, scale: float) -> float:
    """Return βR²/(2 s(m)), the bound of Theorem 1, Eq. (5), for weights v_i of ±1.

    ``smoothness`` is β of the sub-models, or of v_i g_i with other weights; ``scale`` is s(m). The
    bound of Theorem 4 on a pre-activation's term, with sqrt(m) for s(m), is max|w_i| times as
    large: Eq. (19) prints R for R², which is what Eqs. (17) and (18) make. It needs normals that
    are exactly orthogonal, Eq. (18). β is that of σ(z): where z is linear, sup|σ''| |grad z|².
    """
    return smoothness * radius**2 / (2 * scale)


def two_layer_smoothness(activation: Activation, input_norm: float, largest_weight: float) -> float:
    """Return the β of g = u σ(w·x) in (w, u), for |u| <= ``largest_weight``: Eq. (7).

    ``input_norm`` is |x| times the factor before w·x, so |x|/sqrt(d) in Eq. (8): on the span of u
    and the direction of x the Hessian is [[u σ'' c², σ' c], [σ' c, 0]].
    """
    first, second = slope_bounds(activation)
    return float(block_norm(largest_weight * second * input_norm**2, first * input_norm))


def block_norm(bend: ArrayLike, slope: ArrayLike) -> Array:
    """Return the norms of [[bend, slope], [slope, 0]], elementwise."""
    size = np.abs(bend)
    return np.asarray((size + np.hypot(size, np.multiply(2, slope))) / 2)
