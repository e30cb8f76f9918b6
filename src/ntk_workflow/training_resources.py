"""What trainings, and what goes with them, need, see `resources`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ntk_conditioning.networks import architectures
from ntk_workflow.resources import (
    EIGENVALUES,
    STARTED,
    TORCH,
    UNIT,
    ResourceEstimate,
    Row,
    conditioning,
    parameters,
    spectrum,
)
from ntk_workflow.trainings.settings import TrainingSettings

#: Samples of the kernels that predict_training describes, at most, and rows of those it solves.
PREDICTED_SAMPLES, PREDICTED_ROWS = 512, 4096
#: Samples of the kernel with which a training begins, at most.
INITIAL_SAMPLES = 1024
#: Outputs of a network where the number of classes is not known: as many as LibriSpeech's speakers.
CLASSES = 251

# Operations of torch's modules, as in `resources`: on a multiply-add of a narrow convolution, and
# on a weight that a step moves.
_CONVOLUTION, _MOVED = 0.5, 120
# Numbers that a hidden unit keeps of every sample until the gradient has passed.
_HELD = 6
# Outputs by which kernels along training are counted: a rare dataset has more.
_USUAL_CLASSES = 10
# Products of a Hessian and a vector that a sharpness takes: 7 to 13 were counted.
_HESSIANS = 10


def training(
    model: str,
    settings: TrainingSettings,
    depth: int,
    *,
    loaded: int,
    d: int,
    classes: int = 0,
    size: architectures.Sizes | None = None,
    together: bool = False,
) -> ResourceEstimate:
    """Estimate train_network: networks of one ``model`` for all seeds and learning rates.

    Each trains on samples of its seed if not on all that are ``loaded``, and is tested on a fifth
    as many. A sample takes 6 operations per weight in training, 4 of the first layer, which passes
    no gradient on, and 2 in every evaluation. Networks that diverge stop early, so that this is the
    most.

    ``size`` is that of a network of the user's own. The hidden units of mlp's networks are all held
    at once where these are computed ``together``, as on a GPU.

    Models of torch's modules spend more besides products: on hidden units, on weights that a step
    moves, and on starting each layer's operations. Their seeds take turns, see
    `architectures.seeds_in_turn`.
    """
    n = loaded if settings.samples == "all" else settings.samples
    batch = n if settings.batch_size == "all" else min(n, settings.batch_size)
    classes = 1 if settings.outputs == "scalar" else classes or CLASSES
    itemsize, width, epochs = np.dtype(settings.dtype).itemsize, settings.width, settings.epochs
    seeds, rates, n_test = len(settings.seeds), len(settings.learning_rates), loaded // 5
    networks, evaluations = seeds * rates, epochs // settings.evaluate_every + 1
    draws = seeds if n < loaded else 1
    kept = TORCH + 8 * d * 2 * (loaded + n_test)
    if not architectures.kind_of(model).by_modules:
        weights = parameters(d, width, depth, classes)
        first = d * (width if depth else classes)
        products = (6 * weights - 2 * first) * n * epochs + 2 * weights * (n + n_test) * evaluations
        placed = d * (itemsize * n_test + (itemsize + 8) * n * draws)
        hidden = itemsize * max(batch, min(1000, n)) * (2 * d + 4 * width * max(1, depth))
        hidden *= networks if together else 1
        tensors = 5 if settings.momentum else 3  # of each network, those of a checkpoint too
        held = itemsize * weights * (tensors * networks + 2)
        measured = _along(settings, n, weights, weights, units=depth * width)
        flops = networks * (products * itemsize / 8 + measured.flops)
        return ResourceEstimate(flops, kept + placed + hidden + held + measured.memory)
    image, kind = settings.image, architectures.kind_of(model)
    shape: dict[str, Any] = {"d": d, "width": width, "depth": depth, "outputs": classes}
    size = size or architectures.sizes(model, **shape, image=image)
    convolutions = kind.family in ("conv", "resnet") or (kind.family == "own" and image)
    product = _CONVOLUTION if convolutions else 1
    trained = n * epochs * (product * (6 * size.products - 2 * size.first) + UNIT * size.units)
    evaluated = (n + n_test) * evaluations * (2 * product * size.products + UNIT / 3 * size.units)
    moved = epochs * math.ceil(n / batch) * (_MOVED * size.weights + STARTED * depth)
    flops = networks * (trained + evaluated + moved) * itemsize / 8
    placed = 2 * d * itemsize * (n + n_test) * draws
    hidden = itemsize * max(_HELD * batch, 4 * min(1000, n)) * (size.units + d)
    # Of each network weights and momentum, both again in a checkpoint, and gradients for a while.
    side_by_side = max(rates * size.weights, architectures.AT_ONCE)
    held = itemsize * (4 * min(networks * size.weights, side_by_side) + 2 * size.weights)
    measured = _along(settings, n, product * size.products + UNIT / 6 * size.units, size.weights)
    flops += networks * measured.flops
    return ResourceEstimate(flops, kept + placed + hidden + held + measured.memory)


def _along(
    settings: TrainingSettings, n: int, products: float, weights: int, units: int = 0
) -> ResourceEstimate:
    """Estimate the kernels and the sharpness of one network along its training.

    Of s samples the kernel takes products of s² pairs of gradients, by all weights or, of mlp, by
    its ``units``, with a pass for every output, and the sharpness so many products of the Hessian
    and a vector, each of 12 operations per weight and sample.
    """
    if settings.kernels_along is None:
        return ResourceEstimate(0, 0)
    itemsize, (samples, points) = np.dtype(settings.dtype).itemsize, settings.kernels_along
    classes = 1 if settings.outputs == "scalar" else _USUAL_CLASSES
    s, points = min(n, samples), min(points, settings.epochs // settings.evaluate_every + 2)
    kernel = 4 * s * classes * products + 2 * s**2 * classes * (units or weights)
    curvature = _HESSIANS * 12 * s * products * itemsize / 8
    memory = 3 * 8 * s**2 + itemsize * weights * (_HESSIANS + 4) + (10**9 if not units else 2**28)
    return ResourceEstimate(points * (kernel + EIGENVALUES * s**3 + curvature), memory)


def initial_kernel(
    model: str,
    activation: str,
    settings: TrainingSettings,
    depth: int,
    *,
    loaded: int,
    d: int,
    size: architectures.Sizes | None = None,
) -> ResourceEstimate:
    """Estimate the kernels of at most `INITIAL_SAMPLES` with which a training's seeds begin.

    ``size`` is that of a network of the user's own. Of torch's modules a kernel is at most a
    product of all gradients. A processor computes it, also where a GPU trains.
    """
    n, seeds = loaded if settings.samples == "all" else settings.samples, len(settings.seeds)
    seeds = len(settings.critical_seeds) or seeds
    m, width = min(n, INITIAL_SAMPLES), settings.width
    row = Row(
        n=2 * loaded + seeds * n, d=d, depths=[depth], seeds=seeds, width=width, kernel_size=m
    )
    if not architectures.kind_of(model).by_modules:
        one = spectrum(activation, row)
        return ResourceEstimate(one.flops, one.memory + 2 * 8 * m * d)
    shape: dict[str, Any] = {"d": d, "width": width, "depth": depth, "outputs": 1}
    size = size or architectures.sizes(model, **shape, image=settings.image)
    flops = conditioning(row) + m * (6 * size.products + UNIT * size.units) + m**2 * size.weights
    return ResourceEstimate(seeds * flops, TORCH + 8 * d * row.n + 3 * 8 * m**2 + 10**9)


def prediction(
    model: str,
    settings: TrainingSettings,
    depths: Sequence[int],
    *,
    loaded: int,
    d: int,
    classes: int = 0,
    sizes: Sequence[architectures.Sizes] = (),
) -> ResourceEstimate:
    """Estimate predict_training: all depths, of which mlp keeps the gradients of all outputs.

    Of mlp a step takes 4 operations per weight and sample, and 4 per output and hidden unit; in
    evaluations it is half as many. Those of ``sizes``, of a ``model`` of torch's modules, take at
    most twice as long as in training; where there is a closed form, it is the kernel that does.
    """
    n = loaded if settings.samples == "all" else settings.samples
    settings = replace(settings, dtype="float64", mixed_precision=False)
    width, seeds = settings.width, len(settings.seeds)
    block, flops, memory = min(n, PREDICTED_SAMPLES), 0.0, 0.0
    if architectures.kind_of(model).by_modules:
        closed = settings.loss == "square" and settings.batch_size in ("all", n)
        outputs = 1 if settings.outputs == "scalar" else _USUAL_CLASSES
        rows = min(PREDICTED_ROWS, n * outputs)
        for depth, size in zip(depths, sizes, strict=True):
            trained = training(model, settings, depth, loaded=loaded, d=d, size=size)
            shown = block * outputs * (6 * size.products + UNIT * size.units + block * size.weights)
            solved = rows**2 * size.weights + EIGENVALUES * rows**3
            flops += seeds * shown + (seeds * solved if closed else 2 * trained.flops)
            memory = max(memory, trained.memory)
        return ResourceEstimate(flops, memory + 3 * 8 * (rows if closed else block) ** 2 + 10**9)
    classes = 1 if settings.outputs == "scalar" else classes or CLASSES
    passes = settings.epochs + (settings.epochs // settings.evaluate_every + 1) / 2
    for depth in depths:
        weights, units = parameters(d, width, depth, classes), depth * width
        step = 4 * n * (weights + classes * units)
        drawn = 2 * n * classes * weights + 2 * block**2 * classes * units + EIGENVALUES * block**3
        flops += seeds * (len(settings.learning_rates) * step * passes + drawn)
        moved = 8 * weights * len(settings.learning_rates) * (2 if settings.momentum else 1)
        memory = max(memory, 2 * 8 * n * (classes + 2) * units + moved)
    return ResourceEstimate(flops, TORCH + 8 * d * (2 * loaded + n) + 4 * 8 * block**2 + memory)
