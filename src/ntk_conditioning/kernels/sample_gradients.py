"""Gradients of samples, each alone, by some of a module's parameters, a batch of samples at a time.

`torch.func.vmap` has the module see each sample of a batch alone and many at once. Where it cannot,
as with branches that depend on the sample, autograd differentiates one sample after the other.
"""

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from ntk_conditioning.errors import one_line
from ntk_conditioning.kernels.differentiated_modules import (
    DifferentiatedModule,
    MixedSamplesError,
    first,
)
from ntk_conditioning.kernels.kernel_terms import Factors, Gradients, Matrix
from ntk_conditioning.kernels.traces import Trace, TracePlan, survey, tensors

#: Samples that the module sees at once, at most.
MOST_SAMPLES = 64
#: How far gradients may be apart that are computed in two ways, relative to the largest entry:
#: much more than rounding and much less than a mistake.
TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-2}

_log = logging.getLogger(__name__)


class NotTogetherError(RuntimeError):
    """`torch.func.vmap` cannot have the module see samples together, for a reason."""


class SampleGradients:
    """Makes the gradients of ``combinations`` (k, c) of a subject's outputs, as a plan says."""

    def __init__(
        self, subject: DifferentiatedModule, plan: TracePlan, combinations: Tensor
    ) -> None:
        self.plan = plan
        self._subject, self._combinations = subject, combinations
        self._zeros: dict[Any, Mapping[str, Tensor]] = {}

    @property
    def _k(self) -> int:
        return len(self._combinations)

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return what the gradients of a sample take."""
        total = 0
        for name in names:
            product = self.plan.factored.get(name)
            entries = self._k * self._subject.parameters[name].numel()
            total += product.factor_entries(self._k) if product else entries
        return total * self.plan.dtype.itemsize

    def groups(self, most: int) -> list[list[str]]:
        """Return the parameters whose gradients are held at once: as far as ``most`` bytes go.

        From the last one on, so that backward passes are short.
        """
        groups: list[list[str]] = []
        left = -1
        for name in reversed([*self._subject.parameters]):
            left -= self.row_bytes([name])
            if left < 0:
                groups.append([])
                left = most - self.row_bytes([name])
            groups[-1].append(name)
        return groups

    def batch(self, names: Sequence[str], memory: int) -> int:
        """Return how many samples the module sees at once, for passes of ``memory`` bytes."""
        each = 3 * self.plan.sample_bytes + self.row_bytes(names)
        return max(1, min(MOST_SAMPLES, memory // each))

    def of(
        self, names: Sequence[str], x: Sequence[Tensor], batch: int
    ) -> Callable[[slice], Gradients]:
        """Return what makes the gradients by a group of parameters of a span of samples."""

        def compute(span: slice) -> Gradients:
            terms: dict[str, Matrix | Factors] = {}
            n = span.stop - span.start
            for top in range(0, n, batch):
                part = slice(top, min(top + batch, n))
                rows = slice(span.start + part.start, span.start + part.stop)
                samples = [t[rows].to(self._subject.device) for t in x]
                together = self._subject.outputs(samples)
                alone, made = self._together(names, samples)
                self._require_alone(samples, together, alone)
                for name, term in made.items():
                    if name not in terms:
                        terms[name] = _empty_like(term, n)
                    _copy(term, terms[name].rows(part))
            return Gradients(self._k, terms)

        return compute

    def _together(
        self, names: Sequence[str], samples: Sequence[Tensor]
    ) -> tuple[Tensor, Mapping[str, Matrix | Factors]]:
        """Return the outputs (n, c) of each sample alone, and its gradients by parameters."""
        if not self.plan.together:
            parts = [self._alone(names, [t[i : i + 1] for t in samples]) for i in _range(samples)]
            return torch.cat([outputs for outputs, _ in parts]), {
                name: Matrix(torch.stack([g[name] for _, g in parts])) for name in names
            }
        traces: list[Trace] = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that an operation is slow
                return self._by_vmap(names, samples, traces)
        except (MemoryError, torch.OutOfMemoryError):  # which one by one would not mend
            raise
        except Exception as error:
            last = f"{traces[-1].last}: " if traces else ""
            raise NotTogetherError(last + one_line(error).partition(". ")[0]) from error

    def _by_vmap(
        self, names: Sequence[str], samples: Sequence[Tensor], traces: list[Trace]
    ) -> tuple[Tensor, Mapping[str, Matrix | Factors]]:
        parameters = {name: self._subject.parameters[name].detach() for name in names}
        factored = [name for name in names if name in self.plan.factored]
        weights = {name: self._subject.parameters[name] for name in factored}
        given = {name: p for name, p in parameters.items() if name not in weights}
        shifts = self._shifts_of([t[:1] for t in samples]) if factored else {}
        zeros = {name: shifts[name] for name in factored}

        def of_sample(*sample: Tensor) -> Any:
            def forward(shifts: Any, parameters: Any) -> Any:
                traces.append(trace := Trace(weights, shifts))
                with trace:
                    made = functional_call(
                        self._subject.model, parameters, tuple(t.unsqueeze(0) for t in sample)
                    )
                inputs = {name: trace.inputs[name] for name in factored}
                return first(self._subject.model, made).reshape(self.plan.outputs), inputs

            made, pull, inputs = vjp(forward, zeros, given, has_aux=True)  # type: ignore[misc]
            pulled = [pull(combination) for combination in self._combinations]
            shifts, plain = (
                {name: torch.stack([each[number][name] for each in pulled]) for name in kind}
                for number, kind in enumerate((factored, given))
            )
            return made, inputs, shifts, plain

        made, inputs, shifts, plain = vmap(of_sample)(*(t.clone() for t in samples))
        dtype = self.plan.dtype
        terms: dict[str, Matrix | Factors] = {
            name: Matrix(g.reshape(*g.shape[:2], -1).to(dtype)) for name, g in plain.items()
        }
        for name, a in inputs.items():
            a = a.to(dtype) if a.is_floating_point() else a
            terms[name] = Factors(a, shifts[name].to(dtype))
        return made, terms

    def _shifts_of(self, sample: Sequence[Tensor]) -> Mapping[str, Tensor]:
        """Return the shifts, all zero, for samples of the same shape as this one."""
        key = tuple(tuple(t.shape) for t in sample)
        if key not in self._zeros:
            self._zeros[key] = survey(self._subject, sample)[1].zeros
        return self._zeros[key]

    def _alone(
        self, names: Sequence[str], sample: Sequence[Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Return the outputs (1, c) of a sample, and its gradients (k, p) by autograd."""
        with torch.enable_grad():
            (made,) = self._subject.outputs(sample)
        rows = autograd(made, self._combinations, self._subject, names)
        return made.detach().unsqueeze(0), rows

    def differing(self, pair: Sequence[Tensor], memory: int) -> list[str]:
        """Return the parameters whose part of the kernel of two samples is not that of autograd."""
        parts: dict[str, tuple[Tensor, Tensor]] = {}
        for names in self.groups(memory // len(pair[0])):
            made = self._together(names, pair)[1]
            alone = [self._alone(names, [t[i : i + 1] for t in pair])[1] for i in _range(pair)]
            for name in names:
                plain = Matrix(torch.stack([g[name] for g in alone]))
                parts[name] = _product(plain), _product(made[name])
        sizes = {name: float(right.nan_to_num().abs().max()) for name, (right, _) in parts.items()}
        rounding = 1e3 * self.plan.eps * max(sizes.values())
        tolerance = TOLERANCE[self.plan.precision]
        return [
            name
            for name, (right, found) in parts.items()
            if not torch.allclose(
                right, found, rtol=0, atol=rounding + tolerance * sizes[name], equal_nan=True
            )
        ]

    def _require_alone(self, samples: Sequence[Tensor], together: Tensor, alone: Tensor) -> None:
        """Raise `MixedSamplesError` unless samples have the same outputs together and alone.

        Products of other sizes round otherwise, which deep networks stretch.
        """
        wrong = _differ(together, alone, self.plan.eps ** (1 / 3)).flatten(1).any(1)
        if wrong.any():
            number = int(wrong.long().argmax())
            where = self._mixing_module(samples, number)
            raise MixedSamplesError(
                f"{where} mixes samples, or depends on their place in the batch: what it gives for "
                "one is not what it gives for this one alone; replace it by a layer that treats "
                "each sample alone, or, if many layers stretch rounding, give float64"
            )

    def _mixing_module(self, samples: Sequence[Tensor], number: int) -> str:
        """Return the first module whose result for a sample is another one among others."""
        model, results = self._subject.model, list[list[tuple[str, Tensor]]]()
        for inputs in (samples, [t[number : number + 1] for t in samples]):
            results.append([])

            def hook(name: str, into: list[tuple[str, Tensor]] = results[-1]) -> Any:
                def keep(module: nn.Module, args: Any, made: Any) -> None:
                    into.extend((name, t.detach().clone()) for t in tensors(made))

                return keep

            handles = [m.register_forward_hook(hook(name)) for name, m in model.named_modules()]
            try:
                self._subject.outputs(inputs)
            finally:
                for handle in handles:
                    handle.remove()
        for (name, a), (_, b) in zip(*results, strict=False):
            fits = a.ndim and len(a) == len(samples[0]) and a[:1].shape == b.shape
            if fits and _differ(a[number], b[0], 1e4 * self.plan.eps).any():
                return name or f"the {type(model).__name__}"
        return f"the {type(model).__name__}"


def autograd(
    outputs: Tensor, combinations: Tensor, subject: DifferentiatedModule, names: Sequence[str]
) -> dict[str, Tensor]:
    """Return the gradients (k, p) of combinations (k, c) of outputs (c,) by parameters."""
    with torch.enable_grad():
        values = (combinations @ outputs).unbind()
    parameters = [subject.parameters[name] for name in names]
    options: Any = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    rows = [torch.autograd.grad(value, parameters, **options) for value in values]
    return {
        name: torch.stack([g.to_dense().flatten().to(outputs.dtype) for g in column])
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


def planned(plan: TracePlan, k: int, n: int, *, full: bool) -> TracePlan:
    """Return the plan by which weights are factored if it is cheaper, for n samples' k outputs."""
    products = plan.factored.items()
    kept = {name: each for name, each in products if each.is_factored(n, k, full=full)}
    return replace(plan, factored=kept)


def one_by_one(plan: TracePlan, reason: str) -> TracePlan:
    """Return the plan by which autograd differentiates each sample alone, and say so."""
    _log.warning("samples are differentiated one by one, which is slow: %s", reason)
    return replace(plan, factored={}, together=False)


def _range(samples: Sequence[Tensor]) -> range:
    return range(len(samples[0]))


def _differ(a: Tensor, b: Tensor, tolerance: float) -> Tensor:
    """Return where two results differ by more than a part of the largest entry."""
    a, b = a.detach(), b.detach()
    if not a.is_floating_point() or not a.numel():
        return a != b
    size = max(float(t.abs().nan_to_num(0, 0, 0).max()) for t in (a, b))
    return ~torch.isclose(a, b, rtol=0, atol=tolerance * size, equal_nan=True)


def _product(term: Matrix | Factors) -> Tensor:
    """Return the inner products of all gradients by a parameter."""
    values = term.values if isinstance(term, Matrix) else term.d
    total = values.new_zeros(2 * [values.shape[0] * values.shape[1]])
    term.add(total, term, full=True)  # type: ignore[arg-type]
    return total


def _empty_like(term: Matrix | Factors, n: int) -> Matrix | Factors:
    if isinstance(term, Matrix):
        return Matrix(term.values.new_empty(n, *term.values.shape[1:]))
    return Factors(term.a.new_empty(n, *term.a.shape[1:]), term.d.new_empty(n, *term.d.shape[1:]))


def _copy(term: Any, into: Any) -> None:
    for name in vars(term):
        getattr(into, name).copy_(getattr(term, name))
