"""Which weights have gradients that factor, found by watching torch's calls on one sample.

A linear layer z_s = W a_s at positions s has ∂f/∂W = Σ_s d_s a_sᵀ with d_s = ∂f/∂z_s. To get d_s
without forming ∂f/∂W, the layer's result becomes z_s + shift_s, where all shifts are zero, and f is
differentiated by the shifts. This is possible for real weights that are used once, by a linear
layer, a matrix product or an embedding.
"""

import inspect
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ntk_conditioning.kernels.differentiated_modules import (
    DRAWS,
    DifferentiatedModule,
    ModuleError,
    OutputsError,
    TrainingModeError,
    random_state,
    require_nothing_drawn,
    tensors,
)

_TRANSPOSING = {torch.t, Tensor.t, torch.transpose, Tensor.transpose}
_TRANSPOSING |= {getattr(Tensor, name).__get__ for name in ("T", "mT")}
_MULTIPLYING = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__}
_DIVIDING = {torch.div, Tensor.div, Tensor.__truediv__}
_OF_EMBEDDING = ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq")
#: The arguments of functions that compute a layer.
_ARGUMENTS: dict[Any, tuple[str, ...]] = {
    **dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__), ("input", "weight")),
    **dict.fromkeys((torch.mm, Tensor.mm, functional.linear), ("input", "weight")),
    functional.embedding: _OF_EMBEDDING,
}


@dataclass(frozen=True, eq=False)
class TracePlan:
    """What a module does with one sample, of tensors of these ``shapes``.

    ``layers`` has, for each weight whose gradient factors, the number of entries of its layer's
    input, and zero shifts (positions, out). ``outputs`` is the number of outputs, ``dtype`` theirs,
    ``precision`` the lowest on the way, ``sample_bytes`` the size of all intermediate results.
    """

    shapes: tuple[torch.Size, ...]
    layers: Mapping[str, tuple[int, Tensor]]
    outputs: int
    dtype: torch.dtype
    precision: torch.dtype
    sample_bytes: int

    @property
    def eps(self) -> float:
        """The relative rounding error of the lowest precision."""
        return torch.finfo(self.precision).eps


def survey(module: DifferentiatedModule, sample: Sequence[Tensor]) -> TracePlan:
    """Return what a module does with one sample, from two traced runs: it may be random.

    Raises `OutputsError`, `TrainingModeError` and `ModuleError`.
    """
    traces, outputs = [Trace(module.parameters), Trace(module.parameters)], list[Tensor]()
    before = random_state(module.device)
    module.outputs(sample)  # first without a trace, to fill caches that the module may have
    for trace in traces:
        with torch.enable_grad(), trace:
            outputs.append(module.outputs(sample))
    require_nothing_drawn(before, module.device)
    if traces[0].states != traces[1].states:
        raise TrainingModeError(DRAWS)
    if not torch.equal(outputs[0].nan_to_num(), outputs[1].nan_to_num()):
        raise TrainingModeError("the module gives other outputs each time; call model.eval()")
    if not outputs[0].requires_grad:
        raise OutputsError("the outputs have no gradients: do not detach what they are made of")
    trace = traces[0]
    dtypes = {t.dtype.to_real() for t in trace.results if t.requires_grad} | {outputs[0].dtype}
    lowest = max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)
    if torch.finfo(lowest).eps > torch.finfo(torch.float32).eps:
        raise ModuleError(
            f"the module computes in {lowest}, too coarse for a kernel; call model.float() or "
            "model.double(), and leave autocast"
        )
    once = [name for name in trace.zeros if trace.uses[name] == 1]
    layers = {name: (trace.inputs[name].numel(), trace.zeros[name]) for name in once}
    size = sum(t.nbytes for t in trace.results)
    c, dtype = outputs[0].shape[1], outputs[0].dtype
    return TracePlan(shapes_of(sample), layers, c, dtype, lowest, size)


def shapes_of(sample: Sequence[Tensor]) -> tuple[torch.Size, ...]:
    return tuple(t.shape for t in sample)


