"""What trainings, and what goes with them, need, see `resources`."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ntk_conditioning.networks import architectures
from ntk_conditioning.networks.architectures import Sizes, kind_of
from ntk_workflow.resources import (
    EIGENVALUES,
    FLOP,
    PROGRAM,
    TORCH_START,
    Samples,
    Size,
    weights,
)
from ntk_workflow.trainings.settings import TrainingSettings

#: Samples of the kernels at initialisation and of those that predictions describe, at most, and
#: rows of kernels that they solve; classes where they are not known, as LibriSpeech's speakers.
INITIAL_SAMPLES, PREDICTED_SAMPLES, PREDICTED_ROWS, CLASSES = 1024, 512, 4096, 251
#: Seconds in float64, of torch's modules on a hidden unit of a sample in a step, and, in a step, of
#: a layer and of a weight that moves.
UNIT, LAYER, MOVED = 5e-8, 5e-4, 3e-9
#: How many times as fast as a core an H100 trains networks of mlp, other modules, convolutions.
MLP, MODULES, CONVOLUTIONS = 250, 175, 40
#: Products of a Hessian and a vector that a sharpness takes.
HESSIANS = 10


def training(
    model: str,
    settings: TrainingSettings,
    depth: int,
    samples: Samples,
    *,
    sizes: Sizes | None = None,
    together: bool = False,
) -> Size:
    """Return the size of the training of a network with all its seeds and learning rates.

    They are tested on a fifth as many samples as there are. Those that diverge stop early, so that
    this is the most. Networks of mlp hold their hidden units at once if computed ``together``.
    """
    sizes, kind = sizes or sizes_of(model, settings, depth, samples), kind_of(model)
    n, n_test = samples_of(settings, samples), samples.n // 5
    batch = n if settings.batch_size == "all" else min(n, settings.batch_size)
    seeds, rates = len(settings.seeds), len(settings.learning_rates)
    itemsize, networks = np.dtype(settings.dtype).itemsize, seeds * rates
    evaluations = settings.epochs // settings.evaluate_every + 1
    step = FLOP * (6 * sizes.products - 2 * sizes.first)
    layer, tensors, gpu = LAYER / 5, 5 if settings.momentum else 3, MLP
    held: float = networks  # at once
    if kind.by_modules:
        images = kind.needs_images or (kind.family == "own" and settings.image)
        step = step * (0.5 if images else 1) + UNIT * sizes.units
        layer, tensors, gpu = LAYER, 4, CONVOLUTIONS if images else MODULES
        # seeds take turns where their weights are many, see `architectures.seeds_in_turn`
        held = min(networks, max(rates, architectures.AT_ONCE / sizes.weights))
    seconds = step * (n * settings.epochs + (n + n_test) * evaluations / 3)
    moves = settings.epochs * math.ceil(n / batch)
    seconds += moves * (MOVED * sizes.weights + layer * (depth + 1))
    hidden = max((6 if kind.by_modules else 4) * batch, 4 * min(1000, n))
    hidden *= sizes.units + samples.d
    draws = seeds if n < samples.n else 1
    memory: float = PROGRAM + 16 * samples.d * (samples.n + n_test)
    memory += (itemsize + 8) * samples.d * (n_test + n * draws)
    memory += itemsize * hidden * (networks if together else 1)
    # weights, gradients and momentum, and those of a checkpoint
    memory += itemsize * sizes.weights * (tensors * held + 2)
    if settings.kernels_along:
        s, points = min(n, settings.kernels_along[0]), settings.kernels_along[1]
        kernel = _kernel(model, sizes, s, outputs_of(settings, samples))
        kernel += FLOP * 12 * HESSIANS * s * sizes.products
        seconds += kernel * min(points, evaluations + 1)
        memory += 3 * 8 * s**2 + itemsize * sizes.weights * (HESSIANS + 4) + 10**9
    return Size(TORCH_START + networks * seconds * itemsize / 8, memory, gpu)


def initial_kernel(model: str, settings: TrainingSettings, samples: Samples, sizes: Sizes) -> Size:
    """Return the size of the kernels of one output with which a training's seeds begin."""
    n, seeds = samples_of(settings, samples), settings.critical_seeds or settings.seeds
    m = min(n, INITIAL_SAMPLES)
    memory = _gradients(model) + samples.bytes(3) + 8 * samples.d * len(seeds) * n + 4 * 8 * m**2
    return Size(len(seeds) * _kernel(model, sizes, m, 1), memory)


def prediction(
    model: str, settings: TrainingSettings, depth: int, samples: Samples, sizes: Sizes
) -> Size:
    """Return the size of the predictions of a depth: kernels that are solved, or expansions.

    Expansions of mlp keep the gradients of all outputs; those of torch's modules take at most twice
    as long as the training.
    """
    settings = replace(settings, dtype="float64", mixed_precision=False, kernels_along=None)
    n, outputs = samples_of(settings, samples), outputs_of(settings, samples)
    rates = len(settings.learning_rates)
    seconds = _kernel(model, sizes, min(n, PREDICTED_SAMPLES), outputs)
    memory = _gradients(model) + samples.bytes(3)
    solved = settings.loss == "square" and settings.batch_size in ("all", n)
    if solved and not settings.momentum and n * outputs <= PREDICTED_ROWS:
        seconds += _kernel(model, sizes, n, outputs) + 4 * EIGENVALUES * (n * outputs) ** 3
        memory += 4 * 8 * (n * outputs) ** 2
    elif kind_of(model).by_modules:
        trained = training(model, settings, depth, samples, sizes=sizes)
        seconds, memory = 2 * trained.seconds / len(settings.seeds), memory + trained.memory
    else:
        step = FLOP * 4 * n * (sizes.products + outputs * sizes.units)
        seconds += rates * step * settings.epochs * (1 + 0.5 / settings.evaluate_every)
        memory += 2 * 8 * n * (outputs + 2) * sizes.units + 8 * 2 * rates * sizes.weights
    return Size(len(settings.seeds) * seconds, memory)


def sizes_of(model: str, settings: TrainingSettings, depth: int, samples: Samples) -> Sizes:
    """Return the sizes of a network that is built in."""
    outputs, width = outputs_of(settings, samples), settings.width
    if depth == 0:
        total = weights(samples.d, width, 0, outputs)
        return Sizes(total, total, first=total, units=outputs)
    shape: dict[str, Any] = {"d": samples.d, "width": width, "depth": depth, "outputs": outputs}
    return architectures.sizes(model, **shape, image=settings.image)


def samples_of(settings: TrainingSettings, samples: Samples) -> int:
    """Return how many samples a seed trains on."""
    return samples.n if settings.samples == "all" else settings.samples


def outputs_of(settings: TrainingSettings, samples: Samples) -> int:
    """Return the outputs of a network."""
    return 1 if settings.outputs == "scalar" else samples.classes or CLASSES


def _gradients(model: str) -> float:
    """Return the bytes of a program with the gradients of a kernel that it keeps at once."""
    return PROGRAM + (10**9 if kind_of(model).by_modules else 2**28)


def _kernel(model: str, sizes: Sizes, n: int, outputs: int) -> float:
    """Return the seconds of the kernel of n samples, from the gradients of all outputs.

    Those of mlp are outer products, layer by layer.
    """
    by_modules = kind_of(model).by_modules
    pair = sizes.weights if by_modules else 2 * sizes.units
    gradients = 6 * FLOP * sizes.products + UNIT * sizes.units * by_modules
    return outputs * (n * gradients + FLOP * n**2 * pair) + EIGENVALUES * n**3
