"""The experiments on papers that came after, or stand beside, the three: papers/followups.yaml."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_digits

from ntk_conditioning.claim_experiments import Array, Measurements, Setting, grid, measurement
from ntk_conditioning.claim_experiments.numerics import at_angle, exponent, on_sphere
from ntk_conditioning.duals.closed_forms import angle_of, dual, pair_cosine_distances
from ntk_conditioning.duals.hermite import expand, expansion
from ntk_conditioning.kernels import infinite, modules
from ntk_conditioning.kernels.depth_profiles import layer_by_layer
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.liu2023relu import gradient_angle
from ntk_conditioning.theory.sphere import unit_rows

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

#: Percentages in Table 1 of arXiv:2211.07844.
TABLE_1 = {
    "relu": (43.944, 77.277, 93.192, 93.192, 95.403, 95.403),
    "tanh": (41.362, 91.468, 91.468, 97.487, 97.487, 99.090),
    "sigmoid": (91.557, 99.729, 99.729, 99.977, 99.977, 99.997),
}
MANY, SIZES = 512, (64, 1024)
FEW, D, OUTPUTS, CLASSES = 8, 16, 5, 10

relu_ntk = partial(infinite.ntk, activation="relu")


def limits(setting: Setting) -> Measurements:
    """Measure gradient angles and kappa of ReLU networks of infinite width with 20,000 layers."""
    row = partial(measurement, activation="relu", depth=DEEP)
    angles = np.degrees(gradient_angle(ANGLES, DEEP))
    yield row("relu_limiting_angle", angles, math.degrees(math.acos(1 / 4)), at=ANGLES)
    for n in SAMPLES:
        w = pdist(on_sphere(1, n, 64) if n <= 5 else np.eye(n), "sqeuclidean") / 2
        distinct, inverse = np.unique(w, return_inverse=True)
        cosines = np.cos(gradient_angle(angle_of(distinct), DEEP))
        kappa = np.linalg.cond(np.eye(n) + squareform(cosines[inverse]))
        yield row("relu_limiting_kappa", kappa, (n + 4) / 3, (n + 3) / 3, n=n)


def non_linearity(setting: Setting) -> Measurements:
    """Measure kappa of a s + b|s| along depth at infinite width, for Δ from 1/8 to 1.

    32 samples, all equally far apart: 0.1 radians for the layers to 1.1 times the limit, 90° for
    the limit itself. Entries of the NTK are those of 100 angles, up to 300 layers.
    """
    limit, every, needed = 1 + N / 3, np.geomspace(1e-6, 1.99, 100), []
    apart = np.array([1 - math.cos(APART)])
    for row, delta in grid(n=N, at=DELTAS):
        a, b = math.sqrt(1 - delta), math.sqrt(delta)
        sigma = activations.leaky_relu((a - b) / (a + b), name="bent")  # a s + b|s|
        near = enumerate(layer_by_layer(sigma, apart, angle_of(apart)), start=1)
        needed.append(next(n for n, layer in near if _kappa(layer.ntk.distances[0]) <= 1.1 * limit))
        bound = 3 * math.pi / (16 * delta)
        entries = enumerate(layer_by_layer(sigma, every, angle_of(every)), start=1)
        gaps = [
            (bound * np.sqrt(2 / layer.nngp.distances) - 1 / 8 - n * layer.ntk.pairs).min()
            for n, layer in itertools.islice(entries, 300)
        ]
        yield row("entries_below_bound", min(gaps))
        if delta >= 1 / 4:
            layers = layer_by_layer(sigma, np.ones(1), np.full(1, math.pi / 2))
            deep = next(itertools.islice(layers, LESS_DEEP, None))
            kappa = _kappa(deep.ntk.distances[0])
            yield row("limiting_kappa_of_delta", kappa, limit, depth=LESS_DEEP)
    yield measurement("layers_step", np.divide(needed[1:], needed[:-1]), n=N, at=DELTAS[1:])
    yield measurement("layers_exponent", exponent(DELTAS, needed), n=N)


def _kappa(distance: float) -> float:
    """Return kappa of N samples whose cosines are all 1 less the ``distance``."""
    return (1 + (N - 1) * (1 - distance)) / distance


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
                lows.append(np.linalg.eigvalsh(relu_ntk(x, depth=depth))[0])
            yield row(f"close_{kind}_exponent", exponent(DISTANCES, lows), n=len(x))
    for row, seed, distance in grid(n=OTHERS, d=16, seed=setting.seeds[:3], at=(1.0, 1e-1, 1e-3)):
        x = on_sphere(seed, OTHERS, 16)
        x[1] = at_angle(x[0], x[1], 2 * math.asin(distance / 2))
        lows = [np.linalg.eigvalsh(relu_ntk(x, depth=depth))[0] for depth in LAYERS]
        yield row("lambda_min_depth_exponent", exponent(np.array(LAYERS) + 1, lows))


def branches(setting: Setting) -> Measurements:
    """Measure kappa of residual ReLU networks of infinite width over that of plain ones."""
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
    ntk, relu = 1 - w, dual(activations.get("relu"), np.ones(1))
    for _ in range(depth):
        after, slope = pair_cosine_distances(relu, w)
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
        small = (rho for now in layers if (rho := now.nngp.pairs[0]) <= SMALL)
        first, *_, last = itertools.islice(small, STEPS + 1)
        printed = 1 - expansion(activations.get(name)).non_linearity
        yield row("layer_norm_factor", (last / first) ** (1 / STEPS), printed)


def coefficients(name: str) -> tuple[Array, float]:
    """Return c_0, c_1, … of the NTK Σ c_p ρ^p with one hidden layer, and their sum.

    Weights have variance 1, and biases what units then lack of it (arXiv:2211.07844, Table 1).
    """
    activation = activations.get(name)
    series = expansion(activation, count=65)
    c = (1 + np.arange(65)) * series.coefficients**2
    c[0] += 1 - series.square
    return c, 1 + expand(activation.slopes, kinks=activation.kinks).square


def power_series(setting: Setting) -> Measurements:
    """Measure shares of the first terms of the NTK's power series."""
    for row, name in grid(activation=list(TABLE_1)):
        c, total = coefficients(name)
        percent = 100 * np.cumsum(c[:6]) / total
        yield row("first_terms_percent", percent, TABLE_1[name], at=range(6))
    c, total = coefficients("relu")
    first, second, *_ = TABLE_1["relu"]
    ratio = (100 - first) / (second - first)
    yield measurement("terms_over_first", (total - c[0]) / c[1], 1.3, ratio)


