"""What jobs need: for each rule a formula of seconds and memory, found by the rule's name.

It takes a job's wildcards, the config's keys as they hold for its dataset, and the samples. The
constants are coarse, from a core of a server and an H100.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from ntk_conditioning.memory import kernel_bytes
from ntk_conditioning.networks import activations, architectures
from ntk_conditioning.networks.architectures import Sizes, kind_of
from ntk_conditioning.training.descent import AUTO_RATES

#: Bytes of a program without data.
PROGRAM = 6 * 10**8
#: Seconds of an operation in products of float64 matrices; of all eigenvalues of n rows, per n³.
FLOP, EIGENVALUES = 2.5e-11, 1.4e-10
#: The longest time that a job asks for, in minutes: few partitions grant more. What takes longer
#: goes on from its checkpoint when it is tried again.
MOST_MINUTES = 24 * 60

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Size:
    """A job's ``seconds`` on one core, than which a GPU is ``gpu`` times as fast, and bytes."""

    seconds: float
    memory: float
    gpu: float = 1


@dataclass(frozen=True)
class Samples:
    """The samples of a dataset: ``n`` of ``d`` features, and what they are."""

    n: int
    d: int
    image: tuple[int, int, int] | None = None
    classes: int = 0  # 0 if that is not known

    def bytes(self, copies: int) -> int:
        return copies * 8 * self.n * self.d


def prepare_dataset(w: Any, config: Config, samples: Samples) -> Size:
    """Read and scale all samples."""
    return Size(5e-9 * samples.n * samples.d, PROGRAM + samples.bytes(5))


def describe_dataset(w: Any, config: Config, samples: Samples) -> Size:
    """Compute the rank and the smallest angle of the samples."""
    n, d = samples.n, samples.d
    return Size(FLOP * n * d * (n + 12 * min(n, d)), PROGRAM + samples.bytes(4))


def advise_dataset(w: Any, config: Config, samples: Samples) -> Size:
    """Compute all pairs of samples, spectra and random networks."""
    n, d = samples.n, samples.d
    seconds = 8 + FLOP * 3 * n * d * (n + d) + 3 * EIGENVALUES * d**3
    return Size(seconds, PROGRAM + 10**9 + samples.bytes(8) + 48 * d**2)


