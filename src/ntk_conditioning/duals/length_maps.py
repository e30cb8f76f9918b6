"""What a layer of infinite width does to the squared norm of an input, and to its mean.

With γ the squared norm, σ̂_l(γ) = g² E σ(√γ z)² is the squared norm after the layer of gain g
(agarwal2021deep, Appendix D.1; Poole et al. 2016 call it the length map), and bias(γ), the share of
it that the mean has, is what the cosine of two independent inputs gains (Appendix I.1).
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from ntk_conditioning.networks.activations import Activation, Array
from ntk_conditioning.networks.calculus import gaussian_rule


def length_map(activation: Activation, gamma: ArrayLike) -> Array:
    """Return σ̂_l(γ) = g² E σ(√γ z)², by quadrature, elementwise.

    >>> from ntk_conditioning.networks import activations
    >>> length_map(activations.get("relu"), [0.5, 2.0]).round(12)
    array([0.5, 2. ])
    """
    squares = np.vectorize(lambda q: activation.expectation(np.square, q=q))(gamma)
    return np.asarray(activation.gain**2 * squares)


def length_map_slope(activation: Activation, gamma: ArrayLike) -> Array:
    """Return the derivative of `length_map`, g² E z σ(√γ z) σ'(√γ z) / √γ."""

    def slope(q: float) -> float:
        root = math.sqrt(q)
        z, weights = gaussian_rule(tuple(kink / root for kink in activation.kinks))
        values, slopes = activation.values(root * z), activation.slopes(root * z)
        return float(weights @ (z * values * slopes)) / root

    return np.asarray(activation.gain**2 * np.vectorize(slope)(gamma))


def bias(activation: Activation, gamma: ArrayLike) -> Array:
    """Return (E σ(√γ z))² / E σ(√γ z)²."""
    means = np.vectorize(lambda q: activation.expectation(np.asarray, q=q))(gamma)
    return np.asarray((activation.gain * means) ** 2 / length_map(activation, gamma))
