"""The work and memory of a job from the sizes of its problem.

Work is counted in floating-point operations of products of float64 matrices on a processor: those
of float32 count half, and what runs slower than products (eigenvalues, elementwise functions)
counts as many operations as a product does in the same time. So one rate per kind of job is enough
for its time, see `model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ntk_conditioning import memory
from ntk_conditioning.networks import activations, architectures
from ntk_workflow.plan.cells import EMPIRICAL

#: What a process with torch takes before it has any data, in bytes.
TORCH = 6 * 10**8
#: Bytes that gradients may take in a search for the smallest angle, `smallest_angle.MEMORY`.
GRADIENTS = 2**32
#: Samples of a training's kernel, as many as compute_training_kernel takes at most.
KERNEL_SAMPLES = 1024
#: Activations that map rays to rays, and those whose layers of infinite width have formulas. A
#: normalised variant is shifted, which ends both, unless its mean is 0.
HOMOGENEOUS = frozenset({"linear", "relu", "leaky_relu", "normalized_linear"})
CLOSED_FORMS = HOMOGENEOUS | {"erf"}

# LAPACK's 4/3 m³ for the eigenvalues of m samples, at a quarter of a product's pace.
_EIGENVALUES = 16 / 3
# 4 s² l for the singular values of an s × l factor, s <= l, at 40% of the pace.
_SINGULAR_VALUES = 10
# Their iterations take longer the deeper a linear network is: on MNIST by this much per layer.
_PER_LAYER = 0.65
# Factorisations of m³/3 operations for λ_min, the first and two shifted ones, and 200 Lanczos
# iterations of 2 m² at a tenth of the pace, for they only read the memory.
_FACTORISATIONS, _ITERATIONS = 3 / 3, 200 * 2 * 10
# Operations on an entry of a kernel of infinite width: for its angle, and in every layer of a leaky
# ReLU or of a function that is interpolated.
_ANGLE, _CLOSED_FORM, _QUADRATURE = 4000, 700, 20000
# The same, where all samples have one norm.
_ONE_NORM = 4000
# Operations of torch's modules, in those of a large product of the same type, measured: on a
# multiply-add of a narrow convolution, on a hidden unit of a sample in a step, on a weight that a
# step moves, and to start the operations of a layer.
_CONVOLUTION, _UNIT, _MOVED, _STARTED = 0.5, 1900, 120, 2e7
# Numbers that a hidden unit keeps of every sample until the gradient has passed.
_HELD = 6
# Operations on an entry of a matrix of cosines, which only reads the memory.
_COSINE = 600
# Products with a Hessian until its norm has converged, the operations of one on a weight, with
# those of Lanczos' method, which only reads the memory, the vectors that it and a backward pass
# keep, and steps of ascents.
_HESSIAN_PRODUCTS, _HESSIAN_PRODUCT, _HESSIAN_VECTORS, _CLIMBS = 100, 700, 24, 60
# Passes over the factored gradients that scale and round them, which only read the memory.
_ROUNDING = 40


@dataclass(frozen=True)
class Work:
    """The work of a job: operations ``flops``, and the peak ``memory`` of its process in bytes."""

    flops: float
    memory: float

    def __add__(self, other: Work) -> Work:
        """Return the work of both, one after the other."""
        return Work(self.flops + other.flops, max(self.memory, other.memory))


#: Downloads, tables, figures: mostly the start of a process.
LIGHT = Work(flops=0.0, memory=1e9)


def preparation(*, n: int, d: int) -> Work:
    """Return the work of prepare_dataset: it reads and scales ``n`` samples of ``d`` features."""
    return Work(float(_ROUNDING * n * d), LIGHT.memory + 2 * 8 * n * d)


def description(*, n: int, d: int) -> Work:
    """Return the work of describe_dataset: the rank and the smallest angle of the samples."""
    flops = n**2 * d / 2 + _ROUNDING * n * d + _singular_values(n, d)
    return Work(flops, TORCH + 4 * 8 * n * d)


def cells(
    kind: str,
    activation: str,
    *,
    n: int,
    d: int,
    depths: Sequence[int],
    seeds: int,
    width: int,
    kernel_size: int = 0,
    blocks: int = 0,
    full_below: int = 2048,
    dtype_bytes: int = 8,
    kernel: str = EMPIRICAL,
) -> Work:
    """Return the work of a job of cells; ``kind`` is a rule such as compute_spectrum.

    Arguments are those of `spectrum`; the smallest angles need no blocks, and infinite width no
    ``width``.
    """
    variant = activation.startswith("normalized_")
    base = activation if variant else activations.base_name(activation)
    linear, exact = activation == "linear", base in CLOSED_FORMS
    grid = {"n": n, "d": d, "seeds": seeds}
    block = {"kernel_size": kernel_size, "blocks": blocks, "full_below": full_below}
    match kind:
        case "compute_spectrum":
            return spectrum(
                **grid,
                **block,
                width=width,
                depths=depths,
                dtype_bytes=dtype_bytes,
                linear=linear,
                embeddings=kernel != EMPIRICAL,
            )
        case "compute_infinite_spectrum":
            return infinite_spectrum(
                **grid, **block, depths=depths, linear=linear, closed_form=exact
            )
        case "compute_min_angle":
            return min_angle(**grid, width=width, depths=depths, linear=linear)
        case "compute_infinite_min_angle":
            return infinite_min_angle(
                **grid, depths=depths, homogeneous=base in HOMOGENEOUS, closed_form=exact
            )
    raise ValueError(f"{kind} computes no cells")


def spectrum(
    *,
    n: int,
    d: int,
    width: int,
    depths: Sequence[int],
    seeds: int,
    blocks: int,
    kernel_size: int,
    dtype_bytes: int = 8,
    full_below: int = 2048,
    threads: int = 1,
    linear: bool = False,
    embeddings: bool = False,
) -> Work:
    """Return the work of compute_spectrum: for each depth and seed ``blocks`` kernels.

    Of ``n`` samples of ``d`` features, ``kernel_size`` make a block. With m of them, depth L and
    width w, products take m² (d + 2 w L) operations and the passes through the network
    4 m (d w + (L-1) w²). ``linear`` says that the activation is: there, and at depth 0, singular
    values of a factor take the kernel's place. Kernels of ``embeddings`` need one product of length
    w, and half of the passes.
    """
    m, whole = kernel_size, kernel_size < full_below
    flops = peak = 0.0
    for depth in depths:
        factors = d + 2 * width * depth
        if linear or depth == 0:
            factor_map = 2.0 * (d + width * depth) * d**2
            bent = 1 + _PER_LAYER * depth
            kernel = 2 * m * d**2 * dtype_bytes / 8 + _singular_values(m, d) * bent
            needed = memory.PROCESS + 4 * 8 * (m * d + d * (d + width * depth))
        else:
            factor_map = 0.0
            passes, length = _passes(m, d, width, depth), factors
            if embeddings:
                passes, length, factors = passes / 2, width, d + width
            kernel = passes + m**2 * length
            kernel = kernel * dtype_bytes / 8 + _conditioning(m, whole)
            copies = threads * (2 if dtype_bytes == 8 else 5) if whole else 1
            row = dtype_bytes * factors
            needed = memory.kernel_bytes(m, itemsize=dtype_bytes, row_bytes=row, copies=copies)
            # empirical.ntk keeps all gradients if they take up to half of the kernel.
            needed += min(m * row, max(2**28, m * m * dtype_bytes // 2)) * min(threads, blocks)
        flops += seeds * (factor_map + blocks * kernel)
        weights = 2 * 8 * _parameters(d, width, depth, 1)
        peak = max(peak, needed + weights)
    return Work(flops, TORCH - memory.PROCESS + 8 * n * d + peak)


def infinite_spectrum(
    *,
    n: int,
    d: int,
    depths: Sequence[int],
    seeds: int,
    blocks: int,
    kernel_size: int,
    full_below: int = 2048,
    threads: int = 1,
    linear: bool = False,
    closed_form: bool = True,
) -> Work:
    """Return the work of compute_infinite_spectrum: each layer changes the m²/2 pairs of a block.

    Arguments are those of `spectrum`; ``closed_form`` says that the activation is a leaky ReLU or
    erf, all others are interpolated.
    """
    m, whole = kernel_size, kernel_size < full_below
    entry = _CLOSED_FORM if closed_form else _QUADRATURE
    flops = 0.0
    for depth in depths:
        if linear or depth == 0:
            kernel = _singular_values(m, d)
        else:
            kernel = 3 * m**2 * d + m**2 / 2 * (_ANGLE + depth * entry)
            kernel += _conditioning(m, whole)
        flops += seeds * blocks * kernel
    copies = 2 * threads if whole else 2
    needed = memory.kernel_bytes(m, itemsize=8, row_bytes=3 * 8 * d, copies=copies)
    return Work(flops, needed + 8 * n * d + (0 if closed_form else TORCH))


def bounds(*, n: int, d: int, depths: Sequence[int], activations: int) -> Work:
    """Return the work of compute_bounds: for each activation n²/2 pairs through the layers."""
    pairs = n**2 / 2 * (_ANGLE + max(depths) * _ONE_NORM)
    flops = activations * (pairs + 2 * len(depths) * _EIGENVALUES * n**3)
    return Work(flops + 3.0 * n**2 * d, TORCH + 8 * (8 * n**2 + 3 * n * d))


def assembly(
    study: str,
    hidden: Sequence[int],
    *,
    dense: bool,
    n: int,
    d: int,
    loaded: int,
    seeds: int,
    steps: int,
    expansions: int = 0,
    radii: int = 0,
    directions: int = 0,
) -> Work:
    """Return the work of measure_orthogonality or measure_linearity at one width.

    On the span of ``n`` samples the input is of length n. Training takes 6 operations per weight
    and sample in a step. For orthogonality each layer takes two products of its size for every
    sample, before and after, and two norms of the first; for linearity every expansion some
    hundreds of Hessian products, in all weights and in all but the last layer's, and trials in
    each ball.
    """
    inputs = [*hidden] if not dense else [sum(hidden[: k + 1]) for k in range(len(hidden))]
    reduced = min(n, d)
    weights = reduced * hidden[0] + sum(
        (m + (reduced if dense else 0)) * after
        for m, after in zip(inputs, [*hidden[1:], 1], strict=True)
    )
    flops = 6.0 * weights * n * steps
    if study == "orthogonality":
        pairs = sum(2 * m**2 * k + 2 * m * k**2 for m, k in zip(hidden[1:], inputs, strict=False))
        entries = sum(m**2 for m in hidden)
        flops += 2 * (n * (pairs + _COSINE * entries) + _ITERATIONS * entries)
        needed = 8 * 6 * max(inputs) ** 2
    else:
        searched = 4 * radii * (directions + _CLIMBS)
        flops += 2 * expansions * weights * (_HESSIAN_PRODUCTS * _HESSIAN_PRODUCT + 6 * searched)
        needed = 8 * weights * _HESSIAN_VECTORS
    drawn = 8 * 2 * (d * hidden[0] + weights + (d * sum(hidden) if dense else 0))
    held = 3 * 8 * weights + drawn + 2 * 8 * loaded * d
    return Work(seeds * flops, TORCH + needed + held)


def min_angle(
    *, n: int, d: int, width: int, depths: Sequence[int], seeds: int, linear: bool = False
) -> Work:
    """Return the work of compute_min_angle over all n²/2 pairs of samples.

    In float32, and for the first layer only: on the datasets of the papers its cosines, inner
    products of length d and w, exclude nearly all pairs. Where they do not it is up to L + 1 times
    as much.
    """
    flops = peak = 0.0
    for depth in depths:
        row = 4 * d
        if linear or depth == 0:
            length = d
            gradients = float(n * d * (2 * d + _ROUNDING) + 2 * (d + width * depth) * d**2)
        else:
            length = d + width
            factors = d + 2 * width * depth
            gradients = _passes(n, d, width, depth) + _ROUNDING * n * factors
            row = 4 * factors
        flops += seeds * (gradients + n**2 * length / 2)
        # What is computed in float64 before it is rounded: some thousand samples at once.
        exact = 4 * 8 * min(n, 4096) * (d + 2 * width * (0 if linear else depth))
        maps = 4 * 8 * d * (d + width * depth) if linear or depth == 0 else 0
        weights = 2 * 8 * _parameters(d, width, depth, 1)
        peak = max(peak, min(GRADIENTS, n * row) + exact + maps + weights)
    return Work(flops, TORCH + 2 * 8 * n * d + peak)


def infinite_min_angle(
    *,
    n: int,
    d: int,
    depths: Sequence[int],
    seeds: int,
    homogeneous: bool = True,
    closed_form: bool = True,
) -> Work:
    """Return the work of compute_infinite_min_angle: n²/2 inner products of length d in float32.

    Unless the activation is ``homogeneous``, as leaky ReLUs are, or all samples have one norm,
    every pair goes through all layers. ``seeds`` is 1 where nothing is drawn.
    """
    entry = _CLOSED_FORM if closed_form else _QUADRATURE
    flops = 0.0
    for depth in depths:
        layers = 0 if homogeneous or depth == 0 else n**2 / 2 * (_ANGLE + depth * entry)
        flops += seeds * (n**2 * (d + 2) / 2 + _ROUNDING * n * d + layers)
    base = memory.PROCESS if closed_form else TORCH
    return Work(flops, base + 3 * 8 * n * d + 2**27)


def training(
    *,
    n: int,
    d: int,
    width: int,
    depth: int,
    classes: int,
    networks: float,
    epochs: int,
    batch: int,
    evaluate_every: int = 1,
    n_test: int = 0,
    loaded: int | None = None,
    draws: int = 0,
    dtype_bytes: int = 4,
    threads: int = 1,
) -> Work:
    """Return the work of train_network: ``networks`` of them, all seeds and learning rates.

    A sample takes 6 operations per weight in training, 4 of the first layer, which passes no
    gradient on, and 2 in every evaluation. Networks that diverge stop early, so that this is the
    most. ``loaded`` samples are read, by default ``n``, of which ``draws`` seeds, if any, draw
    ``n`` each; ``classes`` are the outputs.
    """
    parameters = _parameters(d, width, depth, classes)
    first = d * (width if depth else classes)
    trained = (6 * parameters - 2 * first) * n * epochs
    evaluated = 2 * parameters * (n + n_test) * (epochs // evaluate_every + 1)
    kept = 8 * d * (2 * (loaded or n) + 2 * n_test)
    placed = d * (dtype_bytes * n_test + (dtype_bytes + 8) * n * max(1, draws))
    rows = max(min(batch, n), min(1000, n))
    activations = threads * dtype_bytes * rows * (2 * d + 4 * width * max(1, depth))
    weights = dtype_bytes * parameters * (3 * networks + 2 * threads)
    return Work(
        networks * (trained + evaluated) * dtype_bytes / 8,
        TORCH + kept + placed + activations + weights,
    )


def module_training(
    model: str,
    *,
    n: int,
    d: int,
    width: int,
    depth: int,
    classes: int,
    networks: float,
    seeds: int,
    epochs: int,
    batch: int,
    image: tuple[int, int, int] | None = None,
    evaluate_every: int = 1,
    n_test: int = 0,
    loaded: int | None = None,
    draws: int = 0,
    dtype_bytes: int = 4,
    threads: int = 1,
) -> Work:
    """Return the work of train_network where torch's modules are trained, a ``model`` by its name.

    The networks of ``seeds`` take turns, see `architectures.seeds_in_turn`. As `training`, with
    what narrow networks spend besides products: on hidden units, on weights that a step moves, and
    on starting each layer's operations.
    """
    size = architectures.sizes(model, d=d, width=width, depth=depth, outputs=classes, image=image)
    images = architectures.MODELS[model].needs_images
    product = _CONVOLUTION if images else 1
    steps, evaluations = epochs * -(-n // batch), epochs // evaluate_every + 1
    trained = n * epochs * (product * (6 * size.products - 2 * size.first) + _UNIT * size.units)
    evaluated = (n + n_test) * evaluations * (2 * product * size.products + _UNIT / 3 * size.units)
    moved = steps * (_MOVED * size.weights + _STARTED * depth)
    kept = 8 * d * (2 * (loaded or n) + 2 * n_test)
    placed = 2 * d * dtype_bytes * (n + n_test) * max(1, draws)
    rows = min(batch, n)
    hidden = dtype_bytes * max(_HELD * rows, 4 * min(1000, n)) * (size.units + d)
    # Of each network weights and momentum, both again in a checkpoint, and gradients for a while.
    side_by_side = networks / seeds * architectures.seeds_in_turn(size.weights * networks / seeds)
    weights = dtype_bytes * size.weights * (4 * min(networks, side_by_side) + 2 * threads)
    return Work(
        networks * (trained + evaluated + moved) * dtype_bytes / 8,
        TORCH + kept + placed + threads * hidden + weights,
    )


def training_kernel(
    *,
    n: int,
    d: int,
    width: int,
    depth: int,
    seeds: int,
    loaded: int | None = None,
    linear: bool = False,
) -> Work:
    """Return the work of compute_training_kernel: a kernel of at most `KERNEL_SAMPLES` per seed.

    ``n`` samples of ``loaded``, by default all, are trained on.
    """
    size = min(n, KERNEL_SAMPLES)
    one = spectrum(
        n=2 * (loaded or n) + (seeds * n if loaded else 0),
        d=d,
        width=width,
        depths=[depth],
        seeds=seeds,
        blocks=1,
        kernel_size=size,
        linear=linear,
    )
    return replace(one, memory=one.memory + 2 * 8 * size * d)


def _parameters(d: int, width: int, depth: int, outputs: int) -> int:
    if depth == 0:
        return d * outputs
    return d * width + (depth - 1) * width**2 + width * outputs


def _passes(m: int, d: int, width: int, depth: int) -> float:
    """Return the operations of a forward and a backward pass, both without the last layer."""
    return 4.0 * m * (d * width + (depth - 1) * width**2)


def _conditioning(m: int, whole: bool) -> float:
    return _EIGENVALUES * m**3 if whole else _FACTORISATIONS * m**3 + _ITERATIONS * m**2


def _singular_values(m: int, d: int) -> float:
    return float(_SINGULAR_VALUES * min(m, d) ** 2 * max(m, d))
