"""What jobs need: for each rule a formula of seconds and one of memory, found by the rule's name.

They take a job's wildcards, the config's keys as they hold for its dataset, and what is known of
that. The constants were measured on a core of a server and on an H100. Nothing here imports torch,
for a workflow asks for all its jobs before it starts any.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ntk_conditioning.memory import kernel_bytes
from ntk_conditioning.networks import activations
from ntk_workflow.allocation import SNAKEMAKE

#: Seconds until a program has started: without torch, and with it; and its bytes without data.
START, TORCH_START, PROGRAM = 0.8, 3.0, 6 * 10**8
#: Seconds of an operation in products of float64 matrices; in float32 it takes half.
FLOP = 2.5e-11
#: Seconds of all eigenvalues of n rows, per n³; of the singular values of an s x l matrix, s <= l,
#: per s² l; and of the iterations for the extreme eigenvalues, which read memory, per n².
EIGENVALUES, SINGULAR_VALUES, ITERATIONS = 1.4e-10, 2.5e-10, 1e-7
#: Seconds of a layer of infinite width on a pair of samples: by a formula, by quadrature, and by
#: squared kinks where samples of different norms go through a piecewise linear function.
FORMULA, QUADRATURE, KINKS = 2e-8, 6e-7, 3e-6
#: Seconds of an angle of a pair of samples, and of rounding a number.
ANGLE, ROUNDING = 1.2e-7, 1e-9
#: Bytes that gradients may take in a search for the smallest angle, `min_angle.MEMORY`.
GRADIENTS = 2**32
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

    def __add__(self, then: Size) -> Size:
        """Return the size of a job that does both, one after the other."""
        return Size(self.seconds + then.seconds, max(self.memory, then.memory), self.gpu)

    def core_seconds(self, *, gpu: bool = False) -> int:
        """Return what the job takes on one core, or on one GPU."""
        return math.ceil(TORCH_START + self.seconds / self.gpu if gpu else self.seconds)

    def mem_mb(self, attempt: int = 1) -> int:
        """Return the memory to ask for, with Snakemake's own; at most four times as much later.

        >>> [Size(60, 1e9).mem_mb(attempt) for attempt in (1, 2, 3, 4)]
        [2250, 3500, 6000, 6000]
        """
        times: int = min(2 ** (attempt - 1), 4)
        return math.ceil(1.25 * self.memory / 1e6) * times + SNAKEMAKE // 10**6

    def runtime(self, attempt: int = 1, *, threads: int = 1, gpu: bool = False) -> int:
        """Return the minutes to ask for, at most a day.

        >>> [Size(600, 1e9).runtime(attempt) for attempt in (1, 2)], Size(1, 1e9).runtime()
        ([30, 60], 10)
        """
        minutes = 3 * self.core_seconds(gpu=gpu) / 60 / (1 if gpu else threads)
        times: int = 2 ** (attempt - 1)
        return min(MOST_MINUTES, math.ceil(max(10, minutes)) * times)


@dataclass(frozen=True)
class Samples:
    """The samples of a dataset: ``n`` of ``d`` features, and what they are."""

    n: int
    d: int
    image: tuple[int, int, int] | None = None
    one_norm: bool = False
    classes: int = 0  # 0 if that is not known

    def bytes(self, copies: int) -> int:
        return copies * 8 * self.n * self.d


def prepare_dataset(w: Any, config: Config, samples: Samples) -> Size:
    """Read and scale all samples."""
    return Size(START + 4 * ROUNDING * samples.n * samples.d, PROGRAM + samples.bytes(2))


def describe_dataset(w: Any, config: Config, samples: Samples) -> Size:
    """Compute the rank and the smallest angle of the samples."""
    n, d = samples.n if w.draw in ("all", "test") else drawn(config, samples), samples.d
    seconds = START + FLOP * n**2 * d / 2 + singular_values(n, d)
    return Size(seconds, PROGRAM + samples.bytes(4))


def advise_dataset(w: Any, config: Config, samples: Samples) -> Size:
    """Compute all pairs of samples, spectra and random networks."""
    n, d = samples.n, samples.d
    seconds = 8 + FLOP * (3 * n**2 * d + 2 * n * d**2) + 3 * EIGENVALUES * d**3
    return Size(seconds, PROGRAM + 10**9 + samples.bytes(8) + 8 * 6 * d**2)


def compute_spectrum(w: Any, config: Config, samples: Samples) -> Size:
    """Compute passes through the network, products of gradients, and eigenvalues."""
    m, blocks = kernel_blocks(config, samples)
    d, width, itemsize = samples.d, config["width"], np.dtype(config["dtype"]).itemsize
    seconds = kept = 0.0
    for depth in config["depths"]:
        if w.activation == "linear" or depth == 0:
            seconds += 1.3 * singular_values(m, d) * (1 + 0.65 * depth)
            kept = max(kept, 4 * 8 * (m * d + d * (d + width * depth)))
        else:
            numbers = d + 2 * width * depth if w.kernel == "empirical_ntk" else d + width
            seconds += FLOP * (passes(m, d, width, depth) + m**2 * numbers) * itemsize / 8
            seconds += eigenvalues(m, config)
            copies = (2 if itemsize == 8 else 5) if m < config["full_spectrum_below"] else 1
            size: Any = {"itemsize": itemsize, "row_bytes": itemsize * numbers, "copies": copies}
            # all gradients are kept if they take up to half of the kernel
            gradients = min(m * itemsize * numbers, max(2**28, m * m * itemsize // 2))
            kept = max(kept, kernel_bytes(m, **size) + gradients)
    memory = PROGRAM + samples.bytes(1) + kept + 16 * weights(d, width, max(config["depths"]), 1)
    return Size(TORCH_START + len(config["seeds"]) * blocks * seconds, memory, gpu=7)


def compute_infinite_spectrum(w: Any, config: Config, samples: Samples) -> Size:
    """Take all pairs of a block through the layers, and compute eigenvalues."""
    (m, blocks), d, seconds = kernel_blocks(config, samples), samples.d, 0.0
    for depth in config["depths"]:
        if w.activation == "linear" or depth == 0:
            seconds += 1.2 * singular_values(m, d)
        else:
            seconds += 3 * FLOP * m**2 * d + layers(w.activation, m, depth, samples)
            seconds += eigenvalues(m, config)
    memory = kernel_bytes(m, itemsize=8, row_bytes=3 * 8 * d, copies=2) + samples.bytes(1)
    return Size(START + len(config["seeds"]) * blocks * seconds, PROGRAM + memory)


def compute_min_angle(w: Any, config: Config, samples: Samples) -> Size:
    """Compute the first layer's products of all pairs, in float32.

    On the datasets of the papers they exclude nearly all pairs; where they do not it takes up to
    depth + 1 times as long.
    """
    n, d, width, seconds = drawn(config, samples), samples.d, config["width"], 0.0
    numbers, deepest = d, max(config["depths"])
    for depth in config["depths"]:
        if w.activation == "linear" or depth == 0:
            seconds += FLOP * (n**2 * d / 2 + 2 * n * d**2) + ROUNDING * n * d
        else:
            numbers = max(numbers, d + 2 * width * depth)
            seconds += FLOP * (n**2 * (d + width) / 2 + passes(n, d, width, depth))
            seconds += ROUNDING * n * (d + 2 * width * depth)
    # before they are rounded gradients are float64, of some thousand samples at once
    kept = min(GRADIENTS, 4 * n * numbers) + 4 * 8 * min(n, 4096) * numbers
    kept += 4 * 8 * d * (d + width * deepest) + 16 * weights(d, width, deepest, 1)
    seconds = TORCH_START + len(config["seeds"]) * seconds
    return Size(seconds, PROGRAM + samples.bytes(2) + kept, gpu=35)


def compute_infinite_min_angle(w: Any, config: Config, samples: Samples) -> Size:
    """Compute products of all pairs, and take all, or the closest one, through the layers."""
    n, d = drawn(config, samples), samples.d
    seconds = len(config["depths"]) * n * d * (FLOP * n / 2 + ROUNDING)
    if not activations.get(w.activation).homogeneous:  # which keep the order of angles
        seconds += sum(layers(w.activation, n, depth, samples) for depth in config["depths"])
    draws = 1 if config["samples"] == "all" else len(config["seeds"])
    return Size(START + draws * seconds, PROGRAM + samples.bytes(3) + 2**27)


def drawn(config: Config, samples: Samples) -> int:
    """Return how many samples the main grid has of a dataset."""
    return samples.n if config["samples"] == "all" else int(config["samples"])


def kernel_blocks(config: Config, samples: Samples) -> tuple[int, int]:
    """Return the samples of a kernel, and the number of kernels of a dataset or draw."""
    n = drawn(config, samples)
    size = n if config["kernel_size"] == "all" else min(n, config["kernel_size"])
    return size, max(1, n // size) if config["blocks"] == "all" else config["blocks"]


def eigenvalues(n: int, config: Config) -> float:
    """Return the seconds of a kernel's eigenvalues, all or the extreme ones."""
    if n < config["full_spectrum_below"]:
        return EIGENVALUES * n**3
    return FLOP * n**3 + ITERATIONS * n**2


def singular_values(n: int, d: int) -> float:
    """Return the seconds of the singular values of samples."""
    return SINGULAR_VALUES * min(n, d) ** 2 * max(n, d)


def layers(activation: str, n: int, depth: int, samples: Samples) -> float:
    """Return the seconds that all pairs of n samples take through layers of infinite width."""
    sigma = activations.get(activation)
    closed = sigma.homogeneous or (sigma.name == "erf" and samples.one_norm)
    layer = FORMULA if closed else QUADRATURE
    if any(sigma.kinks) and not samples.one_norm:
        layer = KINKS * (1 + len(sigma.kinks) ** 2)
    return n**2 / 2 * (ANGLE + depth * layer)


def passes(n: int, d: int, width: int, depth: int) -> float:
    """Return the operations of n samples forward and backward through a network's layers."""
    return 4.0 * n * (d * width + (depth - 1) * width**2)


def weights(d: int, width: int, depth: int, outputs: int) -> int:
    """Return the number of weights of a network of mlp."""
    return d * outputs if depth == 0 else d * width + (depth - 1) * width**2 + width * outputs
