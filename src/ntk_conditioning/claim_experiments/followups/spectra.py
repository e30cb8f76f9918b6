"""Power series and effective ranks of kernels, sums of outputs, and labels in the spectrum."""

from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from sklearn.datasets import load_digits

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting, grid
from ntk_conditioning.claim_experiments.numerics import exponent, on_sphere
from ntk_conditioning.duals.hermite import expand, expansion
from ntk_conditioning.kernels import infinite, modules
from ntk_conditioning.networks import activations
from ntk_conditioning.networks.modules import make_network
from ntk_conditioning.seeds import generator
from ntk_conditioning.theory.sphere import unit_rows

#: Percentages in Table 1 of arXiv:2211.07844.
TABLE_1 = {
    "relu": (43.944, 77.277, 93.192, 93.192, 95.403, 95.403),
    "tanh": (41.362, 91.468, 91.468, 97.487, 97.487, 99.090),
    "sigmoid": (91.557, 99.729, 99.729, 99.977, 99.977, 99.997),
}
MANY, SIZES = 512, (64, 1024)
FEW, D, OUTPUTS, CLASSES = 8, 16, 5, 10


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
        for last, printed in enumerate(TABLE_1[name]):
            yield row("first_terms_percent", 100 * c[: last + 1].sum() / total, printed, at=last)
    c, total = coefficients("relu")
    ratio = 100 - TABLE_1["relu"][0], TABLE_1["relu"][1] - TABLE_1["relu"][0]
    yield Measurement("terms_over_first", (total - c[0]) / c[1], 1.3, ratio[0] / ratio[1])


def effective_ranks(setting: Setting) -> Measurements:
    """Measure tr K / λ_max of one hidden ReLU layer over its bounds, without and with the constant.

    Samples are uniform on the sphere.
    """
    c, total = coefficients("relu")
    keys = {"n": MANY, "d": (8, 64), "seed": setting.seeds[:3]}
    for row, d, seed in grid(activation="relu", depth=1, **keys):
        x = on_sphere(seed, MANY, d)
        # `infinite` has weights of variance 2 and no biases
        kernel = (infinite.ntk(x, depth=1, activation="relu") + 1) / 2
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
        k = infinite.ntk(x[: SIZES[-1]], x, depth=depth, activation="relu") / (depth + 1)
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
            bound, exact = (_steps(values, of, share) for of in (values, residual))
            yield row("spectrum_bound_over_steps", bound / exact, at=share)


def _steps(values: Array, energy: Array, share: float) -> float:
    """Return the steps of 1/λ_max to a share of an energy (n,) in directions of λ (n,) > 0."""
    rates = 2 * np.log1p(-np.minimum(values / values[-1], 1 - 1e-12))
    left = energy / energy.sum()
    return float(np.exp(brentq(lambda t: left @ np.exp(np.exp(t) * rates) - share, -20, 40)))
