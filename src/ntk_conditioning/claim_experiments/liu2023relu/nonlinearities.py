"""Other activations than ReLU, of which Section 7 expects similar results, at infinite width."""

import itertools
import math
from functools import partial

import numpy as np

from ntk_conditioning.claim_experiments import Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.seeds import generator

PLAIN = ("leaky_relu", "erf", "tanh", "gelu", "selu", "sigmoid", "softplus")
ACTIVATIONS = (*PLAIN, *(f"normalized_{name}" for name in ("gelu", "sigmoid", "softplus")))
N = 16
CLOSE = 0.1  # radians between the first two samples


def other_activations(setting: Setting) -> Measurements:
    """Measure a close pair's gradient angle over its input angle, and kappa over the Gram's."""
    for seed, activation in itertools.product(setting.seeds[:3], ACTIVATIONS):
        x = on_sphere(generator(seed, "data"), N, 2 * N)
        across = x[1] - (x[1] @ x[0]) * x[0]
        x[1] = math.cos(CLOSE) * x[0] + math.sin(CLOSE) * across / np.linalg.norm(across)
        gram = np.linalg.cond(x @ x.T)
        for depth in setting.depths:
            row = partial(Measurement, activation=activation, depth=depth)
            kernel = infinite.ntk(x, depth=depth, activation=activation)
            ratio = np.linalg.cond(kernel) / gram
            yield row("other_kappa_over_gram", ratio, n=N, d=2 * N, seed=seed)
            if seed == setting.seeds[0]:  # all have that pair
                phi = math.acos(kernel[0, 1] / kernel[0, 0])
                yield row("other_separation", phi / CLOSE, at=CLOSE)
