"""What a job needs: operations and memory from its sizes, time from fitted rates.

Operations are those of products of float64 matrices on one core: float32 counts half, and what runs
slower than products (eigenvalues, elementwise functions) counts as many operations as a product
does in the same time. So a job of any kind takes ``startup + flops / rate`` seconds.
Nothing here imports torch: a workflow asks for all its jobs before it starts any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ntk_conditioning import memory
from ntk_conditioning.networks import activations
from ntk_workflow.allocation import SNAKEMAKE

#: What a process with torch takes before it has any data, in bytes.
TORCH = 6 * 10**8
#: Bytes that gradients may take in a search for the smallest angle, `min_angle.MEMORY`.
GRADIENTS = 2**32
#: The longest time that a job asks for, in minutes: few partitions grant more. What takes longer
#: goes on from its checkpoint when it is tried again.
MOST_MINUTES = 24 * 60
#: How many times the memory of its estimate a job asks for at most.
MOST_OFTEN = 4

# What a job asks for beyond its estimate.
_HEADROOM, _SAFETY, _LEAST_MINUTES = 1.25, 3, 10
# Activations that map rays to rays, and those whose layers of infinite width have formulas. A
# normalised variant is shifted, which ends both, unless its mean is 0.
_HOMOGENEOUS = frozenset({"linear", "relu", "leaky_relu", "normalized_linear"})
_CLOSED_FORMS = _HOMOGENEOUS | {"erf"}
# LAPACK's 4/3 m³ for the eigenvalues of m samples, at a quarter of a product's rate.
EIGENVALUES = 16 / 3
# 4 s² l for the singular values of an s × l factor, s <= l, at 40% of the rate.
_SINGULAR_VALUES = 10
# Their iterations take longer the deeper a linear network is: on MNIST by this much per layer.
_PER_LAYER = 0.65
# Three factorisations of m³/3 operations for λ_min, and 200 Lanczos iterations of 2 m² at a tenth
# of the rate, for they only read the memory.
_FACTORISATIONS, ITERATIONS = 3 / 3, 200 * 2 * 10
# Operations on an entry of a kernel of infinite width: for its angle, and in every layer of a leaky
# ReLU and of a function that is interpolated; where norms differ, of one that is linear between
# kinks, with so many more for every two of them.
ANGLE, CLOSED_FORM, QUADRATURE, PIECEWISE, KINKS = 4000, 700, 20000, 78_000, 102_000
# Operations of torch's modules, in those of a large product of the same type, measured: on a hidden
# unit of a sample in a step, and to start the operations of a layer.
UNIT, STARTED = 1900, 2e7
# Operations on an entry that is scaled and rounded, which only reads the memory.
_ROUNDING = 40


@dataclass(frozen=True)
class ResourceEstimate:
    """The operations ``flops`` of a job, and the peak ``memory`` of its process in bytes."""

    flops: float
    memory: float

    @classmethod
    def of_all(cls, estimates: Iterable[ResourceEstimate]) -> ResourceEstimate:
        """Return the estimate of all, one after the other."""
        every = list(estimates)
        return cls(sum(each.flops for each in every), max(each.memory for each in every))


@dataclass(frozen=True)
class Throughput:
    """How fast jobs of a kind are: ``startup`` in seconds, then ``rate`` operations per second."""

    startup: float
    rate: float


#: Of one core, measured on two cores of a server CPU.
CORE: Mapping[str, Throughput] = {
    "prepare_dataset": Throughput(1.5, 1e10),
    "describe_dataset": Throughput(1.9, 4e10),
    "measure_activations": Throughput(6.0, 4e10),
    "measure_precision": Throughput(20.0, 4e10),
    "compute_spectrum": Throughput(2.4, 4e10),
    "compute_infinite_spectrum": Throughput(0.8, 3.3e10),
    "compute_min_angle": Throughput(2.8, 4e10),
    "compute_infinite_min_angle": Throughput(0.7, 4.5e10),
    "train_network": Throughput(2.5, 4e10),
    "train_modules": Throughput(2.5, 4e10),
    "train_convolutions": Throughput(2.5, 4e10),
    "predict_training": Throughput(2.5, 2e10),
    "render_figure": Throughput(4.2, 4e10),
}
#: Of one GPU, measured on an H100: blocks of 512, whose eigenvalues are the processor's (60,000
#: samples are 200 times as fast), and six to twelve networks of mlp in float32 (more, or TF32, are
#: up to five times as fast). Of torch's modules networks of depth 32 in float32, fully connected of
#: width 3000 and ResNets of width 16, which wait for their many small operations to be started.
GPU: Mapping[str, Throughput] = {
    "compute_spectrum": Throughput(4.0, 3e11),
    "compute_min_angle": Throughput(4.0, 1.4e12),
    "train_network": Throughput(4.0, 1e13),
    "train_modules": Throughput(4.0, 7e12),
    "train_convolutions": Throughput(4.0, 1.6e12),
}
_OTHER = Throughput(3.0, 4e10)

#: Downloads, tables, figures: mostly the start of a process.
LIGHT = ResourceEstimate(flops=0.0, memory=1e9)


def throughput(kind: str, *, gpu: bool = False) -> Throughput:
    """Return how fast a rule's jobs are; one that cannot use a GPU is as fast as on a core."""
    core = CORE.get(kind, _OTHER)
    return GPU.get(kind, core) if gpu else core


