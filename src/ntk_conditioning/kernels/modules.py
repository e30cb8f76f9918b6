"""The empirical NTK of any torch module, in bounded memory.

    K_ij = <∇f(x_i), ∇f(x_j)> = Σ_p <∂f(x_i)/∂p, ∂f(x_j)/∂p>,  p all parameters.

First `traces.survey` runs the module on one sample and finds weights whose gradients factor, those
of linear layers and embeddings. Then `sample_gradients` computes the factors where that is cheaper,
and else plain gradients (as of convolutions, norms and biases), for a panel of samples and a group
of parameters at a time, and `kernel_terms` adds their inner products to a tile of the kernel.
"""

import logging
from collections.abc import Sequence
from functools import partial
from math import isqrt
from numbers import Integral
from typing import Any, Literal

import torch
from torch import Tensor, nn
from tqdm import tqdm

from ntk_conditioning import memory as host
from ntk_conditioning.kernels import empirical
from ntk_conditioning.kernels.differentiated_modules import (
    DifferentiatedModule,
    Inputs,
    InputsError,
    OutputsError,
    Selection,
    as_inputs,
    computing,
    differentiated,
)
from ntk_conditioning.kernels.kernel_terms import Gradients
from ntk_conditioning.kernels.sample_gradients import SampleGradients, VmapError, autograd
from ntk_conditioning.kernels.traces import TracePlan, survey
from ntk_conditioning.networks import gradient_tiles
from ntk_conditioning.networks.gradient_tiles import Panels
from ntk_conditioning.networks.mlp import MLP

_log = logging.getLogger(__name__)

Outputs = Literal["sum", "mean_of_kernels", "full"] | int

#: Bytes that ``memory`` is by default, at least: 0.95 GB.
LEAST_MEMORY = 95 * 10**7
#: The share of ``memory`` for forward and backward passes; gradients get the rest.
PASS = 1 / 4
#: Rows of a tile on a CPU, at least: fewer would make products slow.
LEAST_HEIGHT = 64
#: Bytes that the products between the positions of two samples may take in a tile.
PAIR_BYTES = 2**25


