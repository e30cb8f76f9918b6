"""The gradients ∂f/∂p at each sample, by some of a module's parameters, for a batch of samples.

Write f(x; p, shifts) for the network with parameters p and the shifts of `traces`. A backward pass
at one sample, by `torch.func.vjp`, gives at once
- ∂f/∂p, for a convolution, a bias, a normalisation: the gradient itself, as `PlainGradients`;
- d = ∂f/∂shift, for a layer whose weight is factored: with its input a, `FactoredGradients`.
`torch.func.vmap` does so for many samples at once, of which the module sees each alone. Where it
cannot, autograd takes one sample after the other.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
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
from ntk_conditioning.kernels.kernel_terms import FactoredGradients, Gradients, PlainGradients, Term
from ntk_conditioning.kernels.traces import Trace, TracePlan, survey, tensors

#: Samples that the module sees at once, at most.
MOST_SAMPLES = 64
#: Samples of a batch whose outputs are compared with what the module gives for each alone.
COMPARED = 8
#: How far gradients may be apart that are computed in two ways, relative to the largest entry:
#: much more than rounding and much less than a mistake.
TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-2}


class VmapError(RuntimeError):
    """`torch.func.vmap` cannot differentiate the module, for the reason that the message gives."""


class SampleGradients:
    """Computes gradients of k ``combinations`` (k, c) of a module's c outputs, as a plan says."""

    def __init__(self, module: DifferentiatedModule, plan: TracePlan, combinations: Tensor) -> None:
        self.plan = plan
        self._module, self._combinations = module, combinations
        self._zeros_of_shape: dict[Any, Mapping[str, Tensor]] = {}

    @property
    def _k(self) -> int:
        return len(self._combinations)

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return the bytes of one sample's gradients with respect to these parameters."""
        total = 0
        for name in names:
            layer = self.plan.factored.get(name)
            entries = self._k * self._module.parameters[name].numel()
            total += layer.factor_entries(self._k) if layer else entries
        return total * self.plan.dtype.itemsize

    def groups(self, most: int) -> list[list[str]]:
        """Return groups of parameters by which a sample's gradients take about ``most`` bytes.

        The parameters nearest to the outputs come first: their backward passes are short.
        """
        groups: list[list[str]] = []
        bytes_left = -1
        for name in reversed([*self._module.parameters]):
            bytes_left -= self.row_bytes([name])
            if bytes_left < 0:
                groups.append([])
                bytes_left = most - self.row_bytes([name])
            groups[-1].append(name)
        return groups

    def batch(self, names: Sequence[str], memory: int) -> int:
        """Return how many samples are differentiated at once, for passes of ``memory`` bytes."""
        # results of a sample were seen to take 0.5 to 1.4 times their bytes, beside its gradients
        sample_bytes = 2 * self.plan.sample_bytes + self.row_bytes(names)
        return max(1, min(MOST_SAMPLES, memory // sample_bytes))

    def by(
        self, names: Sequence[str], x: Sequence[Tensor], batch: int
    ) -> Callable[[slice], Gradients]:
        """Return a function that computes the gradients by ``names`` at a slice of ``x``."""

        def compute(span: slice) -> Gradients:
            terms: dict[str, Term] = {}
            n = span.stop - span.start
            for top in range(0, n, batch):
                part = slice(top, min(top + batch, n))
                rows = slice(span.start + part.start, span.start + part.stop)
                samples = [t[rows].to(self._module.device) for t in x]
                alone, gradients = self._gradients(names, samples)
                some = [t[:COMPARED] for t in samples]
                self.require_unmixed(some, self._module.outputs(some), alone[:COMPARED])
                for name, term in gradients.items():
                    tensors_of = vars(term).items()
                    if name not in terms:
                        empty: Any = {k: t.new_empty(n, *t.shape[1:]) for k, t in tensors_of}
                        terms[name] = type(term)(**empty)
                    for k, t in tensors_of:
                        getattr(terms[name], k)[part].copy_(t)
            return Gradients(self._k, terms)

        return compute

    def _gradients(
        self, names: Sequence[str], samples: Sequence[Tensor]
    ) -> tuple[Tensor, dict[str, Term]]:
        """Return the outputs (n, c) of each sample alone, and its gradients in parameters."""
        if not self.plan.use_vmap:
            parts = [self._by_autograd(names, sample) for sample in _single(samples)]
            return torch.cat([outputs for outputs, _ in parts]), {
                name: PlainGradients(torch.stack([g[name] for _, g in parts])) for name in names
            }
        traces: list[Trace] = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that an operation is slow
                return self._by_vmap(names, samples, traces)
        except (MemoryError, torch.OutOfMemoryError):  # autograd would run out of memory, too
            raise
        except Exception as error:
            last = f"{traces[-1].last}: " if traces else ""
            raise VmapError(last + one_line(error).partition(". ")[0]) from error

    def _by_vmap(
        self, names: Sequence[str], samples: Sequence[Tensor], traces: list[Trace]
    ) -> tuple[Tensor, dict[str, Term]]:
        """Return the same by vmap: g = ∂f/∂p of plain parameters, a and d of factored weights."""
        weights = {name: self._module.parameters[name] for name in names}
        factored = {name: w for name, w in weights.items() if name in self.plan.factored}
        plain = {name: w.detach() for name, w in weights.items() if name not in factored}
        zeros = self._zeros([t[:1] for t in samples]) if factored else {}
        shifts = {name: zeros[name] for name in factored}

        def of_sample(*sample: Tensor) -> Any:
            def forward(shifts: Any, parameters: Any) -> Any:
                traces.append(trace := Trace(factored, shifts))
                with trace:
                    returned = functional_call(
                        self._module.model, parameters, tuple(t.unsqueeze(0) for t in sample)
                    )
                inputs = {name: trace.inputs[name] for name in factored}
                return first(self._module.model, returned).reshape(self.plan.outputs), inputs

            outputs, backward, inputs = vjp(forward, shifts, plain, has_aux=True)  # type: ignore[misc]
            # pairs of gradients in the shifts and in the plain parameters, for each combination
            rows = [backward(combination) for combination in self._combinations]
            stack: Any = torch.stack if len(rows) > 1 else lambda one: one[0][None]  # no copy
            d = {name: stack([by_shift[name] for by_shift, _ in rows]) for name in factored}
            g = {name: stack([by_plain[name] for _, by_plain in rows]) for name in plain}
            return outputs, inputs, d, g

        outputs, inputs, d, g = vmap(of_sample)(*(t.clone() for t in samples))
        dtype, terms = self.plan.dtype, dict[str, Term]()
        for name, values in g.items():
            terms[name] = PlainGradients(values.reshape(*values.shape[:2], -1).to(dtype))
        for name, a in inputs.items():
            a = a.to(dtype) if a.is_floating_point() else a  # an embedding's are row numbers
            terms[name] = FactoredGradients(a, d[name].to(dtype))
        return outputs, terms

    def _zeros(self, sample: Sequence[Tensor]) -> Mapping[str, Tensor]:
        """Return the shifts, all zero, for samples of the same shape as this one."""
        shape = tuple(tuple(t.shape) for t in sample)
        if shape not in self._zeros_of_shape:
            self._zeros_of_shape[shape] = survey(self._module, sample)[1].zeros
        return self._zeros_of_shape[shape]

    def _by_autograd(
        self, names: Sequence[str], sample: Sequence[Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Return the outputs (1, c) of a sample, and its gradients (k, p) by autograd."""
        with torch.enable_grad():
            (outputs,) = self._module.outputs(sample)
        gradients = autograd(outputs, self._combinations, self._module, names)
        return outputs.detach().unsqueeze(0), gradients

    def differing(self, pair: Sequence[Tensor], memory: int) -> list[str]:
        """Return the parameters whose part of the kernel of a pair of samples is not autograd's."""
        parts: dict[str, tuple[Tensor, Tensor]] = {}
        for names in self.groups(memory // len(pair[0])):
            gradients = self._gradients(names, pair)[1]
            rows = [self._by_autograd(names, sample)[1] for sample in _single(pair)]
            for name in names:
                plain = PlainGradients(torch.stack([row[name] for row in rows]))
                parts[name] = _inner_products(plain), _inner_products(gradients[name])
        sizes = {name: float(part.nan_to_num().abs().max()) for name, (part, _) in parts.items()}
        rounding = 1e3 * self.plan.eps * max(sizes.values())
        tolerance = TOLERANCE[self.plan.precision]
        return [
            name
            for name, (expected, computed) in parts.items()
            if not torch.allclose(
                expected, computed, rtol=0, atol=rounding + tolerance * sizes[name], equal_nan=True
            )
        ]

    def require_unmixed(self, samples: Sequence[Tensor], together: Tensor, alone: Tensor) -> None:
        """Raise `MixedSamplesError` unless samples have the same outputs together and alone.

        The tolerance is wide: rounding depends on the batch, and deep networks amplify it.
        """
        wrong = _differ(together, alone, self.plan.eps ** (1 / 3)).flatten(1).any(1)
        if wrong.any():
            number = int(wrong.long().argmax())
            layer = self._mixing_module(samples, number)
            raise MixedSamplesError(
                f"{layer} mixes samples, or depends on their place in the batch: what it gives for "
                "one is not what it gives for this one alone; replace it by a layer that treats "
                "each sample alone, or, if many layers stretch rounding, give float64"
            )

    def _mixing_module(self, samples: Sequence[Tensor], number: int) -> str:
        """Return the first module whose result for a sample depends on the others."""
        model, results = self._module.model, list[list[tuple[str, Tensor]]]()
        for inputs in (samples, [t[number : number + 1] for t in samples]):
            results.append([])

            def hook(name: str, into: list[tuple[str, Tensor]] = results[-1]) -> Any:
                def keep(module: nn.Module, args: Any, result: Any) -> None:
                    into.extend((name, t.detach().clone()) for t in tensors(result))

                return keep

            handles = [m.register_forward_hook(hook(name)) for name, m in model.named_modules()]
            try:
                self._module.outputs(inputs)
            finally:
                for handle in handles:
                    handle.remove()
        for (name, a), (_, b) in zip(*results, strict=False):
            fits = a.ndim and len(a) == len(samples[0]) and a[:1].shape == b.shape
            if fits and _differ(a[number], b[0], 1e4 * self.plan.eps).any():
                return name or f"the {type(model).__name__}"
        return f"the {type(model).__name__}"


def autograd(
    outputs: Tensor, combinations: Tensor, module: DifferentiatedModule, names: Sequence[str]
) -> dict[str, Tensor]:
    """Return the gradients (k, p) of combinations (k, c) of outputs (c,) by parameters."""
    with torch.enable_grad():
        values = (combinations @ outputs).unbind()
    parameters = [module.parameters[name] for name in names]
    options: Any = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    rows = [torch.autograd.grad(value, parameters, **options) for value in values]
    return {
        name: torch.stack([g.to_dense().flatten().to(outputs.dtype) for g in column])
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


def _single(samples: Sequence[Tensor]) -> list[list[Tensor]]:
    return [[t[i : i + 1] for t in samples] for i in range(len(samples[0]))]


def _differ(a: Tensor, b: Tensor, tolerance: float) -> Tensor:
    """Return where two results differ by more than ``tolerance`` times the largest entry."""
    a, b = a.detach(), b.detach()
    if not a.is_floating_point() or not a.numel():
        return a != b
    size = max(float(t.abs().nan_to_num(0, 0, 0).max()) for t in (a, b))
    return ~torch.isclose(a, b, rtol=0, atol=tolerance * size, equal_nan=True)


def _inner_products(term: Term) -> Tensor:
    """Return the inner products of all gradients of one parameter."""
    values = term.values if isinstance(term, PlainGradients) else term.d
    total = values.new_zeros(2 * [values.shape[0] * values.shape[1]])
    term.add(total, term, full=True)  # type: ignore[arg-type]
    return total
