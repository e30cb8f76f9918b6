"""Two samples and ReLU networks of infinite width: angles of embeddings and gradients, and kappa.

`theory` sums 1 - cos, so that angles whose cosine is 1 in floats can be tried.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid, measurement
from ntk_conditioning.claim_experiments.numerics import exponent, on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.theory import liu2023relu as theory

GRID = np.concatenate([np.geomspace(1e-9, 1e-3, 61), np.linspace(1e-3, math.pi, 2001)[1:-1]])
LAYERS = 20_000
STARTS = (0.1, 1.0, 3.0)
INPUT_ANGLES = np.radians(np.linspace(0.05, 179.95, 3599))
DEEP, APART = (100, 1_000, 10_000), (10.0, 60.0, 90.0)
SAMPLES = 10
UNEQUAL = 3.0  # ratio of two samples' norms


def g_properties(setting: Setting) -> Measurements:
    """Measure what Proposition A.1 and Theorem A.2 say of g and its iterations."""
    values = theory.embedding_angle(GRID, 1)
    yield measurement("g_slope_min", np.min(np.diff(values) / np.diff(GRID)))
    yield measurement("g_over_identity_max", np.max(values / GRID))
    yield measurement("g_at_zero", theory.embedding_angle(0.0, 1))
    layers = range(4 * max(setting.depths) + 1)
    iterates = np.array([theory.embedding_angle(STARTS, layer) for layer in layers])
    ratios = np.max(iterates[1:] / iterates[:-1], axis=0)
    last = theory.embedding_angle(STARTS, LAYERS)
    for (row, _), ratio, angle in zip(grid(at=STARTS), ratios, last, strict=True):
        yield row("g_iterates_ratio_max", ratio)
        # g(z) = z - z²/(3 pi) makes 1/z grow by 1/(3 pi) a layer
        yield row("g_limit_rate", float(angle) * LAYERS / (3 * math.pi), 1.0, depth=LAYERS)


def embedding_expansion(setting: Setting) -> Measurements:
    """Measure the coefficient of theta² in Corollary 4.3, as small angles approach it."""
    for row, depth, theta in grid(depth=setting.depths, at=(1e-2, 1e-3, 1e-4)):
        coefficient = (theta - float(theory.embedding_angle(theta, depth))) / theta**2
        yield row("embedding_angle_coefficient", coefficient, depth / (3 * math.pi))


def observations(setting: Setting) -> Measurements:
    """Measure up to which input angle Figure 1's observations hold, in degrees."""
    far = math.radians(60) <= INPUT_ANGLES
    for row, depth in grid(depth=range(1, max(setting.depths) + 1)):
        least = float(theory.gradient_angle(INPUT_ANGLES[far], depth).min())
        yield row("separation_up_to", _up_to(0, depth), 60.0)
        yield row("deeper_separates_up_to", _up_to(depth, depth + 1), 60.0)
        yield row("far_apart_min", math.degrees(least), 60.0)


def _up_to(low: int, high: int) -> float:
    """Return the input angle (degrees) at which two depths' gradient angles cross, or 180."""

    def gain(theta: ArrayLike) -> Array:
        return theory.gradient_angle(theta, high) - theory.gradient_angle(theta, low)

    coarse = INPUT_ANGLES[::20]
    lost = np.flatnonzero(gain(coarse) <= 0)
    if not len(lost) or lost[0] == 0:
        return 0.0 if len(lost) else 180.0
    return math.degrees(brentq(gain, coarse[lost[0] - 1], coarse[lost[0]], xtol=1e-12))


def gradient_expansion(setting: Setting) -> Measurements:
    """Measure the coefficients of theta and theta² in cos φ / cos θ, proof of Theorem 4.5."""
    for row, depth, theta in grid(depth=setting.depths, at=(1e-3, 1e-5, 1e-7)):
        coefficient = _cosine_fall(theta, depth)
        yield row("gradient_cosine_coefficient", coefficient, depth / 2, depth / (2 * math.pi))
        second = (depth / (2 * math.pi) - coefficient) / theta
        layers = np.arange(depth + 1)
        factors = depth - layers
        step = factors * ((depth + layers - 1) / 3 + (factors - 1) / 2)
        line = factors * (2 * depth - layers - 2) / 3
        yield row("gradient_cosine_second", second, *(np.mean([step, line], axis=1) / math.pi**2))


