"""Where Theorem 4.5 ends at finite width: a pair so close that no unit tells it apart.

A pair at angle theta lies on both sides of m theta/pi of m units' hyperplanes. Below one, the
network is linear between the two: its gradient angle is theta times a constant near 1, and kappa
grows as theta^-2 like the Gram matrix's, while at infinite width it grows as theta^-1.
"""

import itertools
import math
from functools import partial

import numpy as np
import torch

from ntk_conditioning.claim_experiments import Array, Measurement, Measurements, Setting
from ntk_conditioning.claim_experiments.numerics import exponent, on_sphere
from ntk_conditioning.kernels import infinite
from ntk_conditioning.kernels.empirical import ntk, pair_angle
from ntk_conditioning.networks.mlp import init_mlp
from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.conditioning import conditioning, conditioning_from_factor
from ntk_conditioning.theory import liu2023relu as theory

N, D = 16, 32
ANGLES = [float(at) for at in np.geomspace(1e-7, 1.0, 15)]


def close_pairs(setting: Setting) -> Measurements:
    """Measure gradient angles and kappa as one pair of N samples comes closer.

    ``separation`` is phi / theta_in beside Theorem 4.4's. Only resolved kappas are
    yielded; their exponent is that of angles so small that it has settled.
    """
    depths = sorted({min(setting.depths), max(setting.depths)})
    for depth, seed in itertools.product(depths, setting.seeds):
        row = partial(Measurement, activation="relu", n=N, d=D, seed=seed, depth=depth)
        samples = [_samples(seed, at) for at in ANGLES]
        kappas: dict[float, float | None] = {}
        for at, x in zip(ANGLES, samples, strict=True):
            kappas[at] = conditioning(infinite.ntk(x, depth=depth, activation="relu")).kappa
            if (gram := conditioning_from_factor(x).kappa) is not None:
                yield row("gram_kappa", gram, at=at)
        yield from _resolved(kappas, row, largest=1e-2)
        for width in setting.widths:
            row = partial(row, width=width)
            init = generator(seed, "init")
            mlp = init_mlp(D, depth=depth, width=width, activation="relu", generator=init)
            # the second sample alone moves
            rest, moving = np.delete(samples[0], 1, axis=0), np.array([rows[1] for rows in samples])
            kernel = ntk(mlp, torch.from_numpy(np.concatenate([rest, moving]))).numpy()
            still = np.broadcast_to(rest[0], moving.shape).copy()
            angles = pair_angle(mlp, torch.from_numpy(still), torch.from_numpy(moving)).tolist()
            for number, (at, phi) in enumerate(zip(ANGLES, angles, strict=True)):
                printed = float(theory.gradient_angle(at, depth)) / at
                yield row("separation", phi / at, printed, at=at)
                chosen = [*range(N - 1), N - 1 + number]
                kappas[at] = conditioning(kernel[np.ix_(chosen, chosen)]).kappa
            yield from _resolved(kappas, row, largest=0.05 / (width * depth))


def _resolved(
    kappas: dict[float, float | None], row: partial[Measurement], *, largest: float
) -> Measurements:
    """Yield kappas, and the exponent with which they grow as angles fall, below the ``largest``."""
    resolved = {at: kappa for at, kappa in kappas.items() if kappa is not None}
    for at, kappa in resolved.items():
        yield row("separation_kappa", kappa, at=at)
    close = {at: kappa for at, kappa in resolved.items() if at < largest}
    if len(close) > 2:
        yield row("separation_kappa_exponent", exponent(list(close), list(close.values())))


def _samples(seed: int, angle: float) -> Array:
    """Return samples (N, D) on the sphere, the first two at an angle."""
    rows = on_sphere(generator(seed, "data"), N, D)
    across = rows[1] - (rows[1] @ rows[0]) * rows[0]
    across /= np.linalg.norm(across)
    rows[1] = math.cos(angle) * rows[0] + math.sin(angle) * across
    return rows
