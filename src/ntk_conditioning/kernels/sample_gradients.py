"""The gradients ∂f/∂p at each sample, by some of a module's parameters, for a batch of samples.

A backward pass at one sample, by `torch.func.vjp`, gives at once ∂f/∂shift for the weights that
`traces` found to factor, where that is cheaper, and ∂f/∂p for all others, as of convolutions.
`torch.func.vmap` does so for many samples, of which the module sees each alone. Where it cannot,
autograd takes one sample after the other.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import vjp, vmap

from ntk_conditioning.angles.pairs import spans
from ntk_conditioning.errors import one_line
from ntk_conditioning.kernels.differentiated_modules import (
    DifferentiatedModule,
    is_out_of_memory,
    require_unmixed,
)
from ntk_conditioning.kernels.kernel_terms import Gradients
from ntk_conditioning.kernels.traces import Trace, TracePlan, shapes_of, survey

#: Samples that are differentiated at once, at most.
MOST_SAMPLES = 64
#: Samples of a batch whose outputs are compared with what the module gives for each alone.
COMPARED = 8
#: How far gradients may be apart that are computed in two ways, relative to the largest entry:
#: much more than rounding and much less than a mistake.
TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-2}


class VmapError(RuntimeError):
    """`torch.func.vmap` cannot differentiate the module, for the reason that the message gives."""


class SampleGradients:
    """Computes gradients of k ``combinations`` (k, c) of a module's c outputs.

    They are for a kernel of ``n`` samples, ``full`` or summed over combinations. Without
    ``use_vmap``, autograd takes sample by sample.
    """

    def __init__(
        self,
        module: DifferentiatedModule,
        plan: TracePlan,
        combinations: Tensor,
        n: int,
        *,
        full: bool,
        use_vmap: bool = True,
    ) -> None:
        self._module, self._plan, self._combinations = module, plan, combinations
        self.full, self._use_vmap = full, use_vmap
        self._row_bytes: dict[str, int] = {}
        self._positions: dict[str, int] = {}  # of weights whose gradients are kept as factors
        self._plans = {plan.shapes: plan}
        self._checked = set[str]()  # parameters by which gradients were compared with autograd's,
        self._largest = 0.0  # and the largest inner product of these
        k, pairs = len(combinations), n * n / 2
        products = k**2 if full else k
        for name, parameter in module.parameters.items():
            entries = k * parameter.numel() * (1 + parameter.is_complex())
            if use_vmap and name in plan.layers:
                size, zeros = plan.layers[name]
                # multiplications with factors, and those with plain gradients and to form them
                factors = pairs * len(zeros) * (size + products * zeros.numel())
                if factors < (pairs * products + n * k * len(zeros)) * parameter.numel():
                    entries = size + k * zeros.numel()
                    self._positions[name] = len(zeros)
            self._row_bytes[name] = entries * plan.dtype.itemsize

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return the bytes of one sample's gradients with respect to these parameters."""
        return sum(self._row_bytes[name] for name in names)

    def pair_bytes(self, names: Sequence[str]) -> int:
        """Return the bytes beside the kernel, at most, that the products of one pair take."""
        k = len(self._combinations) ** 2 if self.full else 1
        positions = max(self._positions.get(name, 0) for name in names)
        return 3 * k * positions**2 * self._plan.dtype.itemsize

    def groups(self, most: int) -> list[list[str]]:
        """Return groups of parameters by which a sample's gradients take about ``most`` bytes.

        The parameters nearest to the outputs come first: their backward passes are short.
        """
        groups: list[list[str]] = []
        bytes_left = -1
        for name in reversed([*self._module.parameters]):
            bytes_left -= self._row_bytes[name]
            if bytes_left < 0:
                groups.append([])
                bytes_left = most - self._row_bytes[name]
            groups[-1].append(name)
        return groups

    def batch(self, names: Sequence[str], memory: int) -> int:
        """Return how many samples are differentiated at once, for passes of ``memory`` bytes."""
        # results of a sample were seen to take 0.5 to 1.4 times their bytes, beside its gradients
        sample_bytes = 2 * self._plan.sample_bytes + self.row_bytes(names)
        return max(1, min(MOST_SAMPLES, memory // sample_bytes))

    def at(self, names: Sequence[str], batch: int, x: Sequence[Tensor], span: slice) -> Gradients:
        """Return the gradients by ``names`` at a slice of ``x``, ``batch`` samples at a time."""
        result: Gradients | None = None
        n = span.stop - span.start
        for rows in spans(span.stop, batch, start=span.start):
            part = slice(rows.start - span.start, rows.stop - span.start)
            samples = [t[rows].to(self._module.device) for t in x]
            alone, gradients = self._of_batch(names, samples)
            if self._use_vmap and not self._checked.issuperset(names):
                self._check(samples, gradients)
            some = [t[:COMPARED] for t in samples]
            require_unmixed(self._module, some, alone[:COMPARED], self._plan.eps)
            result = result or gradients.each(lambda t: t.new_empty(n, *t.shape[1:]))
            for name, term in gradients.terms.items():
                for all_rows, computed in zip(result.terms[name], term, strict=True):
                    all_rows[part] = computed
        assert result is not None
        return result

    def _of_batch(
        self, names: Sequence[str], samples: Sequence[Tensor]
    ) -> tuple[Tensor, Gradients]:
        """Return the outputs (n, c) of each sample alone, and its gradients in parameters."""
        if not self._use_vmap:
            return self._by_autograd(names, samples)
        traces: list[Trace] = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that an operation is slow
                return self._by_vmap(names, samples, traces)
        except Exception as error:
            if is_out_of_memory(error):  # autograd would run out of it, too
                raise
            last = f"{traces[-1].last}: " if traces else ""
            raise VmapError(last + one_line(error).partition(". ")[0]) from error

    def _by_vmap(
        self, names: Sequence[str], samples: Sequence[Tensor], traces: list[Trace]
    ) -> tuple[Tensor, Gradients]:
        weights = {name: self._module.parameters[name] for name in names}
        factored = {name: w for name, w in weights.items() if name in self._positions}
        zeros = self._zeros([t[:1] for t in samples]) if factored else {}
        # by what each is differentiated: shifts instead of the weights that factor
        variables = {
            name: zeros[name] if name in factored else weights[name].detach() for name in names
        }

        def of_sample(*sample: Tensor) -> Any:
            def forward(variables: Mapping[str, Tensor]) -> Any:
                plain = {name: w for name, w in variables.items() if name not in factored}
                traces.append(trace := Trace(factored, variables))
                with trace:
                    f = self._module.outputs_with(plain, *(t.unsqueeze(0) for t in sample))
                return f[0], {name: trace.inputs[name] for name in factored}

            outputs, backward, inputs = vjp(forward, variables, has_aux=True)  # type: ignore[misc]
            rows = [backward(combination)[0] for combination in self._combinations]
            stack: Any = torch.stack if len(rows) > 1 else lambda one: one[0][None]  # no copy
            return outputs, {name: stack([row[name] for row in rows]) for name in names}, inputs

        outputs, gradients, inputs = vmap(of_sample)(*(t.clone() for t in samples))
        terms: dict[str, tuple[Tensor, ...]] = {}
        # plain gradients first: their sums are the longest, and best added to a small total
        for name in sorted(names, key=inputs.__contains__):
            d = real_numbers(gradients[name]).to(self._plan.dtype)
            if name in inputs:  # an embedding's are row numbers
                a = inputs[name]
                terms[name] = d, a.to(d) if a.is_floating_point() else a
            else:
                terms[name] = (d.reshape(*d.shape[:2], 1, -1),)
        return outputs, Gradients(terms)

    def _zeros(self, sample: Sequence[Tensor]) -> Mapping[str, Tensor]:
        """Return the shifts, all zero, for samples of the same shape as this one."""
        shapes = shapes_of(sample)
        if shapes not in self._plans:
            self._plans[shapes] = survey(self._module, sample)
        return {name: zeros for name, (_, zeros) in self._plans[shapes].layers.items()}

    def _by_autograd(
        self, names: Sequence[str], samples: Sequence[Tensor]
    ) -> tuple[Tensor, Gradients]:
        singles = ([t[i : i + 1] for t in samples] for i in range(len(samples[0])))
        parts = [autograd(self._module, single, self._combinations, names) for single in singles]
        stacked = {name: torch.stack([g[name] for _, g in parts]).unsqueeze(2) for name in names}
        return torch.cat([f for f, _ in parts]), Gradients({k: (g,) for k, g in stacked.items()})

    def _check(self, samples: Sequence[Tensor], gradients: Gradients) -> None:
        """Raise `VmapError` if the gradients of the first and last sample are not autograd's."""
        names = [*gradients.terms]
        expected = self._by_autograd(names, [t[[0, -1]] for t in samples])[1]
        computed = gradients.each(lambda t: t[[0, -1]])
        parts = {name: [self._products(g, name) for g in (expected, computed)] for name in names}
        sizes = {name: float(part.nan_to_num().abs().max()) for name, (part, _) in parts.items()}
        self._largest = max(self._largest, *sizes.values())
        rounding, wrong = 1e3 * self._plan.eps * self._largest, list[str]()
        for name, (right, part) in parts.items():
            off = rounding + TOLERANCE[self._plan.precision] * sizes[name]
            if not torch.allclose(right, part, rtol=0, atol=off, equal_nan=True):
                wrong.append(name)
        if wrong:
            raise VmapError(f"gradients by {', '.join(wrong)} differ from autograd's")
        self._checked.update(names)

    def _products(self, gradients: Gradients, name: str) -> Tensor:
        """Return the inner products of all gradients by one parameter."""
        term = gradients.terms[name]
        n, k = term[0].shape[:2]
        total = term[0].new_zeros(2 * [n * k if self.full else n])
        Gradients({name: term}).add(total, gradients, full=self.full)
        return total


def real_numbers(gradient: Tensor) -> Tensor:
    """Return a gradient; one in a complex parameter as real and imaginary parts (…, 2)."""
    return torch.view_as_real(gradient.resolve_conj()) if gradient.is_complex() else gradient


def autograd(
    module: DifferentiatedModule,
    sample: Sequence[Tensor],
    combinations: Tensor,
    names: Sequence[str],
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return a sample's outputs (1, c), and gradients (k, p) of combinations (k, c) of them."""
    with torch.enable_grad():
        outputs = module.outputs(sample)
        values = (combinations.to(outputs) @ outputs[0]).unbind()
    parameters = [module.parameters[name] for name in names]
    options: Any = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    rows = [torch.autograd.grad(value, parameters, **options) for value in values]
    gradients = {
        name: torch.stack([real_numbers(g.to_dense()).flatten().to(outputs.dtype) for g in column])
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    return outputs.detach(), gradients
