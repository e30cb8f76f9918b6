"""Kernels of infinite width along depth: limits and rates, close samples, branches, layer norm."""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.spatial.distance import pdist, squareform

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting, grid
from ntk_conditioning.claim_experiments.numerics import at_angle, exponent, on_sphere
from ntk_conditioning.duals.closed_forms import angle_of, leaky_relu_step
from ntk_conditioning.duals.hermite import expansion
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.depth_profiles import layer_by_layer
from ntk_conditioning.networks import activations

DEEP, SAMPLES = 20_000, (2, 5, 20, 50, 200)
ANGLES = (0.1, 0.5, 1.0, 2.0, 3.0)  # radians, of pairs

#: Δ = b² / (a² + b²) of a s + b|s|, samples, and how far apart they are in radians.
DELTAS, N, APART, LESS_DEEP = np.arange(1, 9) / 8, 32, 0.1, 4000

#: Distances of close samples, how many others there are, and layers.
DISTANCES, OTHERS, LAYERS = np.geomspace(1e-1, 1e-6, 11), 8, (1, 2, 4, 8, 16, 32, 64)
#: Angles of close samples on a circle, by their distance.
CLOSE: dict[str, Callable[[float], list[float]]] = {
    "pair": lambda apart: [0.0, apart],
    "arc": lambda apart: [k * apart for k in range(6)],
    "opposites": lambda apart: [0.0, 0.9, 2.0, *(math.pi + apart + k for k in (0.0, 0.9, 2.0))],
}

SMALL, STEPS = 1e-3, 5  # correlation below which layer norm's factor is measured, and layers


def _layers(w: Array, delta: float) -> Iterator[tuple[int, Array, Array]]:
    """Yield l = L + 1, 1 - cos θ^(L) and Θ^(L) for L = 0, 1, … of unit samples at w = 1 - cos θ.

    The activation a s + b|s| is scaled to keep norms, so that Θ^(L)(x, x) = l; ReLU has Δ = 1/2.
    """
    kernel = 1 - w
    for layers in itertools.count(1):
        yield layers, w, kernel
        w, slope = leaky_relu_step(w, angle_of(w), bend=2 * delta)
        kernel = 1 - w + kernel * (1 - slope)


def cosines(w: Array, delta: float, depth: int) -> Array:
    """Return the cosines of gradients after ``depth`` hidden layers."""
    layers, _, kernel = next(itertools.islice(_layers(w, delta), depth, None))
    return kernel / layers


def limits(setting: Setting) -> Measurements:
    """Measure gradient angles and kappa of ReLU networks of infinite width with 20,000 layers.

    Up to five samples are random on the sphere in 64 dimensions, more are orthonormal.
    """
    samples = [on_sphere(1, n, 64) if n <= 5 else np.eye(n) for n in SAMPLES]
    w = [1 - np.cos(ANGLES), *(pdist(x, "sqeuclidean") / 2 for x in samples)]
    distinct, inverse = np.unique(np.concatenate(w), return_inverse=True)
    deep = np.split(cosines(distinct, 0.5, DEEP)[inverse], np.cumsum([*map(len, w)]))
    rows = grid(activation="relu", depth=DEEP, at=ANGLES)
    for (row, _), cosine in zip(rows, deep[0], strict=True):
        angle = math.degrees(math.acos(cosine))
        yield row("relu_limiting_angle", angle, math.degrees(math.acos(1 / 4)))
    for row, n in grid(activation="relu", depth=DEEP, n=SAMPLES):
        kernel = np.eye(n) + squareform(deep[1 + SAMPLES.index(n)])
        yield row("relu_limiting_kappa", np.linalg.cond(kernel), (n + 4) / 3, (n + 3) / 3)


def non_linearity(setting: Setting) -> Measurements:
    """Measure kappa of a s + b|s| along depth at infinite width, for Δ from 1/8 to 1.

    32 samples, all equally far apart: 0.1 radians for the layers to 1.1 times the limit, 90° for
    the limit itself. Entries of the NTK are those of 100 angles, up to 300 layers.
    """
    limit, every, needed = 1 + N / 3, np.geomspace(1e-6, 1.99, 100), []
    for row, delta in grid(n=N, at=DELTAS):
        for layers, _, kernel in _layers(np.array([1 - math.cos(APART)]), delta):
            if (layers + (N - 1) * kernel[0]) / (layers - kernel[0]) <= 1.1 * limit:
                break
        needed.append(layers)
        bound = 3 * math.pi / (16 * delta)
        gaps = [
            (bound * np.sqrt(2 / w) - 1 / 8 - kernel).min()
            for _, w, kernel in itertools.islice(_layers(every, delta), 300)
        ]
        yield row("entries_below_bound", min(gaps))
        if delta >= 1 / 4:
            cosine = cosines(np.ones(1), delta, LESS_DEEP)[0]
            kappa = (1 + (N - 1) * cosine) / (1 - cosine)
            yield row("limiting_kappa_of_delta", kappa, limit, depth=LESS_DEEP)
        if len(needed) > 1:
            yield row("layers_step", layers / needed[-2])
    yield Measurement("layers_exponent", exponent(DELTAS, needed), n=N)


