"""Repairs of conditioning, of the samples and of the kernel, and what each gives.

Samples are changed as `prepared` says. Of the kernel, ``centred`` takes functions beside the mean,
K → H K H with H = I - 1 1ᵀ/n; ``unit_norm`` gives all gradients one norm,
K_ij → K_ij / sqrt(K_ii K_jj); ``top_directions`` brings its largest eigenvalues down to the next,
as a preconditioner of the steps does (Ma & Belkin 2017, "Diving into the shallows").
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.kernels.infinite_network import InfiniteNetwork
from ntk_conditioning.networks.activations import Activation
from ntk_conditioning.spectra.condition_numbers import EPS, growth, resolution_floor, resolved_ratio
from ntk_conditioning.spectra.labels import effective_kappa
from ntk_conditioning.training.prediction import SHARES, predicted_steps

Array = NDArray[np.float64]

#: What is repaired.
NOTHING, SAMPLES, KERNEL = "nothing", "samples", "kernel"
#: Repairs of samples beside the removal of top directions.
PREPARATIONS = ("centred", "unit_norm", "centred_unit_norm", "standardized_unit_norm")


@dataclass(frozen=True)
class Repaired:
    """A repair and what it gives.

    ``place`` is `NOTHING`, `SAMPLES` or `KERNEL`; ``directions`` counts those that are removed.
    ``kappa`` is None where its error may exceed 1. ``effective_kappa`` is that of the
    directions in which labels lie, see `labels`. Steps of gradient descent by 1/λ_max, see
    `predicted_steps`, are until the loss is at most one half, one tenth and one hundredth of its
    first value, None where it never is.
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
    x: Array, y: Array | None, *, activation: Activation, depth: int, directions: Sequence[int]
) -> Iterator[Repaired]:
    """Yield every repair of samples ``x`` (n, d) with targets ``y`` (n, c), of infinite width.

    Without targets nothing is said of labels and steps. Samples have a mean square norm of 1 after
    each repair; one that leaves a sample at 0 is left out. ``directions`` are the numbers of top
    directions that are removed.

    Raises `ZeroRowError` if a sample is 0.
    """
    y = np.zeros((len(x), 0)) if y is None else y

    def kernel(samples: Array) -> Array:
        return InfiniteNetwork(samples, depth=depth, activation=activation).ntk

    def spectrum(k: Array, y: Array) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(k)
        return values, np.square(vectors.T @ y).sum(1)

    plain = kernel(prepared(x, "none"))
    values, squares = spectrum(plain, y)
    yield _repaired(NOTHING, "none", 0, values, squares)
    removals = [("top_directions", count) for count in directions]
    for repair, removed in [*((name, 0) for name in PREPARATIONS), *removals]:
        samples = prepared(x, repair, directions=removed)
        if samples.any(axis=1).all():
            yield _repaired(SAMPLES, repair, removed, *spectrum(kernel(samples), y))
    # a basis of the functions whose mean is 0
    basis = np.linalg.qr(np.eye(len(plain))[:, 1:] - 1 / len(plain))[0]
    yield _repaired(KERNEL, "centred", 0, *spectrum(basis.T @ plain @ basis, basis.T @ y))
    root = np.sqrt(np.diag(plain))
    yield _repaired(KERNEL, "unit_norm", 0, *spectrum(plain / np.outer(root, root), y))
    for count in directions:
        lowered = np.minimum(values, values[-1 - count])
        yield _repaired(KERNEL, "top_directions", count, lowered, squares)


def prepared(x: Array, repair: str, *, directions: int = 0) -> Array:
    """Return samples ``x`` (n, d) after a repair, with a mean square norm of 1.

    ``none``, ``centred``, ``unit_norm``, ``centred_unit_norm``, ``standardized_unit_norm`` (each
    feature to mean 0 and variance 1 before) or ``top_directions``. A sample may be 0 after it.

    >>> prepared(np.array([[3.0, 0.0], [0.0, 4.0]]), "unit_norm").tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    x = np.ldexp(x, -int(np.frexp(np.abs(x).max())[1]))  # so that squares are in range
    if repair == "top_directions":
        top = np.linalg.svd(x, full_matrices=False)[2][:directions]
        rest = x - x @ top.T @ top
        x = np.where(np.abs(rest) > 1e-13, rest, 0.0)  # what is left by rounding is nothing
    elif repair.startswith(("centred", "standardized")):
        mean = x.mean(axis=0)
        # what is left of a constant feature by rounding is nothing
        x = np.where(np.abs(x - mean) > 1e-13 * np.abs(mean), x - mean, 0.0)
        if repair.startswith("standardized"):
            spread = x.std(axis=0)
            x = x / np.where(spread > 0, spread, 1.0)
    if repair.endswith("unit_norm"):
        lengths: Array = np.linalg.norm(x, axis=1, keepdims=True)
        return x / np.where(lengths > 0, lengths, 1.0)
    size = math.sqrt(float(np.square(x).sum()) / len(x))
    return x / size if size else x


def _repaired(place: str, repair: str, directions: int, values: Array, squares: Array) -> Repaired:
    """Return what eigenvalues (n,), ascending, and labels along their eigenvectors (n,) give."""
    n, largest = len(values), float(values[-1])
    error = growth(n) * EPS * largest
    # others may be below 0, by rounding
    resolved = np.where(values > resolution_floor(n, largest, EPS), values, 0.0)
    effective, steps = math.inf, [math.inf] * len(SHARES)
    if squares.any():
        effective = effective_kappa(resolved[::-1], squares[::-1] / squares.sum())
        descent: Any = {"rate": 1 / largest, "n": 1}
        steps = [
            predicted_steps(resolved, squares, **descent, share=share) for share in SHARES.values()
        ]
    kappa, _ = resolved_ratio((largest, error), (float(values[0]), error))
    numbers = n, largest, float(values[0]), kappa, effective if effective < math.inf else None
    whole = [math.ceil(t) if t < math.inf else None for t in steps]
    return Repaired(place, repair, directions, *numbers, *whole)
