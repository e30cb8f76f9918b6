"""Kernels of several samples: Lemma 23, Schoenberg's theorem and Eq. (7)."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from numpy.polynomial import chebyshev

from ntk_conditioning.claim_experiments import Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.agarwal2021deep.maps import CorrelationMap
from ntk_conditioning.claim_experiments.numerics import on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.seeds import generator

N = 24
#: Dimension over samples.
RATIOS = (1.0, 2.0, 8.0)
ACTIVATIONS = ("normrelu", "normalized_relu", "relu", "tanh", "selu", "gelu")
#: Terms of a power series that are looked at.
TERMS = 9


def eigenvalue_bound(setting: Setting) -> Measurements:
    """Measure Lemma 23: the smallest eigenvalue of f[K], f = σ̂^(L), over f(1) - f(1 - δ).

    δ is the smallest eigenvalue of K, the correlations of random samples; with another spectrum
    for every ratio ``at`` of dimension to samples.
    """
    for name in ACTIVATIONS:
        layer = CorrelationMap(name)
        for seed, ratio in itertools.product(setting.seeds, RATIOS):
            row = partial(Measurement, activation=name, n=N, seed=seed, at=ratio)
            x = on_sphere(generator(seed, "data"), N, round(ratio * N))
            gram = x @ x.T
            np.fill_diagonal(gram, 1.0)
            delta = float(np.linalg.eigvalsh(gram)[0])
            for depth in setting.depths:
                least = np.linalg.eigvalsh(layer.iterated(gram, depth))[0]
                bound = 1 - float(layer.iterated(1 - delta, depth))
                yield row("lemma_23_over_bound", least / bound, depth=depth)


def schoenberg(setting: Setting) -> Measurements:
    """Measure the power series of σ̂^(L) at 0: its smallest coefficient, of the first few.

    They come from values of the dual on [-1/2, 1/2], by interpolation.
    """
    nodes = chebyshev.chebpts1(40) / 2
    for name in ACTIVATIONS:
        layer = CorrelationMap(name)
        for depth in setting.depths:
            values = layer.iterated(nodes, depth)
            series = chebyshev.cheb2poly(chebyshev.chebfit(2 * nodes, values, 39)[: TERMS + 8])
            least = (series * 2.0 ** np.arange(len(series)))[:TERMS].min()
            yield Measurement("series_least", least, activation=name, depth=depth)


def neural_tangent(setting: Setting) -> Measurements:
    """Measure the NTK of two samples beside Eq. (7).

    It prints σ̂'(σ̂^(h')(ρ)) in its products over h'; the slope of layer h' is taken at what enters
    it, σ̂^(h'-1)(ρ).
    """
    for name in ("normalized_relu", "relu", "erf"):
        layer = CorrelationMap(name)
        for depth in sorted(setting.depths)[:3]:
            row = partial(Measurement, activation=name, depth=depth)
            for rho in (-0.5, 0.3, 0.9):
                x = np.array([[1.0, 0.0], [rho, np.sqrt(1 - rho**2)]])
                kernel = infinite.ntk(x, depth=depth, activation=name)
                printed, right = (_equation_7(layer, rho, depth, late=late) for late in (1, 0))
                yield row("ntk", kernel[0, 1], printed, right, at=rho)
            geometric = sum(layer.slope_at_one**k for k in range(depth + 1))
            yield row("ntk_diagonal", kernel[0, 0], geometric)


def _equation_7(layer: CorrelationMap, rho: float, depth: int, *, late: int) -> float:
    path = [float(layer.iterated(rho, h)) for h in range(depth + 2)]
    slopes = [float(layer.slope(path[h - 1 + late])) for h in range(1, depth + 1)]
    return float(sum(path[h - 1] * np.prod(slopes[h - 1 :]) for h in range(1, depth + 2)))


EXPERIMENTS = (eigenvalue_bound, schoenberg, neural_tangent)
