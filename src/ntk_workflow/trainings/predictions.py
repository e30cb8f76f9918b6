"""What the NTK at initialisation says of a training, in float64 whatever the training is in."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ntk_conditioning.seeds import generator
from ntk_conditioning.spectra.condition_numbers import EPS, conditioning, resolution_floor
from ntk_conditioning.spectra.labels import effective_kappa, kernel_target_alignment, label_spectrum
from ntk_conditioning.training.kernels_along import module_kernel
from ntk_conditioning.training.linearised import Expansion
from ntk_conditioning.training.prediction import (
    SHARES,
    predicted_losses,
    predicted_steps,
    time_columns,
    times,
)
from ntk_conditioning.training.trainer import NetworkSpec, Split, Training
from ntk_workflow.trainings.networks import Rows, TrainingTask

#: Samples of the kernel that is described, at most, and eigenvalues at which label energy is given.
MOST_SAMPLES, RANKS = 512, 64
#: Rows of a kernel of all outputs whose eigenvectors are computed, at most.
MOST_ROWS = 4096


def initial_kernel(
    task: TrainingTask, seed: int, x: Tensor, kernel: Literal["mean_of_kernels", "full"]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the outputs (n, c) of a seed's network at samples, and its kernel, in their type."""
    network = task.make(generator(seed, "init"), dtype=x.dtype)
    with torch.no_grad():
        return network(x)[0].numpy(), module_kernel(network, x, kernel).numpy()


def describe(task: TrainingTask, seed: int, part: Split) -> dict[str, Any]:
    """Return the columns of the kernel at initialisation and of the labels in it."""
    block = generator(seed, "blocks").permutation(len(part.x))[:MOST_SAMPLES]
    f, k = initial_kernel(task, seed, part.x[block], "mean_of_kernels")
    targets = task.loss(torch.float64).codes[part.y[block]].numpy()
    spectrum, (eigenvalues, energy) = conditioning(k), label_spectrum(k, targets - f)
    effective = effective_kappa(eigenvalues, energy)
    resolved = effective * spectrum.resolution_floor < spectrum.lambda_max
    ranks = np.unique(np.geomspace(1, len(k), RANKS).round().astype(np.int64))
    return {
        "kernel_n": len(k),
        "lambda_max": spectrum.lambda_max,
        "kappa": spectrum.kappa,
        "effective_kappa": effective if resolved else None,
        "alignment": kernel_target_alignment(k, targets),
        "critical_learning_rate": 2 * len(k) / spectrum.lambda_max,
        "ranks": ranks.astype(float).tolist(),
        "eigenvalues": eigenvalues[ranks - 1].tolist(),
        "label_energy": np.cumsum(energy)[ranks - 1].tolist(),
    }


def predict(task: TrainingTask, seed: int, part: Split, rates: Sequence[float]) -> Rows:
    """Return each rate's prediction for a seed's network.

    For plain full-batch descent on the square loss it is a sum over eigenvectors; otherwise the
    network's expansion in its weights is trained, on the same samples in the same order.
    """
    settings = replace(task.settings, mixed_precision=False)
    n, loss, rows = len(part.x), task.loss(torch.float64), Rows()
    plain = (
        settings.plain
        and not settings.momentum
        and (settings.batch_size == "all" or settings.batch_size >= n)
    )
    if plain and settings.loss == "square" and n * loss.outputs <= MOST_ROWS:
        f, kernel = initial_kernel(task, seed, part.x, "full")
        values, vectors = np.linalg.eigh(kernel)
        values[values < resolution_floor(len(values), values[-1], EPS)] = 0  # by rounding only
        squares = np.square(vectors.T @ (loss.codes[part.y].numpy() - f).reshape(-1))
        for rate in rates:
            of: Any = {"rate": rate, "n": n}
            with np.errstate(over="ignore"):  # above the critical rate
                curve = predicted_losses(values, squares, **of, steps=settings.evaluated)
            when = {k: predicted_steps(values, squares, **of, share=SHARES[k]) for k in SHARES}
            losses = [loss if math.isfinite(loss) else None for loss in curve.tolist()]
            row = {"method": "eigenvectors", "predicted_loss": losses}
            rows.append(row | time_columns(when, prefix="predicted_"))
        return rows

    def make(rng: np.random.Generator) -> Expansion:
        return Expansion(task.make(rng, dtype=torch.float64))

    members = [NetworkSpec(seed, rate) for rate in rates]
    ensemble = Training(make, loss, members, {seed: part}, descent=settings)
    while not ensemble.finished:
        ensemble.advance()
    for curve in ensemble.metrics["train_loss"][settings.evaluated].T:
        losses = [loss if math.isfinite(loss) else None for loss in curve.tolist()]
        row = {"method": "flow", "predicted_loss": losses}
        rows.append(row | times(settings.evaluated, losses, prefix="predicted_"))
    return rows