def ntk(
    model: nn.Module | MLP,
    x: Inputs,
    x2: Inputs | None = None,
    *,
    outputs: Outputs = "sum",
    parameters: Selection | None = None,
    memory: int | None = None,
    tile: int | None = None,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Tensor:
    """Return the empirical NTK (n, n2) of ``model`` between the samples ``x`` and ``x2``.

    With outputs f_1, …, f_c and gradients with respect to the selected parameters,

        "sum":              K_ij = <∇F(x_i), ∇F(x2_j)>,  F = f_1 + … + f_c;
        an index a:         K_ij = <∇f_a(x_i), ∇f_a(x2_j)>;
        "mean_of_kernels":  K_ij = 1/c Σ_a <∇f_a(x_i), ∇f_a(x2_j)>;
        "full":             K_(i c + a, j c + b) = <∇f_a(x_i), ∇f_b(x2_j)>, of shape (n c, n2 c).

    ``x`` is a tensor with samples first, or a tuple of the model's inputs; the model returns (n,)
    or (n, c), a `networks.modules.Network` its pair. ``parameters`` selects by names, patterns
    ("head.*", "!*norm*") or a test of (name, parameter) among those that require gradients, by
    default all. Samples move to ``device``, which has to be the model's. ``progress`` shows a bar,
    by default in a terminal. The model is left as it was.

    The result is on the model's device, in the lowest precision with which the model computes, and
    exactly symmetric without ``x2``. Use float64 (``model.double()``, ``x.double()``): of a kernel
    in float32, `condition` takes eigenvalues up to n · 1.2e-7 · λ_max for zero. It takes 8 n n2
    bytes in float64, c² times as many if "full". ``memory`` are the bytes for gradients and passes
    beside it, by default half of the kernel, at least 0.95 GB (0.27 GB for an `MLP`); those of one
    sample in one parameter may take more. ``tile`` is the side of a tile.

    Raises:
        ParametersError: if no parameter is selected.
        TrainingModeError: if a layer behaves as in training, or random numbers are drawn.
        MixedSamplesError: if a sample's outputs depend on others or its place, seen at the first
            eight samples of each batch; the kernel is that of each sample alone.
        ModuleError: for precision below float32, lazy layers, and embeddings with ``max_norm``.
        NotEnoughMemoryError: if the kernel does not fit into the host's available memory.
        InputsError: if the inputs do not fit the model, or a number is not whole and positive.
        OutputsError: if the outputs are not (n,) or (n, c), or their sum is constant.

    >>> model = nn.Linear(2, 1)
    >>> ntk(model, torch.tensor([[1.0, 2.0], [0.0, 1.0]])).tolist()
    [[6.0, 3.0], [3.0, 2.0]]
    """
    require_positive(tile=tile, memory=memory)
    module = differentiated(model, parameters)
    sets = [as_inputs(inputs, device, module.device) for inputs in (x, x2) if inputs is not None]
    if isinstance(model, MLP):  # which has a faster way
        combinations_of(outputs, 1)
        if any(len(tensors) > 1 for tensors in sets):
            raise InputsError("an MLP takes one tensor (n, d), not several")
        rows = [t.to(module.device) for (t,) in sets]
        _require_memory(len(rows[0]), len(rows[-1]), model.dtype, model.device)
        return empirical.ntk(model, *rows, tile=tile, memory=memory)
    with computing(module):
        return _of_module(module, sets, outputs, memory, tile, progress)


def _of_module(
    module: DifferentiatedModule,
    sets: Sequence[Sequence[Tensor]],
    outputs: Outputs,
    memory: int | None,
    tile: int | None,
    progress: bool | None,
) -> Tensor:
    """Return the kernel of a module between the first and last set of samples; see `ntk`."""
    singles = [[t[:1].to(module.device) for t in samples] for samples in sets]
    plans = [survey(module, single) for single in singles]
    if plans[0].outputs != plans[-1].outputs:
        counts = f"{plans[0].outputs} outputs for x, {plans[-1].outputs} for x2"
        raise OutputsError(f"the module has {counts}")
    plan = max(plans, key=lambda plan: plan.sample_bytes)  # samples of x2 may be longer
    full, n, n2 = outputs == "full", len(sets[0][0]), len(sets[-1][0])
    k = plan.outputs if full else 1
    _require_memory(n * k, n2 * k, plan.dtype, module.device)
    combinations = combinations_of(outputs, plan.outputs).to(module.device, plan.dtype)
    if outputs == "sum" and plan.outputs > 1:
        require_varying_sum(module, plan, singles[0])
    size = n * k * n2 * k * plan.dtype.itemsize
    memory = max(LEAST_MEMORY, size // 2) if memory is None else memory
    needs = f"{size / host.GB:.2g} GB, and up to {memory / host.GB:.2g} GB beside it"
    _log.debug("a kernel of %d × %d takes %s", n * k, n2 * k, needs)
    total = torch.zeros(n * k, n2 * k, dtype=plan.dtype, device=module.device)
    gradients = SampleGradients(module, plan, combinations, max(n, n2), full=full)
    try:
        _add_kernel(gradients, sets, total, memory, tile, progress, k)
    except VmapError as error:
        _log.warning("samples are differentiated one by one, which is slow: %s", error)
        gradients = SampleGradients(module, plan, combinations, 0, full=full, use_vmap=False)
        _add_kernel(gradients, sets, total.zero_(), memory, tile, progress, k)
    if outputs == "mean_of_kernels":
        total /= plan.outputs
    if len(sets) == 1:
        gradient_tiles.mirror(total)
    return total.to(plan.precision)


def combinations_of(outputs: Outputs, c: int) -> Tensor:
    """Return k combinations (k, c) of the c outputs: each row is differentiated as one function."""
    if outputs == "sum":
        return torch.ones(1, c)
    if outputs in ("mean_of_kernels", "full"):
        return torch.eye(c)
    number: Any = outputs
    is_whole = isinstance(number, Integral) and not isinstance(number, bool)
    if not is_whole or not 0 <= number < c:
        raise OutputsError(
            f"outputs={outputs!r} of a module of {c}: give 'sum', 'mean_of_kernels', 'full' or "
            f"an index below {c}, from 0 on"
        )
    return torch.eye(c)[[number]]


def _add_kernel(
    gradients: SampleGradients,
    sets: Sequence[Sequence[Tensor]],
    total: Tensor,
    memory: int,
    tile: int | None,
    progress: bool | None,
    k: int,
) -> None:
    """Add the inner products of the gradients at two sets to ``total``: k² for a pair."""

    def add(r: slice, c: slice, left: Gradients, right: Gradients) -> None:
        entries = total[r.start * k : r.stop * k, c.start * k : c.stop * k]
        left.add(entries, right, full=gradients.full)
        twice = max(0, c.stop - max(c.start, r.stop)) if len(sets) == 1 else 0  # with their mirror
        bar.update((r.stop - r.start) * (c.stop - c.start + twice))

    n, n2 = len(sets[0][0]), len(sets[-1][0])
    most = max(n, n2)
    pass_memory = int(memory * PASS)
    panel_memory = (memory - pass_memory) // len(sets)
    groups = gradients.groups(panel_memory // most)
    disable = None if progress is None else not progress  # None asks tqdm for a terminal
    with tqdm(total=len(groups) * n * n2, unit="pair", delay=3, disable=disable) as bar:
        for names in groups:
            row_bytes = gradients.row_bytes(names)
            size = gradient_tiles.panel_rows(
                most, row_bytes=row_bytes, memory=panel_memory, least=1
            )
            # a panel that holds all samples is the only one, and may leave more to passes
            kept = (1 if size == most else 2) * len(sets)
            batch = gradients.batch(names, max(pass_memory, memory - kept * size * row_bytes))
            panels = [
                Panels(len(samples[0]), size, partial(gradients.at, names, batch, samples))
                for samples in sets
            ]
            shape = _tile_shape(size, gradients.pair_bytes(names), total.device)
            gradient_tiles.each_tile(add, panels, (tile, tile) if tile else shape)


def _tile_shape(n: int, pair_bytes: int, device: torch.device) -> tuple[int, int]:
    """Return the sides of a tile: little is wasted below the diagonal, and `PAIR_BYTES` suffice."""
    height, width = gradient_tiles.tile_shape(device)
    most = PAIR_BYTES // max(1, pair_bytes)
    height = max(1, min(height, max(LEAST_HEIGHT, n // 4), isqrt(most)))
    return height, max(height, min(width, most // height))


def _require_memory(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> None:
    if device.type == "cpu":
        remedy = "take fewer samples, or products with it: ntk_operator"
        what = f"a kernel of {rows:,} × {columns:,}"
        host.require(rows * columns * dtype.itemsize, what, remedy)


def require_varying_sum(
    module: DifferentiatedModule, plan: TracePlan, sample: Sequence[Tensor]
) -> None:
    """Raise `OutputsError` if the gradient of the sum of the outputs is zero up to rounding."""
    # the sum of all, and one in which they have different weights
    weights = torch.stack([torch.linspace(1, last, plan.outputs) for last in (1, 2)])
    _, gradients = autograd(module, sample, weights, [*module.parameters])
    largest = torch.stack([g.abs().amax(1) for g in gradients.values()]).amax(0)
    if largest[0] < 1e3 * plan.eps * largest[1]:
        raise OutputsError(
            "the sum of the outputs is constant, as after a softmax, and its kernel is zero; give "
            "outputs='mean_of_kernels'"
        )


def require_positive(**numbers: Any) -> None:
    """Raise `InputsError` for a number, by its name, that is given and not whole and positive."""
    for name, value in numbers.items():
        if value is not None and (not isinstance(value, Integral) or value < 1):
            raise InputsError(f"{name}={value!r} is no whole number above zero")