def close_samples(setting: Setting) -> Measurements:
    """Measure exponents of λ_min in the smallest distance δ, over five decades, and in L + 1.

    Close are two samples, six on an arc, or three to the opposites of three others on a plane; with
    eight random ones beside.
    """
    keys = {"seed": setting.seeds[:3], "d": (3, 8, 64), "depth": setting.depths}
    for row, seed, d, depth in grid(activation="relu", **keys):
        others = on_sphere(seed, OTHERS + 2, d)
        plane = np.linalg.qr(others[:2].T)[0].T
        for kind, angles_of in CLOSE.items():
            lows = []
            for distance in DISTANCES:
                angles = angles_of(2 * math.asin(distance / 2))
                x = np.vstack([np.transpose([np.cos(angles), np.sin(angles)]) @ plane, others[2:]])
                lows.append(_lambda_min(x, depth))
            yield row(f"close_{kind}_exponent", exponent(DISTANCES, lows), n=len(x))
    for row, seed, distance in grid(n=OTHERS, d=16, seed=setting.seeds[:3], at=(1.0, 1e-1, 1e-3)):
        x = on_sphere(seed, OTHERS, 16)
        x[1] = at_angle(x[0], x[1], 2 * math.asin(distance / 2))
        lows = [_lambda_min(x, depth) for depth in LAYERS]
        yield row("lambda_min_depth_exponent", exponent(np.array(LAYERS) + 1, lows))


def _lambda_min(x: Array, depth: int) -> float:
    return float(np.linalg.eigvalsh(infinite.ntk(x, depth=depth, activation="relu"))[0])


def branches(setting: Setting) -> Measurements:
    """Measure kappa of residual ReLU networks of infinite width over that of plain ones.

    Each of L blocks adds a branch of two layers of weights, scaled by 1 or by 1/√L; plain networks
    have L hidden layers.
    """
    keys = {"seed": setting.seeds, "depth": (2, 4, 8)}
    for row, seed, depth in grid(activation="relu", n=N, d=N // 2, **keys):
        x = on_sphere(seed, N, N // 2)
        plain = infinite.InfiniteNetwork(x, depth=depth, activation="relu")
        for square in (1.0, 1 / depth):
            kernels = residual(x, depth=depth, square=square)
            for name, kernel in zip(("nngp", "ntk"), kernels, strict=True):
                ratio = np.linalg.cond(kernel) / np.linalg.cond(getattr(plain, name))
                yield row(f"residual_{name}_kappa_over_plain", ratio, at=math.sqrt(square))


def residual(x: Array, *, depth: int, square: float) -> tuple[Array, Array]:
    """Return NNGP and NTK (n, n) of a · u_L at infinite width, of unit samples u_0 = ``x`` (n, d).

    Each of L = ``depth`` blocks adds V ReLU(W u) to u, whose variance is ``square`` times u's.
    """
    w, norm = squareform(pdist(x, "sqeuclidean") / 2), 1.0  # cosine distances, squared norms
    ntk = 1 - w
    for _ in range(depth):
        after, slope = leaky_relu_step(w, angle_of(w), bend=1.0)
        # V and a both have the branch as their gradient, and W what comes through it
        ntk = ntk + square * (2 * norm * (1 - after) + ntk * (1 - slope))
        w, norm = (w + square * after) / (1 + square), norm * (1 + square)
    return norm * (1 - w), ntk


def layer_norm(setting: Setting) -> Measurements:
    """Measure the factor by which a layer brings correlations to 0, normalised after it.

    At infinite width layer norm takes off the mean and divides by the deviation. Printed is
    c_1² / (c_1² + c_2² + …) of the activation's Hermite coefficients.
    """
    names = ("relu", "leaky_relu", "gelu", "sigmoid", "softplus")
    for row, name, angle in grid(activation=names, at=ANGLES[:3]):
        theta = np.array([angle])
        layers = layer_by_layer(activations.get(f"normalized_{name}"), 1 - np.cos(theta), theta)
        small = (rho for now in layers if (rho := 1 - now.w[0]) <= SMALL)
        first, *_, last = itertools.islice(small, STEPS + 1)
        printed = 1 - expansion(activations.get(name)).non_linearity
        yield row("layer_norm_factor", (last / first) ** (1 / STEPS), printed)
