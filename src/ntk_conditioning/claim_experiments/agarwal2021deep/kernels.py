"""Kernels of several samples: Lemma 23, Schoenberg's theorem and Eq. (7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ntk_conditioning.claim_experiments import Measurement, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap
from ntk_conditioning.claim_experiments.samples import on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.seeds import generator

Array = NDArray[np.float64]

N = 24
RATIOS = (1.0, 2.0, 8.0)
"""Dimension over samples."""
ACTIVATIONS = ("normrelu", "normalized_relu", "relu", "tanh", "selu", "gelu")
TERMS = 9
"""Terms of a power series that are looked at."""


def eigenvalue_bound(setting: Setting) -> Iterator[Measurement]:
    """Measure Lemma 23: the smallest eigenvalue of f[K], f = σ̂^(L), over f(1) - f(1 - δ).

    δ is the smallest eigenvalue of K, the correlations of random samples; with another spectrum
    for every ratio ``at`` of dimension to samples.
    """
    for name in ACTIVATIONS:
        layer = CorrelationMap(name)
        for seed in setting.seeds:
            for ratio in RATIOS:
                gram = _gram(seed, round(ratio * N))
                delta = float(np.linalg.eigvalsh(gram)[0])
                for depth in setting.depths:
                    top = layer.iterated(gram, depth)
                    bound = 1 - float(layer.iterated(1 - delta, depth))
                    yield Measurement(
                        "lemma_23_over_bound",
                        float(np.linalg.eigvalsh(top)[0]) / bound,
                        activation=name,
                        depth=depth,
                        n=N,
                        seed=seed,
                        at=ratio,
                    )


def _gram(seed: int, d: int) -> Array:
    """Return the correlations (N, N) of random samples in ``d`` dimensions."""
    x = on_sphere(generator(seed, "data"), N, d)
    gram: Array = x @ x.T
    np.fill_diagonal(gram, 1.0)
    return gram


def schoenberg(setting: Setting) -> Iterator[Measurement]:
    """Measure the power series of σ̂^(L) at 0: its smallest coefficient, of the first few.

    They come from values of the dual on [-1/2, 1/2], by interpolation.
    """
    nodes = chebyshev.chebpts1(40) / 2
    for name in ACTIVATIONS:
        layer = CorrelationMap(name)
        for depth in setting.depths:
            values = layer.iterated(nodes, depth)
            series = chebyshev.cheb2poly(chebyshev.chebfit(2 * nodes, values, 39)[: TERMS + 8])
            coefficients = (series * 2.0 ** np.arange(len(series)))[:TERMS]
            least = float(coefficients.min())
            yield Measurement("series_least", least, activation=name, depth=depth)


def neural_tangent(setting: Setting) -> Iterator[Measurement]:
    """Measure the NTK of two samples beside Eq. (7).

    It prints σ̂'(σ̂^(h')(ρ)) in its products over h'; the slope of layer h' is taken at what enters
    it, σ̂^(h'-1)(ρ).
    """
    for name in ("normalized_relu", "relu", "erf"):
        layer = CorrelationMap(name)
        for depth in sorted(setting.depths)[:3]:
            for rho in (-0.5, 0.3, 0.9):
                x = np.array([[1.0, 0.0], [rho, np.sqrt(1 - rho**2)]])
                kernel = infinite.ntk(x, depth=depth, activation=name)
                common: dict[str, Any] = {"activation": name, "depth": depth, "at": rho}
                yield Measurement(
                    "ntk",
                    float(kernel[0, 1]),
                    printed=_equation_7(layer, rho, depth, late=1),
                    corrected=_equation_7(layer, rho, depth, late=0),
                    **common,
                )
            slope = layer.slope_at_one
            geometric = sum(slope**k for k in range(depth + 1))
            yield Measurement(
                "ntk_diagonal", float(kernel[0, 0]), printed=geometric, activation=name, depth=depth
            )


def _equation_7(layer: CorrelationMap, rho: float, depth: int, *, late: int) -> float:
    path = [float(layer.iterated(rho, h)) for h in range(depth + 2)]
    slopes = [float(layer.slope(path[h - 1 + late])) for h in range(1, depth + 1)]
    return float(sum(path[h - 1] * np.prod(slopes[h - 1 :]) for h in range(1, depth + 2)))
