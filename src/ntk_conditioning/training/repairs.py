"""Repairs of conditioning by preconditioning, on the samples and on the kernel: what each gives.

On samples: to subtract their mean, to divide each by its norm, to remove their top directions. On
the kernel: to take functions beside the mean, K → H K H with H = I - 1 1ᵀ/n; to give all samples
one gradient norm, K_ij → K_ij / sqrt(K_ii K_jj); to bring its largest eigenvalues down to the next
one, as a preconditioner of the steps does (Ma & Belkin 2017, "Diving into the shallows: a
computational perspective on large-scale shallow learning"). Each gives another kappa, and another
number of steps of gradient descent on the square loss, in steps of 1/λ_max, as `prediction` has it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.kernels.infinite import Layer
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.spectra.conditioning import resolution_floor
from ntk_conditioning.spectra.labels import LabelSpectrum
from ntk_conditioning.training.prediction import predicted_steps

Array = NDArray[np.float64]

#: What is repaired.
NOTHING, SAMPLES, KERNEL = "nothing", "samples", "kernel"


@dataclass(frozen=True)
class Repaired:
    """A repair and what it gives.

    ``place`` is `NOTHING`, `SAMPLES` or `KERNEL`; ``directions`` counts those that are removed.
    ``kappa`` is None where ``lambda_min`` is not resolved. ``effective_kappa`` is that of the
    directions in which labels lie, see `LabelSpectrum`; steps are until the loss is at most one
    half, one tenth and one hundredth of its first value, None where it never is.
    """

    place: str
    repair: str
    directions: int
    n: int
    lambda_max: float
    lambda_min: float
    kappa: float | None
    effective_kappa: float | None
    steps_half: int | None
    steps_tenth: int | None
    steps_hundredth: int | None


def repairs(
    x: Array, y: Array, *, activation: Activation, depth: int, directions: Sequence[int]
) -> Iterator[Repaired]:
    """Yield every repair of samples ``x`` (n, d) with targets ``y`` (n, c), of infinite width.

    Samples have a mean square norm of 1 after each repair. ``directions`` are the numbers of top
    directions that are removed.
    """
    for place, repair, removed, samples in _samples(x, directions):
        k = Layer(samples, depth=depth, activation=activation).ntk
        yield _measured(place, repair, removed, k, y)
        if place == NOTHING:
            plain = k
    n = len(plain)
    centring = np.eye(n) - 1 / n
    # in a basis of the functions whose mean is 0
    basis = np.linalg.qr(centring[:, 1:])[0]
    yield _measured(KERNEL, "centred", 0, basis.T @ plain @ basis, basis.T @ y)
    root = np.sqrt(np.diag(plain))
    yield _measured(KERNEL, "unit_norm", 0, plain / np.outer(root, root), y)
    values, vectors = np.linalg.eigh(plain)
    for count in directions:
        lowered = np.minimum(values, values[-1 - count])
        yield _of(KERNEL, "top_directions", count, lowered, np.square(vectors.T @ y).sum(1))


def _samples(x: Array, directions: Sequence[int]) -> Iterator[tuple[str, str, int, Array]]:
    """Yield samples as they are, and with each repair."""
    yield NOTHING, "none", 0, _scaled(x)
    centred = x - x.mean(axis=0)
    yield SAMPLES, "centred", 0, _scaled(centred)
    yield SAMPLES, "unit_norm", 0, _units(x)
    yield SAMPLES, "centred_unit_norm", 0, _units(centred)
    for count in directions:
        top = np.linalg.svd(x, full_matrices=False)[2][:count]
        yield SAMPLES, "top_directions", count, _scaled(x - x @ top.T @ top)


def _scaled(x: Array) -> Array:
    """Return samples with a mean square norm of 1."""
    return x / math.sqrt(float(np.square(x).sum()) / len(x))


def _units(x: Array) -> Array:
    lengths: Array = np.linalg.norm(x, axis=1, keepdims=True)
    return x / lengths


def _measured(place: str, repair: str, directions: int, k: Array, y: Array) -> Repaired:
    values, vectors = np.linalg.eigh(k)
    return _of(place, repair, directions, values, np.square(vectors.T @ y).sum(1))


def _of(place: str, repair: str, directions: int, values: Array, squares: Array) -> Repaired:
    """Return what eigenvalues (n,), ascending, and labels along their eigenvectors (n,) give."""
    n, largest = len(values), float(values[-1])
    floor = resolution_floor(n, largest, float(np.finfo(np.float64).eps))
    told = np.where(values > floor, values, 0.0)  # others may be below 0, by rounding
    labels = LabelSpectrum(told[::-1], squares[::-1] / squares.sum())
    times = (
        predicted_steps(told, squares, rate=1 / largest, n=1, share=share)
        for share in (1 / 2, 1 / 10, 1 / 100)
    )
    half, tenth, hundredth = (math.ceil(t) if t < math.inf else None for t in times)
    return Repaired(
        place=place,
        repair=repair,
        directions=directions,
        n=n,
        lambda_max=largest,
        lambda_min=float(values[0]),
        kappa=largest / float(values[0]) if values[0] > floor else None,
        effective_kappa=effective if (effective := labels.effective_kappa) < math.inf else None,
        steps_half=half,
        steps_tenth=tenth,
        steps_hundredth=hundredth,
    )