def effective_ranks(setting: Setting) -> Measurements:
    """Measure tr K / λ_max of one hidden ReLU layer over its bounds, with and without c_0."""
    c, total = coefficients("relu")
    keys = {"n": MANY, "d": (8, 64), "seed": setting.seeds[:3]}
    for row, d, seed in grid(activation="relu", depth=1, **keys):
        x = on_sphere(seed, MANY, d)
        # `infinite` has weights of variance 2 and no biases
        kernel = (relu_ntk(x, depth=1) + 1) / 2
        whole, centred, gram = (
            np.trace(k) / np.linalg.norm(k, 2) for k in (kernel, kernel - c[0], x @ x.T)
        )
        yield row("effective_rank", whole, total / c[0])
        yield row("centred_effective_rank_over_gram", centred / gram, (total - c[0]) / c[1])


def participation(setting: Setting) -> Measurements:
    """Measure (tr K)² / |K|_F² of ReLU networks at infinite width, for uniform samples.

    Printed is E k(x, x)² / E k(x, x')², by 1024 samples and 1024 others.
    """
    for row, seed, d, depth in grid(seed=setting.seeds[:2], d=(4, 16, 64), depth=(0, 1, 4)):
        x = on_sphere(seed, 2 * SIZES[-1], d)
        k = relu_ntk(x[: SIZES[-1]], x, depth=depth) / (depth + 1)
        limit = 1 / np.mean(k[:, SIZES[-1] :] ** 2)
        ranks = [np.trace(k[:n, :n]) ** 2 / np.sum(k[:n, :n] ** 2) for n in SIZES]
        yield row("participation", ranks[-1], limit, activation="relu", n=SIZES[-1])
        yield row("participation_growth", ranks[-1] / ranks[0], limit, activation="relu")


def sums_of_outputs(setting: Setting) -> Measurements:
    """Measure how the kernel of the sum of outputs differs from that of all, at initialisation.

    Five outputs, in PyTorch's scaling; the exponent of the width in the relative difference.
    """
    kind: dict[str, Any] = {"d": D, "depth": 2, "outputs": OUTPUTS, "dtype": torch.float64}
    kind |= {"image": None, "activation": activations.get("relu")}
    for row, seed in grid(activation="relu", depth=2, n=FEW, d=D, seed=setting.seeds[:5]):
        samples, gaps = torch.from_numpy(on_sphere(seed, FEW, D)), []
        for width in setting.widths:
            model = make_network("fc", generator(seed, "init"), width=width, **kind)
            full = modules.ntk(model, samples, outputs="full", progress=False).numpy()
            total = modules.ntk(model, samples, outputs="sum", progress=False).numpy() / OUTPUTS
            gap = full - np.kron(total, np.eye(OUTPUTS))
            gaps.append(np.linalg.norm(gap) / np.linalg.norm(full))
        yield row("sum_of_outputs_exponent", exponent(setting.widths, gaps))


def labels(setting: Setting) -> Measurements:
    """Measure exponents of the eigenvalue in labels' energies, and the steps that a bound needs.

    256 handwritten digits on the sphere, ReLU networks of infinite width with an output for each
    class; residuals are their expectation over networks. Steps are 1/λ_max long, to a share of the
    square loss, by the bound tr (1 - K/λ_max)^2t K over those that the residual needs.
    """
    images, classes = load_digits(return_X_y=True)
    keys = {"seed": setting.seeds, "depth": setting.depths}
    for row, seed, depth in grid(activation="relu", n=256, **keys):
        rng = generator(seed, "data")
        chosen = rng.permutation(len(images))[:256]
        targets, x = np.eye(CLASSES)[classes[chosen]], unit_rows(images[chosen])
        network = infinite.InfiniteNetwork(x, depth=depth, activation="relu")
        values, vectors = np.linalg.eigh(network.ntk)
        energy, shuffled = (
            np.square(vectors.T @ those).sum(1) for those in (targets, rng.permutation(targets))
        )
        yield row("label_energy_exponent", exponent(values, energy))
        yield row("shuffled_label_energy_exponent", exponent(values, shuffled))
        residual = energy + CLASSES * np.einsum("ij,ij->j", vectors, network.nngp @ vectors)
        for share in (0.1, 0.01):
            ratio = _steps(values, values, share) / _steps(values, residual, share)
            yield row("spectrum_bound_over_steps", ratio, at=share)


def _steps(values: Array, energy: Array, share: float) -> float:
    """Return the steps of 1/λ_max to a share of an energy (n,) in directions of λ (n,) > 0."""
    rates = 2 * np.log1p(-np.minimum(values / values[-1], 1 - 1e-12))
    left = energy / energy.sum()
    return float(np.exp(brentq(lambda t: left @ np.exp(np.exp(t) * rates) - share, -20, 40)))
