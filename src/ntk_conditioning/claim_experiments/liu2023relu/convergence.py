"""Gradient descent as slow as it can be: Section 6's bounds on the square loss.

Labels differ from a network's outputs by a little of the kernel's last eigenvector, so that weights
hardly move, and each step multiplies the residuals by 1 - η λ_min.
"""

import itertools
import math
from functools import partial

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import descent_losses, on_sphere
from ntk_conditioning.kernels.empirical import ntk
from ntk_conditioning.networks.mlp import forward, init_mlp
from ntk_conditioning.seeds import generator

N, D = 8, 16
WIDTH = 256
STEPS = 20
SMALL = 1e-4  # norm of the residuals
SIZES = (0.5, 1.0)  # of a step, times 1 / λ_max


def slowest_descent(setting: Setting) -> Measurements:
    """Measure the rate of the loss L = |f - y|²/2 over those of Section 6, and over the exact one.

    Those are (1 - η λ_min/2)^t and, for η = 1/λ_max, the (1 - 1/κ)^t of Eq. (13).
    """
    for seed, depth in itertools.product(setting.seeds, setting.depths):
        x = torch.from_numpy(on_sphere(generator(seed, "data"), N, D))
        init = generator(seed, "init")
        mlp = init_mlp(D, depth=depth, width=WIDTH, activation="relu", generator=init)
        values, vectors = np.linalg.eigh(ntk(mlp, x).numpy())
        y = forward(mlp, x) + SMALL * torch.from_numpy(vectors[:, 0].copy())
        for size in SIZES:
            step = size / values[-1]
            losses = descent_losses(mlp, x, y, step=step, steps=STEPS)
            rate = math.log(losses[-1] / losses[0]) / STEPS
            row = partial(Measurement, depth=depth, width=WIDTH, n=N, d=D, seed=seed, at=size)
            yield row("descent_rate", rate, math.log1p(-step * values[0] / 2))
            yield row("slowest_rate", rate, None, 2 * math.log1p(-step * values[0]))
            if size == 1.0:
                yield row("descent_rate_kappa", rate, math.log1p(-values[0] / values[-1]))
