"""The empirical NTK of any torch module, in bounded memory.

`kernels.traces` finds the weights of linear layers, `kernels.sample_gradients` differentiates by
these and all others, and here the kernel is summed up parameter by parameter, a tile at a time.
"""

import sys
from collections.abc import Sequence
from math import isqrt
from operator import index
from typing import Any, Literal

import numpy as np
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
    ParametersError,
    Selection,
    as_inputs,
    subject,
    unchanged,
)
from ntk_conditioning.kernels.kernel_terms import Gradients
from ntk_conditioning.kernels.sample_gradients import (
    NotTogetherError,
    SampleGradients,
    autograd,
    one_by_one,
    planned,
)
from ntk_conditioning.kernels.traces import TracePlan, random_state, require_nothing_drawn, survey
from ntk_conditioning.networks import gradient_tiles
from ntk_conditioning.networks.gradient_tiles import Panel, Panels
from ntk_conditioning.networks.mlp import MLP

Outputs = Literal["sum", "mean_of_kernels", "full"] | int

#: Bytes that may be taken beside a kernel in any case.
LEAST_MEMORY = 95 * 10**7
#: Part of the memory that the module's own passes may take.
PASS = 1 / 4
#: Rows of a tile on a CPU, at least: fewer would make products slow.
LEAST_HEIGHT = 64
#: Samples of which the second of the pair is chosen that is looked at first.
MOST_COMPARED = 256
#: Bytes that products of pairs of positions take at once.
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

    With outputs f_1, …, f_c and gradients by the selected parameters,

        "sum":              K_ij = <∇F(x_i), ∇F(x2_j)>,  F = f_1 + … + f_c;
        an index a:         K_ij = <∇f_a(x_i), ∇f_a(x2_j)>;
        "mean_of_kernels":  K_ij = 1/c Σ_a <∇f_a(x_i), ∇f_a(x2_j)>;
        "full":             K_(i c + a, j c + b) = <∇f_a(x_i), ∇f_b(x2_j)>, of shape (n c, n2 c).

    ``x`` is a tensor, or a tuple of the model's inputs, with samples first, and the model gives
    (n,) or (n, c); of a `networks.modules.Network` the first of its pair is taken. ``parameters``
    are all that require gradients, or those given by names, patterns ("head.*", "!*norm*") or a
    test of (name, parameter). Without ``x2`` the result is exactly symmetric. ``memory`` is what
    may be taken beside the kernel, in bytes, by default half of its size or 0.95 GB: if it
    does not hold the gradients of all samples, some are computed more than once. Samples are moved
    to ``device``, where the model is. ``progress`` shows a bar, by default in a terminal only.

    The model is left as it was. Where `torch.func.vmap` cannot take many samples at once, they are
    differentiated one by one, slowly, and the log says why. The result is on the model's device, in
    the lowest precision on the way to the outputs: use float64 for small eigenvalues.

    Raises:
        ParametersError: if no parameter is selected.
        TrainingModeError: if a layer differs in training mode and is in it, or numbers are drawn.
        MixedSamplesError: if the outputs of a sample depend on others, or on its place among them.
        ModuleError: of less than single precision, lazy layers, embeddings with ``max_norm``.
        NotEnoughMemoryError: if the kernel does not fit into the host's memory.
        InputsError, OutputsError: if these do not fit; if the sum of the outputs is constant.

    >>> model = nn.Linear(2, 1)
    >>> ntk(model, torch.tensor([[1.0, 2.0], [0.0, 1.0]])).tolist()
    [[6.0, 3.0], [3.0, 2.0]]
    """
    tile, memory = _positive("tile", tile), _positive("memory", memory)
    if isinstance(model, MLP):
        return _of_mlp(model, x, x2, outputs, parameters, memory, tile, device)
    chosen = subject(model, parameters)
    here = as_inputs(x, device, chosen.device)
    others = None if x2 is None else as_inputs(x2, device, chosen.device)
    shown = sys.stderr.isatty() if progress is None else progress
    with (
        torch.inference_mode(False),
        torch.no_grad(),
        torch.autocast(chosen.device.type, enabled=False),
        unchanged(model, chosen.device),
        gradient_tiles.full_precision(),
    ):
        return _of_module(chosen, here, others, outputs, memory, tile, shown)


def _of_module(
    chosen: DifferentiatedModule,
    here: Sequence[Tensor],
    others: Sequence[Tensor] | None,
    outputs: Outputs,
    memory: int | None,
    tile: int | None,
    progress: bool,
) -> Tensor:
    """Return the kernel of a module; see `ntk`."""
    there = here if others is None else others
    pair = [t.to(chosen.device) for t in _pair_of(here if len(here[0]) > 1 else there)]
    drawn = random_state(chosen.device)
    plan, _ = survey(chosen, [t[:1] for t in pair])
    if others is not None:
        _require_alike(chosen, plan.outputs, here, there)
    full, n, n2 = outputs == "full", len(here[0]), len(there[0])
    k = plan.outputs if full else 1
    _require_memory(n * k, n2 * k, plan.dtype, chosen.device)
    combinations = _combinations(outputs, plan.outputs).to(chosen.device, plan.dtype)
    if outputs == "sum" and plan.outputs > 1:
        _require_varying_sum(chosen, plan, pair)
    total = torch.zeros(n * k, n2 * k, dtype=plan.dtype, device=chosen.device)
    memory = max(LEAST_MEMORY, total.nbytes // 2) if memory is None else memory
    plan = planned(plan, len(combinations), max(n, n2), full=full)
    gradients = SampleGradients(chosen, plan, combinations)
    try:
        if wrong := gradients.differing(pair, memory // 4):
            raise NotTogetherError(f"gradients by {', '.join(wrong)} differ from autograd's")
        _kernel(gradients, here, others, total, memory, tile, progress, full=full)
    except NotTogetherError as error:
        gradients = SampleGradients(chosen, one_by_one(plan, str(error)), combinations)
        _kernel(gradients, here, others, total.zero_(), memory, tile, progress, full=full)
    require_nothing_drawn(drawn, chosen.device)
    if outputs == "mean_of_kernels":
        total /= plan.outputs
    if others is None:
        _mirror(total)
    return total.to(plan.precision)


def _pair_of(inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the first finite sample, and the one of some others that differs most from it."""
    few = [
        t[:MOST_COMPARED].cpu().flatten(1) if t.ndim > 1 else t[:MOST_COMPARED, None].cpu()
        for t in inputs
    ]
    finite = torch.stack([t.isfinite().all(1) for t in few]).all(0)
    first = int(finite.long().argmax())
    differing = torch.stack([(t != t[first]).sum(1) for t in few]).sum(0)
    second = int(torch.where(finite, differing, -1).argmax())
    return [t[[first, second]] for t in inputs]


