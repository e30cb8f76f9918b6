"""Independent references, most in many digits, and matrices of known spectrum."""

import itertools

import mpmath
import numpy as np
import torch
from mpmath import mpf
from torch.nn import functional

from ntk_conditioning.networks import activations


def samples(n: int, d: int, *, seed: int = 0, spread: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) / np.sqrt(d)
    return rows * np.exp(rng.uniform(-spread, spread, (n, 1)))


def kernel(eigenvalues, *, seed=1):
    n = len(eigenvalues)
    directions = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    k = (directions * eigenvalues) @ directions.T
    return (k + k.T) / 2


def exact_extremes(k):
    with mpmath.workdps(50):
        eigenvalues = mpmath.eigsy(mpmath.matrix(k.tolist()), eigvals_only=True)
        return float(min(eigenvalues)), float(max(eigenvalues))


def exact(x):
    return np.vectorize(mpf, otypes=[object])(x)


def relu_angles(theta, depth):
    """Return θ^(0) to θ^(L) by liu2023relu, Eqs. (8) and (9), as printed."""
    angles = [mpf(theta)]
    for _ in range(depth):
        z = angles[-1]
        cosine = (mpmath.pi - z) / mpmath.pi * mpmath.cos(z) + mpmath.sin(z) / mpmath.pi
        angles.append(mpmath.acos(cosine))
    return angles


def gradient_cosine(theta, depth):
    """Return cos φ by liu2023relu, Eq. (10), as printed."""
    angles, total = relu_angles(theta, depth), mpf(0)
    for layer, angle in enumerate(angles):
        factors = [1 - later / mpmath.pi for later in angles[layer:depth]]
        total += mpmath.cos(angle) * mpmath.fprod(factors)
    return total / (depth + 1)


def theorem_4_4(x, depth):
    """Return the NTK of ReLU, (L + 1) |x||x'| cos φ."""
    k = (depth + 1) * exact(x) @ exact(x).T
    for i, j in itertools.permutations(range(len(x)), 2):
        norms = mpmath.sqrt(k[i, i] * k[j, j])
        k[i, j] = norms * gradient_cosine(mpmath.acos(k[i, j] / norms), depth)
    return k


def erf_layer(q, q2, c, _same=False):
    """Return E σσ and E σ'σ' by Williams 1996, Eq. (10); the gain makes E σ(z)² = 1."""
    gain2 = mpmath.pi / 2 / mpmath.asin(mpf(2) / 3)
    scale = (1 + 2 * q) * (1 + 2 * q2)
    values = 2 / mpmath.pi * mpmath.asin(2 * c / mpmath.sqrt(scale))
    return gain2 * values, gain2 * 4 / mpmath.pi / mpmath.sqrt(scale - 4 * c * c)


def relu_layer(q, q2, c, same=False):
    """Return E σσ and E σ'σ' of sqrt(2) max(z, 0) by Cho & Saul 2009; a variance may be 0."""
    scale = mpmath.sqrt(q * q2)
    if scale == 0:
        return mpf(0), mpf(0)
    angle = mpf(0) if same else mpmath.acos(max(mpf(-1), min(mpf(1), c / scale)))
    slope = 1 - angle / mpmath.pi
    return scale * (mpmath.sin(angle) / mpmath.pi + slope * mpmath.cos(angle)), slope


def normalized_relu_layer(q, q2, c, same=False):
    """Return E σσ and E σ'σ' of (max(z, 0) - μ) / s, where E max(√q z, 0) = sqrt(q / 2π)."""
    mean, variance = 1 / mpmath.sqrt(2 * mpmath.pi), (1 - 1 / mpmath.pi) / 2
    values, slope = relu_layer(q, q2, c, same)
    centred = values / 2 - mean * mean * (mpmath.sqrt(q) + mpmath.sqrt(q2)) + mean * mean
    return centred / variance, slope / 2 / variance


LAYERS = {"relu": relu_layer, "erf": erf_layer, "normalized_relu": normalized_relu_layer}


def next_layer(layer, sigma):
    """Return g² E σσ and g² E σ'σ' of all pairs, from their covariances (n, n), by a layer."""
    indices = np.ndindex(sigma.shape)
    pairs = [layer(sigma[i, i], sigma[j, j], sigma[i, j], i == j) for i, j in indices]
    return np.array(pairs, object).T.reshape(2, *sigma.shape)


def infinite_kernels(x, depth, layer, *, branch_scale=None, bias_scale=0.0):
    """Return NNGP and NTK of infinite width by their recursion, in mpmath's digits."""
    bias, branch = mpf(bias_scale) ** 2, mpf(branch_scale or 0) ** 2
    sigma = theta = exact(x) @ exact(x).T + bias
    for _ in range(depth):
        values, slopes = next_layer(layer, sigma)
        blocks = values + bias, values + bias + theta * slopes
        if branch_scale is None:
            sigma, theta = blocks
        else:
            sigma, theta = sigma + branch * blocks[0], theta + branch * blocks[1]
    return (sigma, theta) if branch_scale is None else (sigma + bias, theta + sigma + bias)


def plain_losses(loss, f, labels, *, classes=3):
    """Return every sample's loss by torch's functions; ``loss`` is its name and the outputs."""
    name, outputs = loss
    if name == "cross_entropy":
        return functional.cross_entropy(f, labels, reduction="none")
    codes = torch.linspace(-1, 1, classes)[:, None] if outputs == "scalar" else torch.eye(classes)
    return (f - codes[labels]).square().sum(1) / 2


KINK = -1.5975
SCALE, OFFSET = activations.normrelu_constants(KINK)
DIGITS = {  # functions and derivatives at any number of digits
    "linear": (lambda z: z, lambda z: mpf(1)),
    "relu": (lambda z: max(z, mpf(0)), lambda z: mpf(z > 0)),
    "normrelu": (lambda z: SCALE * (max(z - KINK, 0) + OFFSET), lambda z: SCALE * mpf(z > KINK)),
    "tanh": (mpmath.tanh, lambda z: mpmath.sech(z) ** 2),
    "gelu": (lambda z: z * mpmath.ncdf(z), lambda z: mpmath.ncdf(z) + z * mpmath.npdf(z)),
}


def exact_gradients(mlp, x):
    """Return the gradients (n, p) in mpmath's digits, from the same float64 weights."""
    function, derivative = (np.vectorize(f, otypes=[object]) for f in DIGITS[mlp.activation.name])
    weights, alphas, slopes = [exact(weight) for weight in mlp.weights], [exact(x)], []
    for layer, weight in enumerate(weights[:-1], start=1):
        scale, z = mpf(mlp.scale(layer)), alphas[-1] @ weight.T
        alphas.append(scale * function(z))
        slopes.append(scale * derivative(z))
    delta, parts = exact(np.ones((len(x), 1))), []
    for layer in range(mlp.depth, -1, -1):
        parts.append(delta[:, :, None] * alphas[layer][:, None])
        if layer:
            delta = slopes[layer - 1] * (delta @ weights[layer])
    return np.concatenate([part.reshape(len(x), -1) for part in parts], axis=1)
