"""Where the trainable weights of a module meet its samples, watched while the module runs.

A `Trace` sees every call of torch's functions. Calls of weights alone, such as a parametrisation's,
give tensors that are derived from the weights. In the first call that gives one a place among the
samples, a rule of `kernels.layers` says how the gradient of each sample by this tensor follows from
the gradient at the call's output, which is watched.
"""

import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ntk_conditioning.kernels.contributions import Product
from ntk_conditioning.kernels.rows import Rows, tensors

#: Methods and functions that only rearrange entries.
_REARRANGING = {
    *(getattr(Tensor, name) for name in ("t", "transpose", "permute", "view", "reshape")),
    *(getattr(Tensor, name) for name in ("flatten", "contiguous", "clone", "swapaxes", "movedim")),
    *(getattr(Tensor, name).__get__ for name in ("T", "mT")),
    *(torch.t, torch.transpose, torch.permute, torch.reshape, torch.flatten, torch.movedim),
}
_SCALING = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__}
_DIVIDING = {torch.div, Tensor.div, Tensor.__truediv__}


class CallsChangedError(RuntimeError):
    """The module does something else with these samples than with the probing ones."""

    def __init__(self, reason: str = "what the module calls depends on its samples") -> None:
        super().__init__(reason)


@dataclass(frozen=True, eq=False)
class Derived:
    """A tensor made from parameters, ``roots``, without samples.

    With a ``scale``, it has the entries of its only root in some order, times this number, as long
    as its ``version`` is this one: nothing has changed it in place.
    """

    tensor: Tensor
    roots: frozenset[str]
    scale: float | None
    version: int


@dataclass(frozen=True)
class Axis:
    """The dimension ``dim`` of a tensor, of size before · n · after, in which samples lie."""

    dim: int
    before: int = 1
    after: int = 1

    def samples(self, t: Tensor) -> int:
        """Return the number of samples in ``t``."""
        return t.shape[self.dim] // (self.before * self.after)

    def by_sample(self, t: Tensor) -> Tensor:
        """Return ``t`` with the samples first: (n, ...), ``dim`` holding what else was in it."""
        if self.before == self.after == 1:
            return t.movedim(self.dim, 0).unsqueeze(self.dim + 1)
        order = self.before, self.samples(t), self.after
        t = t.reshape(*t.shape[: self.dim], *order, *t.shape[self.dim + 1 :])
        return t.movedim(self.dim + 1, 0).flatten(self.dim + 1, self.dim + 2)


@dataclass(frozen=True, eq=False)
class Call:
    """A call of the probe: the function, and where the samples lie in what it returned.

    ``shape`` is that of the first tensor, without the size of the samples' dimension; None if
    there was none. ``certain`` is False if the samples might lie in another order.
    """

    function: Callable[..., Any]
    axis: Axis | None
    shape: tuple[int, ...] | None = None
    certain: bool = True

    def matches(self, made: Any, n: int) -> bool:
        """Return whether the call returned for ``n`` samples what it did for those of the probe."""
        first = next(tensors(made), None)
        if self.shape is None or first is None:
            return self.shape is None and first is None
        shape = [*self.shape]
        if self.axis is not None:
            shape[self.axis.dim] = n * self.axis.before * self.axis.after
        return shape == [*first.shape]


