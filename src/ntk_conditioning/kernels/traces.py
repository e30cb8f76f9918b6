"""Where the weights of a module meet a sample, seen while the module runs on it.

A weight that is used once, by a linear layer, a product or an embedding, has the gradient d aᵀ of
each position: a is what the layer is given, and d the gradient where it ends. To have d without
the weight's own gradient, a zero is added there, the layer's shift, and differentiated instead.
"""

import random
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ntk_conditioning.kernels.differentiated_modules import (
    DifferentiatedModule,
    ModuleError,
    OutputsError,
    TrainingModeError,
)
from ntk_conditioning.kernels.kernel_terms import Product

DRAWS = (
    "the module draws random numbers, as dropout and stochastic depth do while training; call "
    "model.eval() or draw them before"
)

_PRODUCTS = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm}
_TURNING = {torch.t, Tensor.t, torch.transpose, Tensor.transpose}
_TURNING |= {getattr(Tensor, name).__get__ for name in ("T", "mT")}
_MULTIPLYING = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__}
_DIVIDING = {torch.div, Tensor.div, Tensor.__truediv__}


class Trace(TorchFunctionMode):
    """Sees the calls of torch's functions, also those within multi-head attention.

    ``uses`` has the products of each of the ``weights`` in their order, None for any other use.
    ``inputs`` and ``zeros`` are of the last one: a (positions, in), or the numbers of an
    embedding's rows, and a shift (positions, out). ``shifts`` are added if given.
    ``results`` are the tensors that functions returned, ``states`` those of the generators that
    they were given, and ``last`` is the name of the last function that was called.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], shifts: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__()
        # a weight, or a multiple of it, perhaps turned; which is kept, or another gets its id
        self._known = {id(w): (name, 1.0, w) for name, w in weights.items()}
        self._shifts = shifts
        self.uses: dict[str, list[Product | None]] = {name: [] for name in weights}
        self.inputs: dict[str, Tensor] = {}
        self.zeros: dict[str, Tensor] = {}
        self.last = ""
        self.results: list[Tensor] = []
        self.states: list[bytes] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.last = getattr(func, "__name__", str(func))
        if func is functional.instance_norm:
            func = _instance_norm
        if func is functional.multi_head_attention_forward:
            with self:
                return _attention(*args, **kwargs)
        made = func(*args, **kwargs)
        if self._shifts is None:
            self.results += tensors(made)
            if isinstance(generator := kwargs.get("generator"), torch.Generator):
                self.states.append(generator.get_state().numpy().tobytes())
        weights = [
            known for t in tensors((args, kwargs)) if (known := self._known.get(id(t))) is not None
        ]
        if not weights or next(tensors(made), None) is None:
            return made
        if len(weights) == 1 and (factor := _factor(func, args, kwargs, weights[0][2])) is not None:
            name, scale, _ = weights[0]
            self._known[id(made)] = name, scale * factor, made
            return made
        for name, scale, weight in weights:
            layer = _layer(func, args, kwargs, weight)
            if layer is None or id(layer[0]) in self._known:
                self.uses[name].append(None)
            else:
                made = self._seen(name, scale, made, *layer)
        return made

    def _seen(
        self, name: str, scale: float, made: Tensor, x: Tensor, sizes: Any, padding: int | None
    ) -> Tensor:
        """Keep a use of a weight, and return what the layer has ``made`` with its shift."""
        inputs, outputs = sizes
        places, by_index = made.numel() // outputs, not x.is_floating_point()
        self.inputs[name] = x.reshape(places) if by_index else x.reshape(places, inputs)
        if self._shifts is None:
            self.uses[name].append(Product(places, inputs, outputs, by_index=by_index))
            self.zeros[name] = made.new_zeros(places, outputs)
            return made
        shift = scale * self._shifts[name].view(made.shape)
        if padding is not None:  # a row without a gradient
            shift = shift * (x != padding).unsqueeze(-1)
        return made + shift


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors([*value.values()])


def _factor(func: Any, args: Any, kwargs: Any, weight: Tensor) -> float | None:
    """Return the number by which a call multiplies a weight's entries, which it may turn."""
    if kwargs or args[0] is not weight or weight.ndim != 2:
        return None
    if func in _TURNING:
        return 1.0
    if len(args) == 2 and isinstance(args[1], int | float):
        if func in _MULTIPLYING:
            return float(args[1])
        if func in _DIVIDING:
            return 1 / args[1]
    return None