def core_seconds(kind: str, estimate: ResourceEstimate, *, gpu: bool = False) -> int:
    """Return what a job takes on one core, or on one GPU, in whole seconds.

    >>> core_seconds("train_network", ResourceEstimate(4e12, 1e9))
    103
    """
    speed = throughput(kind, gpu=gpu)
    return math.ceil(speed.startup + estimate.flops / speed.rate)


def mem_mb(estimate: ResourceEstimate, attempt: int = 1) -> int:
    """Return the memory that a job asks for, with Snakemake's own, in 10^6 bytes.

    Later attempts ask for up to `MOST_OFTEN` times as much: most have run out of time.

    >>> mem_mb(LIGHT), mem_mb(LIGHT, attempt=2)
    (2250, 3500)
    """
    times = min(attempt, MOST_OFTEN)
    return math.ceil(_HEADROOM * estimate.memory / 1e6) * times + SNAKEMAKE // 10**6


def runtime(kind: str, estimate: ResourceEstimate, attempt: int = 1, *, gpu: bool = False) -> int:
    """Return the minutes that a job asks for; twice as many with every attempt, up to a day.

    >>> runtime("render_figure", LIGHT), runtime("render_figure", LIGHT, attempt=2)
    (10, 20)
    """
    minutes = _SAFETY * core_seconds(kind, estimate, gpu=gpu) / 60
    return min(MOST_MINUTES, math.ceil(max(_LEAST_MINUTES, minutes)) << (attempt - 1))


def preparation(*, n: int, d: int) -> ResourceEstimate:
    """Estimate prepare_dataset: it reads and scales ``n`` samples of ``d`` features."""
    return ResourceEstimate(float(_ROUNDING * n * d), LIGHT.memory + 2 * 8 * n * d)


def description(*, n: int, d: int) -> ResourceEstimate:
    """Estimate describe_dataset: the rank and the smallest angle of the samples."""
    flops = n**2 * d / 2 + _ROUNDING * n * d + _singular_values(n, d)
    return ResourceEstimate(flops, TORCH + 4 * 8 * n * d)