def _require_memory(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> None:
    """Raise `NotEnoughMemoryError` if a kernel of this size does not fit into the host's memory."""
    if device.type == "cpu":
        host.require(rows * columns * dtype.itemsize, f"a kernel of {rows:,} × {columns:,}")


def _require_varying_sum(
    subject: DifferentiatedModule, plan: TracePlan, pair: Sequence[Tensor]
) -> None:
    """Raise `OutputsError` if the sum of the outputs has no gradient but for rounding."""
    with torch.enable_grad():
        made = subject.outputs([t[:1] for t in pair])[0]
    # the sum of all, and one in which they have different weights
    weights = [torch.linspace(1, last, plan.outputs, device=made.device) for last in (1, 2)]
    gradients = autograd(made, torch.stack(weights).to(made), subject, [*subject.parameters])
    summed, weighted = (max(float(g[i].abs().max()) for g in gradients.values()) for i in (0, 1))
    if summed < 1e3 * plan.eps * weighted:
        raise OutputsError(
            "the sum of the outputs is constant, as after a softmax, and its kernel is zero; give "
            "outputs='mean_of_kernels'"
        )


def _require_alike(
    subject: DifferentiatedModule, outputs: int, x: Sequence[Tensor], x2: Sequence[Tensor]
) -> None:
    """Raise `InputsError` or `OutputsError` unless the module takes ``x2`` as it takes ``x``."""
    if [t.dtype for t in x] != [t.dtype for t in x2]:
        types, types2 = (" and ".join(str(t.dtype) for t in each) for each in (x, x2))
        raise InputsError(f"x is {types} and x2 is {types2}: give both the same types")
    found = subject.outputs([t[:1].to(subject.device) for t in x2]).shape[1]
    if found != outputs:
        raise OutputsError(f"the module has {outputs} outputs for x and {found} for x2")


def _of_mlp(
    mlp: MLP,
    x: Inputs,
    x2: Inputs | None,
    outputs: Outputs,
    parameters: Selection | None,
    memory: int | None,
    tile: int | None,
    device: torch.device | str | None,
) -> Tensor:
    """Return the kernel of a network of one output, by its fast path."""
    if parameters is not None:
        raise ParametersError("an MLP's weights have no names: leave out parameters=")
    _combinations(outputs, 1)
    home = mlp.device
    (here,), others = as_inputs(x, device, home), None
    if x2 is not None:
        (others,) = (t.to(home) for t in as_inputs(x2, device, home))
    _require_memory(len(here), len(here if others is None else others), mlp.weights[0].dtype, home)
    return empirical.ntk(mlp, here.to(home), others, tile=tile, memory=memory)


def _whole(value: Any) -> int | None:
    """Return a whole number of any type as an int, None for everything else."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def _positive(name: str, value: int | None) -> int | None:
    number = _whole(value)
    if value is not None and (number is None or number < 1):
        raise InputsError(f"{name}={value!r} is no whole number above zero")
    return number


def _combinations(outputs: Outputs, c: int) -> Tensor:
    """Return the combinations (k, c) of outputs that are differentiated."""
    if outputs == "sum":
        return torch.ones(1, c)
    if outputs in ("mean_of_kernels", "full"):
        return torch.eye(c)
    number = _whole(outputs)
    if number is None or not 0 <= number < c:
        raise OutputsError(
            f"outputs={outputs!r} of a module of {c}: give 'sum', 'mean_of_kernels', 'full' or "
            f"an index below {c}, from 0 on"
        )
    return torch.eye(c)[[number]]


def _kernel(
    gradients: SampleGradients,
    x: Sequence[Tensor],
    x2: Sequence[Tensor] | None,
    total: Tensor,
    memory: int,
    tile: int | None,
    progress: bool,
    *,
    full: bool,
) -> None:
    """Add the inner products of the gradients at ``x`` and ``x2`` to ``total``."""
    n, n2 = len(x[0]), len(x[0] if x2 is None else x2[0])
    passing = int(memory * PASS)
    room = (memory - passing) // (1 if x2 is None else 2)
    groups = gradients.groups(room // max(n, n2))
    with tqdm(total=len(groups) * n * n2, unit="pair", delay=3, disable=not progress) as bar:
        for names in groups:
            size = gradient_tiles.panel_rows(
                max(n, n2), row_bytes=gradients.row_bytes(names), memory=room, least=1
            )
            batch = gradients.batch(names, passing)
            rows = columns = Panels(n, size, gradients.of(names, x, batch))
            if x2 is not None:
                columns = Panels(n2, size, gradients.of(names, x2, batch))
            spans = len(rows.spans), len(columns.spans)
            for i, j in rows.pairs() if x2 is None else np.ndindex(*spans):
                bar.update(_fill(total, rows[i], columns[j], tile, upper=x2 is None, full=full))


def _fill(
    total: Tensor,
    here: Panel[Gradients],
    there: Panel[Gradients],
    tile: int | None,
    *,
    upper: bool,
    full: bool,
) -> int:
    """Add the products of two panels to ``total``; return how many pairs that settles."""
    shape = (tile, tile) if tile else _tile_shape(here, there, total.device, full=full)
    for r, c in gradient_tiles.tiles(here.span, there.span, shape, upper=upper):
        rows, columns = here.rows(r), there.rows(c)
        k = rows.outputs if full else 1
        entries = total[r.start * k : r.stop * k, c.start * k : c.stop * k]
        rows.add(entries, columns, full=full)
    pairs: int = (here.span.stop - here.span.start) * (there.span.stop - there.span.start)
    return pairs * (2 if upper and here is not there else 1)


def _tile_shape(
    here: Panel[Gradients], there: Panel[Gradients], device: torch.device, *, full: bool
) -> tuple[int, int]:
    """Return the sides of a tile that waste little below the diagonal and fit into `PAIR_BYTES`."""
    height, width = gradient_tiles.tile_shape(device)
    n = here.span.stop - here.span.start
    height = min(height, max(LEAST_HEIGHT, n // 4))
    most = PAIR_BYTES // max(1, here.factors.pair_bytes(full=full))
    if height * width > most:
        height = max(1, min(height, isqrt(most)))
        width = most // height
    return height, max(height, width)


def _mirror(total: Tensor) -> None:
    """Copy the upper triangle to the lower one."""
    for top in range(0, len(total), 1024):
        r = slice(top, top + 1024)
        square = total[r, r]
        square.copy_(square.triu() + square.triu(1).T)
        total[r.stop :, r] = total[r, r.stop :].T