def joint_limits(setting: Setting) -> Measurements:
    """Measure how the remainders of Corollary 4.3 and Theorem 4.5 grow with L at θ = L^(-3/2).

    They are taken over θ² and θ cos θ: each falls if it is the o(θ²) or o(θ) that is printed.
    """
    embedding, gradient = [], []
    for depth in DEEP:
        theta = depth**-1.5
        fall = theta - float(theory.embedding_angle(theta, depth))
        embedding.append(depth / (3 * math.pi) - fall / theta**2)
        gradient.append(depth / (2 * math.pi) - _cosine_fall(theta, depth))
    yield measurement("embedding_remainder_exponent", exponent(DEEP, embedding))
    yield measurement("gradient_remainder_exponent", exponent(DEEP, gradient))


def _cosine_fall(theta: float, depth: int) -> float:
    """Return (1 - cos φ / cos θ)/θ, without cancellation."""
    phi = float(theory.gradient_angle(theta, depth))
    return 2 * math.sin((phi + theta) / 2) * math.sin((phi - theta) / 2) / (theta * math.cos(theta))


def infinite_depth(setting: Setting) -> Measurements:
    """Measure where the gradient angle goes in deep networks, and kappa of random samples.

    With theta^(l) ~ 3 pi/l the products of Eq. (10) tend to (l/L)³, whose mean is 1/4.
    """
    limit = math.degrees(math.acos(0.25))
    x = on_sphere(setting.seeds[0], SAMPLES, SAMPLES)
    for row, depth in grid(depth=DEEP):
        angles = theory.gradient_angle(np.radians(APART), depth)
        for at, phi in zip(APART, angles.tolist(), strict=True):
            yield row("deep_gradient_angle", math.degrees(phi), 90.0, limit, at=at)
        low, *_, high = np.linalg.eigvalsh(infinite.ntk(x, depth=depth, activation="relu"))
        yield row("deep_kappa", high / low, 1.0, 1 + SAMPLES / 3, n=SAMPLES)


def two_samples(setting: Setting) -> Measurements:
    """Measure kappa over the Gram matrix's, and over that of one layer less, at many angles.

    A network makes kappa larger where the gradient angle φ is between θ and π - θ: the `window`.
    """
    depths = range(1, max(setting.depths) + 1)
    degrees = np.array([10, 30, 45, 60, 66, 70, 80, 95, 100, 110, 130, 150, 170])
    for ratio, name in ((1.0, "pair_kappa"), (UNEQUAL, "pair_kappa_unequal")):
        for at in (1e-1, 1e-2, 1e-4, 1e-6, *np.radians(degrees)):
            kappas = [_kappa(at, depth, ratio) for depth in (0, *depths)]
            for row, depth in grid(depth=depths, n=2, at=math.degrees(at)):
                yield row(f"{name}_over_gram", kappas[depth] / kappas[0])
                yield row(f"{name}_step", kappas[depth] / kappas[depth - 1])

    def beyond(z: float, depth: int) -> float:
        return float(theory.gradient_angle(z, depth)) - (math.pi - z)

    for row, depth in grid(depth=depths, n=2):
        yield row("pair_window_from", _up_to(0, depth))
        edge = brentq(beyond, *np.radians((90.1, 160)), args=(depth,), xtol=1e-12)
        yield row("pair_window_to", math.degrees(edge))


def _kappa(angle: float, depth: int, ratio: float) -> float:
    """Return kappa of the kernel of two samples, one ``ratio`` times as long as the other."""
    x = np.array([[1.0, 0.0], [ratio * math.cos(angle), ratio * math.sin(angle)]])
    return float(np.linalg.cond(infinite.ntk(x, depth=depth, activation="relu")))


def eigenvalues(setting: Setting) -> Measurements:
    """Measure the larger eigenvalue of two samples' kernel, where Eq. (44a) lacks a factor of 2."""
    b = UNEQUAL**2
    for row, depth, at in grid(depth=setting.depths, n=2, at=(10.0, 60.0)):
        phi = float(theory.gradient_angle(math.radians(at), depth))
        mixed = UNEQUAL * math.cos(phi)
        largest = np.linalg.eigvalsh([[1.0, mixed], [mixed, b]])[-1]
        cosine = b * math.cos(2 * phi)
        printed, right = ((1 + b + math.sqrt(1 + b**2 + k * cosine)) / 2 for k in (1, 2))
        yield row("pair_lambda_max", largest, printed, right)