@dataclass(frozen=True, kw_only=True)
class Row:
    """The cells of a job: for each depth and seed ``blocks`` kernels of ``kernel_size`` samples.

    They are drawn from ``n`` samples of ``d`` features, all of ``one_norm`` or not; ``width`` is of
    networks of finite width.
    """

    n: int
    d: int
    depths: Sequence[int]
    seeds: int
    width: int = 512
    kernel_size: int = 512
    blocks: int = 1
    full_below: int = 2048
    dtype_bytes: int = 8
    one_norm: bool = True

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, n: int, d: int) -> Row:
        """Return the row of a dataset from the keys that hold for it."""
        size = n if config["kernel_size"] == "all" else config["kernel_size"]
        return cls(
            n=n,
            d=d,
            depths=config["depths"],
            seeds=len(config["seeds"]),
            width=config["width"],
            kernel_size=size,
            blocks=max(1, n // size) if config["blocks"] == "all" else config["blocks"],
            full_below=config["full_spectrum_below"],
            dtype_bytes=np.dtype(config["dtype"]).itemsize,
        )

    @property
    def whole(self) -> bool:
        """Whether a kernel gets its whole spectrum."""
        return self.kernel_size < self.full_below

    def total(self, cells: Callable[[int], ResourceEstimate]) -> ResourceEstimate:
        """Return the estimate of all depths from that of one."""
        return ResourceEstimate.of_all(map(cells, self.depths))


def spectrum(activation: str, row: Row, kernel: str = "empirical_ntk") -> ResourceEstimate:
    """Estimate compute_spectrum.

    With m samples of a block, depth L and width w, products take m² (d + 2 w L) operations and the
    passes through the network 4 m (d w + (L-1) w²). Where the activation is linear, and at depth 0,
    singular values of a factor take the kernel's place. The NNGP needs one product of length w, and
    half of the passes.
    """
    m, d, width, itemsize = row.kernel_size, row.d, row.width, row.dtype_bytes

    def cells(depth: int) -> ResourceEstimate:
        factors, shared = d + 2 * width * depth, 0.0
        if activation == "linear" or depth == 0:
            shared = 2.0 * (d + width * depth) * d**2
            flops = 2 * m * d**2 * itemsize / 8
            flops += _singular_values(m, d) * (1 + _PER_LAYER * depth)
            needed = memory.PROCESS + 4 * 8 * (m * d + d * (d + width * depth))
        else:
            passes, length = _passes(m, d, width, depth), factors
            if kernel != "empirical_ntk":
                passes, length, factors = passes / 2, width, d + width
            flops = (passes + m**2 * length) * itemsize / 8 + conditioning(row)
            copies = (2 if itemsize == 8 else 5) if row.whole else 1
            gradients = itemsize * factors
            needed = memory.kernel_bytes(m, itemsize=itemsize, row_bytes=gradients, copies=copies)
            # empirical.ntk keeps all gradients if they take up to half of the kernel.
            needed += min(m * gradients, max(2**28, m * m * itemsize // 2))
        weights = 2 * 8 * parameters(d, width, depth, 1)
        base = TORCH - memory.PROCESS + 8 * row.n * d
        flops = row.seeds * (shared + row.blocks * flops)
        return ResourceEstimate(flops, base + needed + weights)

    return row.total(cells)


def infinite_spectrum(activation: str, row: Row) -> ResourceEstimate:
    """Estimate compute_infinite_spectrum: each layer changes the m²/2 pairs of a block."""
    m, d = row.kernel_size, row.d
    needed = memory.kernel_bytes(m, itemsize=8, row_bytes=3 * 8 * d, copies=2) + 8 * row.n * d
    needed += _process(activation) - memory.PROCESS

    def cells(depth: int) -> ResourceEstimate:
        if activation == "linear" or depth == 0:
            flops = _singular_values(m, d)
        else:
            flops = 3 * m**2 * d + _layers(activation, m, depth, row) + conditioning(row)
        return ResourceEstimate(row.seeds * row.blocks * flops, needed)

    return row.total(cells)


def min_angle(activation: str, row: Row) -> ResourceEstimate:
    """Estimate compute_min_angle over all n²/2 pairs of samples.

    In float32, and for the first layer only: on the datasets of the papers its cosines, inner
    products of length d and w, exclude nearly all pairs. Where they do not it is up to L + 1 times
    as much.
    """
    n, d, width = row.n, row.d, row.width

    def cells(depth: int) -> ResourceEstimate:
        if activation == "linear" or depth == 0:
            length, bytes_each, hidden = d, 4 * d, 0
            gradients = float(n * d * (2 * d + _ROUNDING) + 2 * (d + width * depth) * d**2)
            maps = 4 * 8 * d * (d + width * depth)
        else:
            factors, hidden = d + 2 * width * depth, 2 * width * depth
            length, bytes_each, maps = d + width, 4 * factors, 0
            gradients = _passes(n, d, width, depth) + _ROUNDING * n * factors
        # What is computed in float64 before it is rounded: some thousand samples at once.
        exact = 4 * 8 * min(n, 4096) * (d + hidden)
        weights = 2 * 8 * parameters(d, width, depth, 1)
        needed = min(GRADIENTS, n * bytes_each) + exact + maps + weights
        flops = row.seeds * (gradients + n**2 * length / 2)
        return ResourceEstimate(flops, TORCH + 2 * 8 * n * d + needed)

    return row.total(cells)


def infinite_min_angle(activation: str, row: Row) -> ResourceEstimate:
    """Estimate compute_infinite_min_angle: n²/2 inner products of length d in float32.

    Unless the activation maps rays to rays, or all samples have one norm, every pair goes through
    all layers. There is one seed where nothing is drawn.
    """
    n, d = row.n, row.d
    base = _process(activation)

    def cells(depth: int) -> ResourceEstimate:
        rays = _base(activation) in _HOMOGENEOUS or depth == 0
        layers = 0 if rays else _layers(activation, n, depth, row)
        flops = row.seeds * (n**2 * (d + 2) / 2 + _ROUNDING * n * d + layers)
        return ResourceEstimate(flops, base + 3 * 8 * n * d + 2**27)

    return row.total(cells)


def _process(activation: str) -> int:
    """Return what a process of infinite width takes: torch is for functions of the user's own."""
    known = activations.is_known(activation) and activations.get(activation).on_arrays
    return memory.PROCESS if known else TORCH


def has_closed_form(activation: str) -> bool:
    """Return whether layers of infinite width have a formula for this activation."""
    return _base(activation) in _CLOSED_FORMS


def _base(activation: str) -> str:
    """Return the activation without its constants; a normalised variant stays itself."""
    variant = activation.startswith("normalized_")
    return activation if variant else activations.base_name(activation)


def parameters(d: int, width: int, depth: int, outputs: int) -> int:
    """Return the number of weights of a network of mlp."""
    return d * outputs if depth == 0 else d * width + (depth - 1) * width**2 + width * outputs


def _passes(m: int, d: int, width: int, depth: int) -> float:
    """Return the operations of a forward and a backward pass, both without the last layer."""
    return 4.0 * m * (d * width + (depth - 1) * width**2)


def _layers(activation: str, m: int, depth: int, row: Row) -> float:
    """Return the operations that take m²/2 pairs through the layers of infinite width."""
    layer = CLOSED_FORM if has_closed_form(activation) else QUADRATURE
    if not row.one_norm and (kinks := _kinks_between_pieces(activation)):
        layer = PIECEWISE + KINKS * kinks**2
    return m**2 / 2 * (ANGLE + depth * layer)


@cache
def _kinks_between_pieces(activation: str) -> int:
    """Return the kinks of a function that is linear between them, if they are not all at 0."""
    from ntk_conditioning.duals.piecewise_linear import pieces_of  # imports SciPy: where it counts

    pieces = pieces_of(activations.get(activation))
    return len(pieces.kinks) if pieces is not None and pieces.kinks.any() else 0


def conditioning(row: Row) -> float:
    """Return the operations that condition a kernel of a row."""
    m = row.kernel_size
    return EIGENVALUES * m**3 if row.whole else _FACTORISATIONS * m**3 + ITERATIONS * m**2


def _singular_values(m: int, d: int) -> float:
    return float(_SINGULAR_VALUES * min(m, d) ** 2 * max(m, d))
