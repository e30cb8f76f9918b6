"""Gradients of many samples by some of a module's parameters, a batch of samples at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ntk_conditioning.kernels.contributions import Factors, Gradients, Matrix, Product
from ntk_conditioning.kernels.fallback import Differentiation
from ntk_conditioning.kernels.gathering import pull_back
from ntk_conditioning.kernels.layers import RULES
from ntk_conditioning.kernels.probes import TOLERANCE, Plan, require_alone
from ntk_conditioning.kernels.subjects import Subject, as_matrix
from ntk_conditioning.kernels.traces import CallsChangedError, Trace

#: Samples that the module sees at once, at most.
MOST_SAMPLES = 64


class GradientPanels:
    """Makes the gradients of ``combinations`` (k, c) of a subject's outputs.

    ``n`` samples and ``full``, of all outputs side by side, decide which weights are factored.
    """

    def __init__(
        self, subject: Subject, plan: Plan, combinations: Tensor, n: int, *, full: bool
    ) -> None:
        self._subject, self._plan, self._combinations = subject, plan, combinations
        self._n, self._full = n, full
        self._sizes: set[int] = set()  # of batches that have been compared with others
        self._generator = torch.Generator().manual_seed(0)
        self.dtype = plan.dtype
        self._products = {
            name: product
            for name in plan.uses
            if (product := self._product(name)) and product.is_factored(n, self._k, full=full)
        }

    @property
    def _k(self) -> int:
        return len(self._combinations)

    def _product(self, name: str) -> Product | None:
        """Return the sizes of a weight's only use, if that is a product."""
        uses = self._plan.uses[name]
        return uses[0].product if len(uses) == 1 and uses[0].weight.scale is not None else None

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return what the gradients of a sample take."""
        total = 0
        for name in names:
            product, p = self._products.get(name), self._subject.parameters[name].numel()
            total += product.factor_entries(self._k) if product else self._k * p
        return total * self.dtype.itemsize

    def groups(self, most: int) -> list[list[str]]:
        """Return the parameters whose gradients are held at once: as far as ``most`` bytes go.

        From the last one on, so that backward passes are short; those without a rule apart.
        """
        groups: list[list[str]] = []
        for names in (self._plan.uses, self._plan.reasons):
            left = -1
            for name in reversed([*names]):
                left -= self.row_bytes([name])
                if left < 0:
                    groups.append([])
                    left = most - self.row_bytes([name])
                groups[-1].append(name)
        return groups

    @property
    def pass_bytes(self) -> int:
        """The bytes of a pass for each sample: activations, their gradients, those by a weight."""
        largest = max(p.numel() for p in self._subject.parameters.values())
        return 3 * self._plan.sample_bytes + largest * self.dtype.itemsize

    def batch(self, memory: int) -> int:
        """Return how many samples the module sees at once, for passes of ``memory`` bytes."""
        return max(1, min(MOST_SAMPLES, memory // self.pass_bytes))

    def of(
        self, names: Sequence[str], x: Sequence[Tensor], batch: int
    ) -> Callable[[slice], Gradients]:
        """Return what makes the gradients by a group of parameters of a span of samples."""
        slow = None
        if names[0] in self._plan.reasons:
            slow = Differentiation(
                self._subject, names, self._combinations, vectorised=self._plan.vectorised
            )

        def compute(span: slice) -> Gradients:
            n = span.stop - span.start
            gradients = self._empty(names, n)
            for top in range(0, n, batch):
                part = slice(top, min(top + batch, n))
                rows = slice(span.start + part.start, span.start + part.stop)
                samples = [t[rows].to(self._subject.device) for t in x]
                if slow is None:
                    self._trace(names, samples, gradients.rows(part))
                    continue
                self._require_alone(samples, self._subject.outputs(samples))
                for name, values in slow.gradients(samples).items():
                    gradients.matrices[name].values[part] = values
            return gradients

        return compute

    def confirmed(self, pair: Sequence[Tensor], memory: int) -> GradientPanels:
        """Return what makes the gradients in ways that are right for two samples."""
        panels, plan = self, self._plan
        for _ in range(3):  # watched, by torch.func, one by one
            wrong = panels._wrong(pair, panels.groups(memory // len(pair[0])))
            if not wrong:
                break
            if {*wrong} & {*plan.reasons}:
                plan = replace(plan, vectorised=False)
            plan = plan.unwatched(wrong, "as it is used, what is watched does not give them")
            panels = GradientPanels(
                self._subject, plan, self._combinations, self._n, full=self._full
            )
        return panels

    def _wrong(self, pair: Sequence[Tensor], groups: Sequence[Sequence[str]]) -> list[str]:
        """Return the parameters whose part of the kernel of two samples is not that of autograd.

        A further combination of outputs is taken, in which all of theirs count.
        """
        shares = torch.linspace(1, 2, self._k, dtype=self._combinations.dtype).to(
            self._combinations.device
        )
        with torch.enable_grad():
            total = (self._subject.outputs(pair) @ (shares @ self._combinations)).unbind()
        parts: dict[str, tuple[Tensor, Tensor]] = {}
        for names in groups:
            parameters = [self._subject.parameters[name] for name in names]
            found = self.of(names, pair, len(pair[0]))(slice(0, len(pair[0])))
            plain = [
                torch.autograd.grad(
                    value, parameters, retain_graph=True, allow_unused=True, materialize_grads=True
                )
                for value in total
            ]
            for number, name in enumerate(names):
                g = torch.stack([gradients[number].flatten() for gradients in plain])
                parts[name] = (g @ g.T).to(self.dtype), found.combined(name, shares)
        sizes = {name: float(right.nan_to_num().abs().max()) for name, (right, _) in parts.items()}
        rounding = 1e3 * self._plan.eps * max(sizes.values())
        tolerance = TOLERANCE[self._plan.precision]
        return [
            name
            for name, (right, found) in parts.items()
            if not torch.allclose(
                right, found, rtol=0, atol=rounding + tolerance * sizes[name], equal_nan=True
            )
        ]

    def _empty(self, names: Sequence[str], n: int) -> Gradients:
        matrices, factors, k = {}, {}, self._k
        empty = torch.empty(0, dtype=self.dtype, device=self._subject.device)
        for name in names:
            product = self._products.get(name)
            if product is None:
                p = self._subject.parameters[name].numel()
                matrices[name] = Matrix(empty.new_empty(n, k, p))
                continue
            shape = n, product.groups, product.positions
            indices = empty.new_empty(shape, dtype=torch.long)
            a = indices if product.by_index else empty.new_empty(*shape, product.inputs)
            d = empty.new_empty(n, k, *shape[1:], product.outputs)
            factors[name] = Factors(a, d)
        return Gradients(k, matrices, factors)

    def _trace(self, names: Sequence[str], samples: Sequence[Tensor], into: Gradients) -> None:
        """Set the gradients of a few samples."""
        parameters = {name: self._subject.parameters[name] for name in names}
        copies = [t.clone() for t in samples]
        trace = Trace(parameters, self._plan.calls, RULES, copies)
        with torch.enable_grad():
            with trace:
                raw = self._subject.run(copies)
            trace.finish()
            certain, made = raw in trace.rows, as_matrix(raw, len(copies[0]))
        for number, combination in enumerate(self._combinations):
            with torch.enable_grad():
                value = (made @ combination).sum()
            trace.backward(value, again=number + 1 < self._k or not certain)
            self._keep(trace, parameters, number, into)
        if not certain:
            self._require_own_rows(trace, made)
            self._require_alone(samples, made)
        elif len(made) not in self._sizes:  # which the outputs may depend on all the same
            self._sizes.add(len(made))
            require_alone(self._subject.outputs([t[:2] for t in samples]), made[:2], self._plan)

    def _require_own_rows(self, trace: Trace, made: Tensor) -> None:
        """Raise `CallsChangedError` if a watched row belongs to another sample than its place says.

        Where each sample's outputs are multiplied by a number of its own, so are the gradients at
        its rows.
        """
        shares = torch.linspace(1, 2, self._k, dtype=made.dtype, device=made.device)
        numbers = 1 + torch.rand(len(made), generator=self._generator, dtype=made.dtype)
        numbers = numbers.to(made.device)
        with torch.enable_grad():
            values = made @ (shares @ self._combinations)
            total, multiplied = values.sum(), values @ numbers
        if self._k > 1:
            trace.backward(total, again=True)
        before = [record.delta for record in trace.records]
        trace.backward(multiplied, again=False)
        for record, delta in zip(trace.records, before, strict=True):
            if delta is None or record.delta is None:
                continue  # the layer is not used
            wanted, found = (record.axis.by_sample(t).flatten(1) for t in (delta, record.delta))
            wanted = wanted * numbers.unsqueeze(1)
            size, off = (t.abs().amax(1) for t in (wanted, found - wanted))
            if (off > self._plan.eps**0.5 * size + 1e3 * self._plan.eps * size.max()).any():
                raise CallsChangedError("rows of a layer lie in another order than the samples")

    def _require_alone(self, samples: Sequence[Tensor], made: Tensor) -> None:
        """Raise `MixedSamplesError` unless samples have the same outputs in random halves."""
        if len(made) == 1:
            return
        for half in torch.randperm(len(made), generator=self._generator).tensor_split(2):
            few = self._subject.run([t[half.to(t.device)] for t in samples])
            require_alone(as_matrix(few, len(half)), made[half.to(made.device)], self._plan)

    def _keep(
        self, trace: Trace, parameters: Mapping[str, Tensor], number: int, into: Gradients
    ) -> None:
        """Set the gradients of the output ``number`` from what a backward pass has left."""
        missing = {*parameters}

        def add(name: str, gradient: Tensor) -> None:
            values = into.matrices[name].values[:, number]
            if name in missing:
                values.copy_(gradient)
                missing.remove(name)
            else:
                values += gradient

        for record in trace.records:
            if record.delta is None:
                continue
            for use in record.uses:
                (name, *_) = use.weight.roots
                if name in missing and name in into.matrices and use.product and use.is_direct:
                    values = into.matrices[name].values[:, number]
                    use.gradient(record.delta, out=values.view(-1, *use.weight.tensor.shape))
                    missing.remove(name)
                    continue
                if name not in into.factors:
                    pull_back(use, record.delta, parameters, add)
                    continue
                a, d = use.as_factors(record.delta)
                if a.shape != into.factors[name].a.shape:  # which would be spread
                    raise CallsChangedError
                into.factors[name].a.copy_(a)
                into.factors[name].d[:, number] = d
                missing.remove(name)
        for name in missing:
            if name in into.matrices:
                into.matrices[name].values[:, number] = 0
            else:
                into.factors[name].a.zero_()
                into.factors[name].d[:, number] = 0