def compute_spectrum(w: Any, config: Config, samples: Samples) -> Size:
    """Compute passes through the network, products of gradients, and eigenvalues."""
    m, kernels, solved = kernel_blocks(config, samples)
    d, width, itemsize = samples.d, config["width"], np.dtype(config["dtype"]).itemsize
    numbers, seconds = d + 2 * width * max(config["depths"]), 0.0
    for depth in config["depths"]:
        if w.activation == "linear" or depth == 0:
            seconds += 12 * FLOP * m * d * min(m, d) * (1 + depth)
        else:
            products = 4 * width * (d + width * depth) + m * (d + 2 * width * depth)
            seconds += FLOP * m * products + solved
    if w.activation == "linear":
        kept = 32 * (m + d) * numbers
    else:
        # LAPACK copies the kernel, in float64
        copies = 20 // itemsize if m < config["full_spectrum_below"] else 1
        kept = kernel_bytes(m, itemsize=itemsize, row_bytes=itemsize * numbers, copies=copies)
        # all gradients are kept if they take up to half of the kernel
        kept += min(m * itemsize * numbers, max(2**28, m * m * itemsize // 2))
    memory = PROGRAM + samples.bytes(1) + kept + 16 * width * numbers
    return Size(kernels * seconds, memory, gpu=7)


def compute_infinite_spectrum(w: Any, config: Config, samples: Samples) -> Size:
    """Take all pairs of a block through the layers, and compute eigenvalues."""
    m, kernels, solved = kernel_blocks(config, samples)
    seconds = sum(layers(w.activation, m, depth) + solved for depth in config["depths"])
    seconds += len(config["depths"]) * 3 * FLOP * m**2 * samples.d
    memory = kernel_bytes(m, itemsize=8, row_bytes=24 * samples.d, copies=2) + samples.bytes(1)
    return Size(kernels * seconds, PROGRAM + memory)


def compute_min_angle(w: Any, config: Config, samples: Samples) -> Size:
    """Compute the first layer's products of all pairs, which exclude nearly all pairs."""
    n, d, width = up_to(config["samples"], samples.n), samples.d, config["width"]
    numbers, seconds = d + 2 * width * max(config["depths"]), 0.0
    for depth in config["depths"]:
        seconds += FLOP * n * (n * (d + width) / 2 + 5 * width * (d + width * depth))
    # of gradients as many as `min_angle.MEMORY` holds
    kept = min(2**32, 4 * n * numbers) + 32 * (min(n, 4096) + d + width) * numbers
    return Size(len(config["seeds"]) * seconds, PROGRAM + samples.bytes(2) + kept, gpu=35)


def compute_infinite_min_angle(w: Any, config: Config, samples: Samples) -> Size:
    """Compute products of all pairs, and take all, or the closest one, through the layers."""
    n, depths = up_to(config["samples"], samples.n), config["depths"]
    seconds = len(depths) * FLOP * n**2 * samples.d / 2
    if not activations.get(w.activation).homogeneous:  # which keep the order of angles
        seconds += sum(layers(w.activation, n, depth) for depth in depths)
    draws = 1 if config["samples"] == "all" else len(config["seeds"])
    return Size(draws * seconds, PROGRAM + samples.bytes(3) + 2**27)


def train_network(w: Any, config: Config, samples: Samples) -> Size:
    """Train a network with all its seeds and rates; a fifth as many samples are for tests."""
    values, model = training_values(w, config, samples), w.model
    n, outputs, rates, seeds = (values[key] for key in ("n", "outputs", "rates", "seeds"))
    shape: dict[str, Any] = {"d": samples.d, "width": values["width"], "depth": int(w.depth)}
    shape |= {"outputs": outputs, "image": samples.image}
    if model in config["models"]:
        from ntk_conditioning.networks import user_models  # torch takes seconds

        activation = activations.get(w.activation)
        sizes = user_models.measure_sizes(config["models"][model], **shape, activation=activation)
    else:  # the user's cannot be tried before its samples are there
        sizes = architectures.sizes(model if model in architectures.MODELS else "fc", **shape)
    kind, itemsize = kind_of(model), np.dtype(values["dtype"]).itemsize
    epochs, every = values["epochs"], values["evaluate_every"]
    batch = up_to(values["batch_size"], n)
    seconds = epochs * n * (1 + 0.4 / every) * gradient(model, sizes)
    seconds += epochs * math.ceil(n / batch) * (3e-9 * sizes.weights + 3e-4 * (shape["depth"] + 1))
    memory = PROGRAM + samples.bytes(5) + 16 * samples.d * n * seeds * (n < samples.n)
    memory += itemsize * 6 * min(n, max(batch, 1000)) * (sizes.units + samples.d)
    memory += itemsize * sizes.weights * (5 * seeds * rates + 2)
    if along := values["kernels_along"]:
        m = min(n, along["samples"])
        kernel = gradient_kernel(model, sizes, m, outputs)
        kernel += 20 * m * gradient(model, sizes)  # ten products with a Hessian
        seconds += min(along["points"], epochs // every + 2) * kernel
        memory += 24 * m**2 + 14 * itemsize * sizes.weights + kind.by_modules * 10**9
    seconds *= seeds * rates * itemsize / 8
    if not kind.by_modules or not isinstance(values["learning_rates"], list):
        m = min(n, 1024)  # of the kernels where trainings begin
        seconds += seeds * gradient_kernel(model, sizes, m, 1)
        memory += 32 * m**2 + 2**28
    return Size(seconds, memory, gpu=50 if kind.needs_images else 200)


def predict_training(w: Any, config: Config, samples: Samples) -> Size:
    """Solve kernels, or train expansions in float64: up to four times as long as networks."""
    values, seconds, memory = training_values(w, config, samples), 0.0, 0.0
    n, outputs, solved = values["n"], values["outputs"], math.inf
    if values["loss"] == "square" and values["batch_size"] == "all":
        solved = values["seeds"] * 4 * EIGENVALUES * (n * outputs) ** 3
    for depth in values["depths"]:
        size = train_network(SimpleNamespace(**{**vars(w), "depth": depth}), config, samples)
        seconds, memory = seconds + min(solved, 4 * size.seconds), max(memory, 2 * size.memory)
    return Size(seconds, memory)


def training_values(w: Any, config: Config, samples: Samples) -> dict[str, Any]:
    """Return an experiment's values as they hold for a network, with numbers of what it trains."""
    values = dict(config["training"][w.experiment])
    for name in (w.dataset, w.model):
        values |= values["overrides"].get(name, {})
    rates, n = values["learning_rates"], up_to(values["samples"], samples.n)
    if isinstance(rates, Mapping):
        (rates,) = rates.values()
    rates = AUTO_RATES[values["loss"]] if rates == "auto" else rates
    seeds = [1] if getattr(w, "per_seed", "") else values["seeds"]
    outputs = 1 if values["outputs"] == "scalar" else samples.classes or 251  # LibriSpeech's
    return values | {"n": n, "outputs": outputs, "rates": len(rates), "seeds": len(seeds)}


def gradient(model: str, sizes: Sizes) -> float:
    """Return the seconds of a sample forward and backward through a network."""
    return 6 * FLOP * sizes.products + 5e-8 * sizes.units * kind_of(model).by_modules


def gradient_kernel(model: str, sizes: Sizes, n: int, outputs: int) -> float:
    """Return the seconds of the kernel of n samples; of mlp gradients are outer products."""
    numbers = sizes.weights if kind_of(model).by_modules else 2 * sizes.units
    return outputs * n * (gradient(model, sizes) + FLOP * n * numbers) + EIGENVALUES * n**3


def up_to(number: int | Literal["all"], n: int) -> int:
    """Return how many of n samples are taken."""
    return n if number == "all" else min(n, number)


def kernel_blocks(config: Config, samples: Samples) -> tuple[int, int, float]:
    """Return the samples of a kernel, the number of kernels, and the seconds of eigenvalues."""
    n = up_to(config["samples"], samples.n)
    m = up_to(config["kernel_size"], n)
    blocks = max(1, n // m) if config["blocks"] == "all" else config["blocks"]
    solved = (EIGENVALUES if m < config["full_spectrum_below"] else 2 * FLOP) * m**3
    return m, len(config["seeds"]) * blocks, solved


def layers(activation: str, n: int, depth: int) -> float:
    """Return the seconds that all pairs of n samples take through layers of infinite width."""
    plain = activation.removeprefix(activations.NORMALIZED)  # to normalise would load SciPy
    sigma = activations.get(plain)
    formula = sigma.homogeneous and plain == activation
    # else by quadrature, or around kinks where norms differ
    layer = 2e-8 if formula else 1e-5 if any(sigma.kinks) else 6e-7
    return n**2 / 2 * (1e-7 + depth * layer)