@dataclass(frozen=True, eq=False)
class Use:
    """How a weight enters a call.

    ``gradient`` maps the gradients at the call's output to those by the weight (n, *shape). Of a
    ``product`` these are sums over positions of outer products of d (n, groups, positions, out) and
    a (n, groups, positions, in), which ``factors`` gives as a and d, and ``gradient`` writes them
    to its argument ``out`` if there is one. a may hold indices (n, 1, positions) of rows of the
    identity instead.
    """

    weight: Derived
    gradient: Callable[..., Tensor]
    factors: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None
    product: Product | None = None

    @property
    def is_direct(self) -> bool:
        """Whether the weight is a parameter."""
        return self.weight.tensor.is_leaf

    def as_factors(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        """Return a and d of the gradients by the parameter that the weight is a multiple of."""
        if self.factors is None or self.weight.scale is None:
            raise ValueError("the gradients by this weight are no outer products")
        a, d = self.factors(delta)
        return a, d if self.weight.scale == 1 else d * self.weight.scale


@dataclass(eq=False)
class Record:
    """An output that is watched, its uses of weights and the gradient that was last seen there.

    The samples lie in its dimension ``axis``.
    """

    uses: Sequence[Use]
    axis: Axis
    delta: Tensor | None = None


Rule = Callable[..., Tensor]


class Watching(TorchFunctionMode, ABC):
    """Sees the calls of functions one after the other, also those within multi-head attention."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.multi_head_attention_forward:
            with self:
                return _attention(*args, **kwargs)
        return self.call(func, args, kwargs)

    @abstractmethod
    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what ``func`` returns, having seen to it."""


class Trace(Watching):
    """Watches how ``parameters`` meet the ``inputs``; ``calls`` are those of the probe.

    ``rows`` are the tensors whose rows are those of the samples for certain. What no rule covers is
    treated as a constant, and the reason is in ``refused`` by parameter.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        calls: Sequence[Call],
        rules: Mapping[Any, Rule],
        inputs: Sequence[Tensor],
    ) -> None:
        super().__init__()
        self._derived = {
            id(p): Derived(p, frozenset([name]), 1.0, p._version) for name, p in parameters.items()
        }
        self._calls, self._rules, self._n, self._count = calls, rules, len(inputs[0]), 0
        self.rows = Rows(inputs)
        device = next(iter(parameters.values())).device if parameters else None
        self._anchor = torch.zeros((), device=device, requires_grad=True)
        self.records: list[Record] = []
        self.refused: dict[str, str] = {}

    def backward(self, value: Tensor, *, again: bool) -> None:
        """Set the deltas of all records: the gradients of ``value`` at the watched outputs."""
        for record in self.records:
            record.delta = None
        if value.requires_grad:
            torch.autograd.grad(value, self._anchor, retain_graph=again, allow_unused=True)

    def finish(self) -> None:
        """Raise `CallsChangedError` unless all calls of the probe were made."""
        if self._count != len(self._calls):
            raise CallsChangedError

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        number, self._count = self._count, self._count + 1
        if number >= len(self._calls) or self._calls[number].function != func:
            raise CallsChangedError
        made = self._made(self._calls[number], args, kwargs)
        if not self._calls[number].matches(made, self._n):
            raise CallsChangedError
        self.rows.follow(func, args, kwargs, made)
        return made

    def _made(self, call: Call, args: Any, kwargs: Any) -> Any:
        func = call.function
        weights = [d for t in tensors((args, kwargs)) if (d := self.derived(t))]
        if call.axis is None:
            made = func(*args, **kwargs)
            if weights:
                self._derive(made, weights, func, args, kwargs)
            return made
        if call.certain and (rule := self._rules.get(func)) is not None:
            made = rule(self, call.axis, func, args, kwargs)
            if made is not NotImplemented:
                return made
        if weights:
            name = getattr(func, "__name__", str(func))
            what = "there is no rule for this use" if call.certain else "samples may lie anyhow"
            self.refuse(weights, f"{what} in {name}")
        args, kwargs = replace_tensors((args, kwargs), self.constant)
        return func(*args, **kwargs)

    def derived(self, value: Any) -> Derived | None:
        """Return what is known of a tensor that comes from parameters alone."""
        known = self._derived.get(id(value)) if isinstance(value, Tensor) else None
        if known is not None and known.version != value._version:
            return replace(known, scale=None, version=value._version)
        return known

    def constant(self, value: Any) -> Any:
        """Return a tensor that comes from parameters without its history, others as they are."""
        return value.detach() if self.derived(value) else value

    def refuse(self, weights: Iterable[Derived], reason: str) -> None:
        for root in {root for weight in weights for root in weight.roots}:
            self.refused.setdefault(root, reason)

    def watch(self, out: Tensor, uses: Sequence[Use], axis: Axis, *, new: bool = True) -> Tensor:
        """Return ``out``, whose gradients `backward` keeps; ``new`` if nobody else has it."""
        if not uses:
            return out
        record = Record(uses, axis)
        self.records.append(record)
        if new and out._is_view():
            out = out.clone()
        watched: Tensor = _Watch.apply(out, self._anchor, record, new)  # type: ignore[no-untyped-call]
        return watched

    def elementwise(self, shape: tuple[int, ...], axis: Axis, value: Tensor) -> Tensor:
        """Return a tensor from parameters spread to ``shape``, an output's, and watched there.

        What stands in ``shape`` for samples has size one in ``value``.
        """
        weight = self.derived(value)
        if weight is None:
            return value
        spread = value.detach().expand(shape)
        uses = [Use(weight, summing(value, axis, len(shape)))]
        return self.watch(spread, uses, axis, new=False)

    def rearranged(self, weight: Tensor, how: Callable[[Tensor], Tensor]) -> Tensor:
        """Return ``weight`` with its entries in another order, still known to be derived."""
        known, made = self.derived(weight), how(weight)
        if known is not None and made is not weight:
            self._derived[id(made)] = replace(known, tensor=made, version=made._version)
        return made

    def _derive(
        self, made: Any, weights: Sequence[Derived], func: Any, args: Any, kwargs: Any
    ) -> None:
        roots = frozenset().union(*(weight.roots for weight in weights))
        scale = _scale(func, args, kwargs, weights[0]) if len(weights) == 1 else None
        for t in tensors(made):
            known = self._derived.get(id(t))
            if known is None and t.requires_grad:
                self._derived[id(t)] = Derived(t, roots, scale, t._version)
            elif known is not None and known.version != t._version:  # changed in place
                self._derived[id(t)] = Derived(t, roots | known.roots, None, t._version)


def summing(
    weight: Tensor, axis: Axis, ndim: int, *, behind: int = 0
) -> Callable[[Tensor], Tensor]:
    """Return what maps gradients where ``weight`` was spread to those by its entries.

    It was spread to ``ndim`` dimensions, of which ``behind`` follow its own.
    """
    size = tuple(weight.shape)
    aligned = (1,) * (ndim - len(size) - behind) + size + (1,) * behind

    def gradient(delta: Tensor) -> Tensor:
        delta = axis.by_sample(delta)
        summed = [j + 1 for j, m in enumerate(aligned) if m == 1 and delta.shape[j + 1] != 1]
        delta = delta.sum(summed, keepdim=True) if summed else delta
        return delta.reshape(len(delta), *size)

    return gradient


class _Watch(torch.autograd.Function):
    """The identity, whose backward pass keeps the gradient in a record."""

    @staticmethod
    def forward(context: Any, out: Tensor, anchor: Tensor, record: Record, new: bool) -> Tensor:
        context.record = record
        if new:  # so that the caller may change it in place
            context.mark_dirty(out)
            return out
        return out.view_as(out)

    @staticmethod
    def backward(context: Any, *deltas: Tensor) -> tuple[Tensor, None, None, None]:
        context.record.delta = deltas[0]
        return deltas[0], None, None, None


def _scale(func: Any, args: Any, kwargs: Any, weight: Derived) -> float | None:
    if weight.scale is None or func in _REARRANGING:
        return weight.scale
    numbers = [float(a) for a in args if isinstance(a, int | float)]
    if len(args) == 2 and args[0] is weight.tensor and numbers and not kwargs:
        if func in _SCALING:
            return weight.scale * numbers[0]
        if func in _DIVIDING:
            return weight.scale / numbers[0]
    return None


def replace_tensors(value: Any, by: Callable[[Tensor], Any]) -> Any:
    """Return nested tuples, lists and dictionaries with other tensors in them."""
    if isinstance(value, Tensor):
        return by(value)
    if isinstance(value, tuple | list):
        made = [replace_tensors(item, by) for item in value]
        return made if isinstance(value, list) else tuple(made)
    if isinstance(value, dict):
        return {key: replace_tensors(item, by) for key, item in value.items()}
    return value


def _opened(function: Any) -> Any:
    """Return a Python function of torch's whose inner calls are seen by the modes that see it."""
    names = {**function.__globals__, "has_torch_function": lambda *_: False}
    opened = types.FunctionType(function.__code__, names, argdefs=function.__defaults__)
    opened.__kwdefaults__ = function.__kwdefaults__
    return opened


_attention = _opened(functional.multi_head_attention_forward)
