"""The empirical NTK of any torch module, in bounded memory.

The module runs on a few samples at a time while `kernels.traces` watches where its weights meet
them; one backward pass then gives what the gradients of all these samples are made of. The kernel
is summed up weight by weight, each in the cheaper of two ways: from the gradients of the samples,
or from pairs of positions without them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from ntk_conditioning.kernels import empirical
from ntk_conditioning.kernels.contributions import Contribution, Factors, Matrix, Sizes, pair_bytes
from ntk_conditioning.kernels.fallback import Differentiation
from ntk_conditioning.kernels.gathering import pull_back
from ntk_conditioning.kernels.layers import RULES
from ntk_conditioning.kernels.probes import Plan, probe
from ntk_conditioning.kernels.subjects import (
    Inputs,
    OutputsError,
    ParametersError,
    Selection,
    Subject,
    as_inputs,
    subject,
    unchanged,
)
from ntk_conditioning.kernels.traces import Trace
from ntk_conditioning.networks import gradient_tiles
from ntk_conditioning.networks.gradient_tiles import Panel, Panels
from ntk_conditioning.networks.mlp import MLP

Outputs = Literal["sum", "mean_of_kernels", "full"] | int

#: Bytes that gradients may take in any case: what a small kernel needs at once.
LEAST_MEMORY = 8 * 10**8
#: Samples that the module sees at once, at most.
MOST_SAMPLES = 64
#: Part of the memory that the module's own pass and the gradients on their way may take.
PASS = 1 / 4
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
    may be taken beside the kernel, in bytes, by default half of its size or `LEAST_MEMORY`: if it
    does not hold the gradients of all samples, some are computed more than once. Samples are moved
    to ``device``, where the model is. ``progress`` shows a bar, by default in a terminal only.

    The model is left as it was. Weights of layers that are not known are differentiated by
    `torch.func`, which is slow, and a warning in the log names them.

    Raises:
        ParametersError: if no parameter is selected.
        TrainingModeError: if a layer is in training mode that differs then.
        MixedSamplesError: if the outputs of a sample depend on others.
        InputsError, OutputsError: if these do not fit.

    >>> model = nn.Linear(2, 1)
    >>> ntk(model, torch.tensor([[1.0, 2.0], [0.0, 1.0]])).tolist()
    [[6.0, 3.0], [3.0, 2.0]]
    """
    if isinstance(model, MLP):
        return _of_mlp(model, x, x2, outputs, parameters, memory, tile, device)
    chosen = subject(model, parameters)
    here = as_inputs(x, device, chosen.device)
    there = here if x2 is None else as_inputs(x2, device, chosen.device)
    with (
        torch.inference_mode(False),
        torch.no_grad(),
        unchanged(model, chosen.device),
        gradient_tiles.full_precision(),
    ):
        with torch.enable_grad():
            plan = probe(chosen, [t[:2].to(chosen.device) for t in here])
        work = _Work(chosen, plan, outputs, len(here[0]), len(there[0]))
        shown = sys.stderr.isatty() if progress is None else progress
        return work.kernel(here, None if x2 is None else there, memory, tile, shown)


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
    return empirical.ntk(mlp, here.to(home), others, tile=tile, memory=memory)


def _combinations(outputs: Outputs, c: int) -> Tensor:
    """Return the combinations (k, c) of outputs that are differentiated."""
    if outputs == "sum":
        return torch.ones(1, c)
    if outputs in ("mean_of_kernels", "full"):
        return torch.eye(c)
    if not isinstance(outputs, int) or not 0 <= outputs < c:
        raise OutputsError(
            f"outputs={outputs!r} of a module of {c}: give 'sum', 'mean_of_kernels', 'full' or "
            f"an index below {c}"
        )
    return torch.eye(c)[outputs : outputs + 1]


@dataclass(frozen=True, eq=False)
class _Gradients:
    """Contributions of parameters, by name, to a kernel."""

    by_name: Mapping[str, Contribution]

    def rows(self, r: slice) -> _Gradients:
        return _Gradients({name: c.rows(r) for name, c in self.by_name.items()})