def _layer(
    func: Any, args: Any, kwargs: Any, weight: Tensor
) -> tuple[Tensor, tuple[int, int], int | None] | None:
    """Return what a layer takes, its inputs and outputs, and an embedding's padding.

    None if the call is no product of samples with the weight.
    """
    if weight.ndim != 2:
        return None
    if func is functional.linear:
        given = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
        if given["weight"] is weight:
            return given["input"], (weight.shape[1], weight.shape[0]), None
    elif func in _PRODUCTS and len(args) == 2 and args[1] is weight:
        return args[0], (weight.shape[0], weight.shape[1]), None
    elif func is functional.embedding:
        names = ("input", "weight", "padding_idx", "max_norm", "norm_type", "by_freq", "sparse")
        given = dict(zip(names, args, strict=False)) | kwargs
        if not given.get("by_freq") and not kwargs.get("scale_grad_by_freq"):
            padding = given.get("padding_idx")
            padding = padding + len(weight) if padding is not None and padding < 0 else padding
            return given["input"], (weight.shape[0], weight.shape[1]), padding
    return None


def _instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return what `torch.nn.functional.instance_norm` does, which `torch.func.vmap` cannot."""
    if use_input_stats:
        return functional.group_norm(input, input.shape[1], weight, bias, eps)
    return functional.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)


def _opened(function: Any) -> Any:
    """Return a Python function of torch's whose inner calls are seen by the modes that see it."""
    names = {**function.__globals__, "has_torch_function": lambda *_: False}
    opened = types.FunctionType(function.__code__, names, argdefs=function.__defaults__)
    opened.__kwdefaults__ = function.__kwdefaults__
    return opened


_attention = _opened(functional.multi_head_attention_forward)


@dataclass(frozen=True, eq=False)
class TracePlan:
    """How the gradients of a module are computed.

    Weights with a product in ``factored`` keep their gradients as factors. ``outputs`` are of
    type ``dtype``, which may hide the lowest ``precision`` on the way to them; ``sample_bytes`` are
    those of all results of a sample. With ``together``, samples are seen by `torch.func.vmap`.
    """

    factored: Mapping[str, Product]
    outputs: int
    dtype: torch.dtype
    precision: torch.dtype
    sample_bytes: int
    together: bool = True

    @property
    def eps(self) -> float:
        """The rounding of the lowest precision, relative."""
        return torch.finfo(self.precision).eps


def survey(subject: DifferentiatedModule, sample: Sequence[Tensor]) -> tuple[TracePlan, Trace]:
    """Return what a module does with one sample: a plan, by which all products are factored.

    Raises `OutputsError`, `TrainingModeError` and `ModuleError`.
    """
    traces, made = [Trace(subject.parameters), Trace(subject.parameters)], []
    drawn = random_state(subject.device)
    subject.outputs(sample)  # which fills the caches that the module may have
    for trace in traces:
        with torch.enable_grad(), trace:
            made.append(subject.outputs(sample))
    require_nothing_drawn(drawn, subject.device)
    if traces[0].states != traces[1].states:
        raise TrainingModeError(DRAWS)
    if not torch.equal(made[0].nan_to_num(), made[1].nan_to_num()):
        raise TrainingModeError("the module gives other outputs each time; call model.eval()")
    if not made[0].requires_grad:
        raise OutputsError("the outputs have no gradients: do not detach what they are made of")
    results = traces[0].results
    types = {t.dtype for t in results if t.requires_grad} | {made[0].dtype}
    lowest = max(types, key=lambda dtype: torch.finfo(dtype).eps)
    if torch.finfo(lowest).eps > torch.finfo(torch.float32).eps:
        raise ModuleError(
            f"the module computes in {lowest}, too coarse for a kernel; call model.float() or "
            "model.double(), and leave autocast"
        )
    uses = traces[0].uses.items()
    once = {name: use[0] for name, use in uses if len(use) == 1 and use[0] is not None}
    size = sum(t.nbytes for t in results)
    return TracePlan(once, made[0].shape[1], made[0].dtype, lowest, size), traces[0]


def random_state(device: torch.device) -> list[Any]:
    """Return the states of the generators that a module may draw from."""
    of_torch = [torch.get_rng_state().numpy().tobytes()]
    if device.type == "cuda":
        of_torch.append(torch.cuda.get_rng_state(device).numpy().tobytes())
    of_numpy = np.random.get_state(legacy=False)["state"]  # noqa: NPY002 what modules use
    return [*of_torch, random.getstate(), of_numpy["key"].tobytes(), of_numpy["pos"]]


def require_nothing_drawn(before: list[Any], device: torch.device) -> None:
    """Raise `TrainingModeError` if a generator has advanced: what is rare shows in no output."""
    if random_state(device) != before:
        raise TrainingModeError(DRAWS)