class Trace(TorchFunctionMode):
    """Watches the calls of torch's functions, also those within multi-head attention.

    ``uses`` counts those of each weight. ``inputs`` are the a (positions, in) of a weight's layer,
    or the row numbers (positions,) of an embedding, ``zeros`` the shifts (positions, out) that it
    needs. If ``shifts`` are given, they are added to the layers' results. ``results`` are all
    tensors that functions returned, ``states`` those of generators passed to them, ``last`` is the
    last function's name.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], shifts: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__()
        # Name and factor of each weight, and of its multiples and transposes, by id; the tensor
        # itself is kept, too, so that no other tensor gets this id.
        self._weights = {id(w): (name, 1.0, w) for name, w in weights.items()}
        self._shifts = shifts
        self.uses = Counter[str]()
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
        result = func(*args, **kwargs)
        if self._shifts is None:
            self.results += tensors(result)
            if isinstance(generator := kwargs.get("generator"), torch.Generator):
                self.states.append(generator.get_state().numpy().tobytes())
        weights = [self._weights[id(t)] for t in tensors((args, kwargs)) if id(t) in self._weights]
        if not weights or not tensors(result):
            return result
        for name, scale, weight in weights:
            factor = _factor_of_multiple(func, args, kwargs, weight)
            if factor is not None and len(weights) == 1:
                self._weights[id(result)] = name, scale * factor, result
                return result
            self.uses[name] += 1
            x, padding = _layer_of(func, args, kwargs, weight)
            if x is not None and id(x) not in self._weights:
                result = self._shifted(name, scale, result, x, padding)
        return result

    def _shifted(
        self, name: str, scale: float, result: Tensor, x: Tensor, padding: int | None
    ) -> Tensor:
        """Record a layer with the weight ``name``, and return its result with the shift added."""
        positions = result.numel() // result.shape[-1]
        self.inputs[name] = x.reshape(positions, *x.shape[-1:] if x.is_floating_point() else ())
        if self._shifts is None:
            self.zeros[name] = result.new_zeros(positions, result.shape[-1])
            return result
        shift = scale * self._shifts[name].view(result.shape)
        if padding is not None:  # the embedding's row of this number has no gradient
            shift = shift * (x != padding).unsqueeze(-1)
        return result + shift


def _factor_of_multiple(func: Any, args: Any, kwargs: Any, weight: Tensor) -> float | None:
    """Return c if a call returns c W or c Wᵀ for the weight W, and None for all other calls."""
    if kwargs or args[0] is not weight or weight.ndim != 2:
        return None
    if func in _TRANSPOSING:
        return 1.0
    if len(args) == 2 and isinstance(args[1], int | float):
        if func in _MULTIPLYING:
            return float(args[1])
        if func in _DIVIDING:
            return 1 / args[1]
    return None


def _layer_of(
    func: Any, args: Any, kwargs: Any, weight: Tensor
) -> tuple[Tensor, int | None] | tuple[None, None]:
    """Return the input of the layer that a call computes, if it does, and the row that pads it."""
    given = dict(zip(_ARGUMENTS.get(func, ()), args, strict=False)) | kwargs
    is_layer = func in _ARGUMENTS and weight.ndim == 2 and given.get("weight") is weight
    if not is_layer or weight.is_complex() or given.get("scale_grad_by_freq"):
        return None, None
    padding = given.get("padding_idx")
    return given["input"], None if padding is None else padding % len(weight)


def _instance_norm(*args: Any, **kwargs: Any) -> Tensor:
    """Return `torch.nn.functional.instance_norm`, by functions that `torch.func.vmap` takes."""
    given = inspect.signature(functional.instance_norm).bind(*args, **kwargs)
    given.apply_defaults()
    x, mean, variance, weight, bias, of_samples, _, eps = given.args
    if of_samples:
        return functional.group_norm(x, x.shape[1], weight, bias, eps)
    return functional.batch_norm(x, mean, variance, weight, bias, eps=eps)


def _with_visible_calls(function: Any) -> Any:
    """Return a copy of a Python function of torch's whose inner calls a `Trace` can see."""
    names = {**function.__globals__, "has_torch_function": lambda *_: False}
    copied = types.FunctionType(function.__code__, names, argdefs=function.__defaults__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


_attention = _with_visible_calls(functional.multi_head_attention_forward)