class _Work:
    """The kernel of a subject, of which the plan is known."""

    def __init__(self, subject: Subject, plan: Plan, outputs: Outputs, n: int, n2: int) -> None:
        self._subject, self._plan = subject, plan
        self._full, self._is_mean = outputs == "full", outputs == "mean_of_kernels"
        self._dtype = torch.promote_types(plan.dtype, torch.float32)
        combinations = _combinations(outputs, plan.outputs)
        self._combinations = combinations.to(subject.device, plan.dtype)
        self._factored = {}
        for name in plan.uses:
            sizes = self._sizes(name)
            if sizes and sizes.factors_are_cheaper(max(n, n2), full=self._full):
                self._factored[name] = sizes

    @property
    def _k(self) -> int:
        return len(self._combinations)

    def _sizes(self, name: str) -> Sizes | None:
        """Return the sizes of a weight that is used in a single product."""
        uses = self._plan.uses[name]
        if len(uses) != 1 or uses[0].sizes is None or uses[0].weight.scale is None:
            return None
        p = self._subject.parameters[name].numel()
        return Sizes(*uses[0].sizes, p=p, k=self._k)

    def _row_bytes(self, name: str) -> int:
        sizes, p = self._factored.get(name), self._subject.parameters[name].numel()
        return (sizes.factor_entries if sizes else self._k * p) * self._dtype.itemsize

    def kernel(
        self,
        x: Sequence[Tensor],
        x2: Sequence[Tensor] | None,
        memory: int | None,
        tile: int | None,
        progress: bool,
    ) -> Tensor:
        n, n2 = len(x[0]), len(x[0] if x2 is None else x2[0])
        k = self._k if self._full else 1
        total = torch.zeros(n * k, n2 * k, dtype=self._dtype, device=self._subject.device)
        memory = max(LEAST_MEMORY, total.nbytes // 2) if memory is None else memory
        room = int(memory * (1 - PASS)) // (1 if x2 is None else 2)
        groups = self._groups(room // max(n, n2))
        with tqdm(
            total=len(groups) * n * n2, unit="pair", delay=3, leave=False, disable=not progress
        ) as bar:
            for names in groups:
                row_bytes = sum(map(self._row_bytes, names))
                size = gradient_tiles.panel_rows(
                    max(n, n2), row_bytes=row_bytes, memory=room, least=1
                )
                batch = self._batch(names, int(memory * PASS))
                rows = columns = self._panels(names, x, size, batch)
                if x2 is not None:
                    columns = self._panels(names, x2, size, batch)
                spans = len(rows.spans), len(columns.spans)
                for i, j in rows.pairs() if x2 is None else np.ndindex(*spans):
                    _fill(total, rows[i], columns[j], tile, k=k, upper=x2 is None, full=self._full)
                    bar.update(n * n2 // len(rows.spans) ** 2)
        if self._is_mean:
            total /= self._k
        if x2 is None:
            _mirror(total)
        return total

    def _groups(self, most: int) -> list[list[str]]:
        """Return parameters that are held at once: of all samples, as far as ``most`` bytes go.

        From the last one on, so that backward passes are short; those without a rule apart.
        """
        groups: list[list[str]] = []
        for names in (self._plan.uses, self._plan.reasons):
            left = 0
            for name in reversed([*names]):
                needed = self._row_bytes(name)
                if needed > left or not left:
                    groups.append([])
                    left = most
                groups[-1].append(name)
                left -= needed
        return groups

    def _batch(self, names: Sequence[str], memory: int) -> int:
        """Return how many samples the module sees at once."""
        p = max(self._subject.parameters[name].numel() for name in names)
        sample = 3 * self._plan.sample_bytes + 2 * p * self._dtype.itemsize
        return max(1, min(MOST_SAMPLES, memory // sample))

    def _panels(
        self, names: Sequence[str], x: Sequence[Tensor], size: int, batch: int
    ) -> Panels[_Gradients]:
        n = len(x[0])
        if names[0] in self._plan.reasons:
            slow = Differentiation(self._subject, names, self._combinations)
        else:
            slow = None

        def compute(span: slice) -> _Gradients:
            gradients = self._empty(names, span.stop - span.start)
            for top in range(span.start, span.stop, batch):
                part = slice(top, min(top + batch, span.stop))
                samples = [t[part].to(self._subject.device) for t in x]
                rows = gradients.rows(slice(part.start - span.start, part.stop - span.start))
                if slow is None:
                    self._trace(names, samples, rows.by_name)
                    continue
                for name, values in slow.gradients(samples).items():
                    rows.by_name[name].values.copy_(values)
            return gradients

        return Panels(n, size, compute)

    def _empty(self, names: Sequence[str], n: int) -> _Gradients:
        made: dict[str, Contribution] = {}
        for name in names:
            parameter, sizes = self._subject.parameters[name], self._factored.get(name)
            empty = torch.empty(0, dtype=self._dtype, device=parameter.device)
            if sizes is None:
                made[name] = Matrix(empty.new_empty(n, self._k, parameter.numel()))
                continue
            g, s = sizes.g, sizes.s
            a = empty.new_empty(n, g, s, sizes.inputs)
            if sizes.by_index:
                a = empty.new_empty(n, g, s, dtype=torch.long)
            made[name] = Factors(a, empty.new_empty(n, self._k, g, s, sizes.outputs))
        return _Gradients(made)

    def _trace(
        self, names: Sequence[str], samples: Sequence[Tensor], into: Mapping[str, Contribution]
    ) -> None:
        """Set the contributions of a few samples."""
        n, parameters = len(samples[0]), {name: self._subject.parameters[name] for name in names}
        with torch.enable_grad():
            trace = Trace(parameters, self._plan.calls, RULES)
            made = self._subject.outputs(samples, within=trace)
            trace.finish()
        for number, combination in enumerate(self._combinations):
            written: set[str] = set()

            def add(name: str, gradient: Tensor, number: int = number) -> None:
                values = into[name].values[:, number]
                if name in written:
                    values += gradient
                else:
                    values.copy_(gradient)
                    written.add(name)

            with torch.enable_grad():
                trace.backward((made @ combination).sum(), again=number + 1 < self._k)
            for record in trace.records:
                for use in record.uses if record.delta is not None else ():
                    (name, *_) = use.weight.roots
                    if name not in self._factored:
                        pull_back(use.weight, use.gradient(record.delta), parameters, add)
                        continue
                    a, d = use.factors(record.delta)
                    into[name].a.copy_(a)
                    into[name].d[:, number] = d * use.weight.scale
                    written.add(name)
            for name in set(names) - written:
                contribution = into[name]
                if isinstance(contribution, Matrix):
                    contribution.values[:, number] = 0
                else:
                    contribution.a.zero_()
                    contribution.d[:, number] = 0


def _fill(
    total: Tensor,
    here: Panel[_Gradients],
    there: Panel[_Gradients],
    tile: int | None,
    *,
    k: int,
    upper: bool,
    full: bool,
) -> None:
    """Add the products of two panels to ``total``, ``k`` rows for each sample."""
    largest = max((pair_bytes(c, full=full) for c in here.factors.by_name.values()), default=0)
    shape = (tile, tile) if tile else _tile_shape(here, there, total.device, largest)
    for r, c in gradient_tiles.tiles(here.span, there.span, shape, upper=upper):
        entries = total[r.start * k : r.stop * k, c.start * k : c.stop * k]
        rows, columns = here.rows(r).by_name, there.rows(c).by_name
        for name in rows:
            rows[name].add(entries, columns[name], full=full)


def _tile_shape(
    here: Panel[_Gradients], there: Panel[_Gradients], device: torch.device, pair_bytes: int
) -> tuple[int, int]:
    height, width = gradient_tiles.tile_shape(device)
    n, m = (panel.span.stop - panel.span.start for panel in (here, there))
    height, width = min(height, max(64, n // 4)), max(min(width, m), 1)
    most = PAIR_BYTES // max(1, pair_bytes)
    if height * width > most:
        height = max(1, min(height, isqrt(most)))
        width = max(height, min(width, most // height))
    return height, max(height, width)


def _mirror(total: Tensor) -> None:
    """Copy the upper triangle to the lower one."""
    for top in range(0, len(total), 1024):
        r = slice(top, top + 1024)
        square = total[r, r]
        square.copy_(square.triu() + square.triu(1).T)
        total[r.stop :, r] = total[r, r.stop :].T
